"""Build `dist/`: one SQL file that psql installs, and the wheel. `make dist` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pgwhen import __version__
from pgwhen.deploy import installer

ROOT = Path(__file__).resolve().parents[1]

HEAD = f"""\
-- pgwhen {__version__}: installs it, or brings an older one to this version, in one transaction.
--
--   psql -f pgwhen-{__version__}.sql
--
"""


def build(target: Path) -> None:
    """Write the SQL file and the wheel into the directory *target*."""
    target.mkdir(parents=True, exist_ok=True)
    (target / f"pgwhen-{__version__}.sql").write_text(HEAD + installer(), encoding="utf-8")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run([*command, "--directory", target.absolute()], cwd=ROOT, check=True)


if __name__ == "__main__":
    build(ROOT / "dist")
