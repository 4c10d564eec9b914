"""Hold the handlers of an example to the checklist for those that touch money."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def unmet_points(handlers: Path) -> list[str]:
    """Return the points that `pgwhen check` does not find met, as it says them."""
    checked = subprocess.run(
        [sys.executable, "-m", "pgwhen", "check", handlers, "--tests", ROOT / "tests" / "demo"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.strip() for line in checked.stdout.splitlines()]
    assert any(line.startswith("ok ") for line in lines), checked.stdout
    return [line for line in lines if line.startswith(("missing ", "cannot tell "))]
