"""docs/errors.md has every SQLSTATE that can be raised, and no other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support import ROOT

if TYPE_CHECKING:
    from pathlib import Path

CODE = re.compile(r"\bPW[0-9]{3}\b")


def codes(*files: Path) -> set[str]:
    """Find the SQLSTATEs in *files*."""
    return {code for file in files for code in CODE.findall(file.read_text(encoding="utf-8"))}


def test_page_lists_what_is_raised() -> None:
    """A code that is missing from the page has no explanation; one too many misleads."""
    sources = [*(ROOT / "sql").rglob("*.sql"), *(ROOT / "listener" / "pgwhen").rglob("*.py")]
    sources += (ROOT / "listener" / "pgwhen").rglob("*.sql")

    assert codes(ROOT / "docs" / "errors.md") == codes(*sources)
