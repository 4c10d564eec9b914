"""A copy of the SQL sources that a test may change, as a next release would."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from pgwhen import sources

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of a copy of `sql/` and `migrations/` that the deployer now reads."""
    for folder in ("sql", "migrations"):
        shutil.copytree(sources.ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def migration(tree: Path) -> Path:
    """Return a new migration, the next after all others, that adds a column."""
    file = tree / "migrations" / "9000_note.sql"
    file.write_text("alter table pgwhen.trigger_rule add column note text;\n", encoding="utf-8")
    return file
