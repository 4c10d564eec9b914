"""Clients that write as fast as they can, by pgbench."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from pgwhen.embedded import without_libpq

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster import Database

CLIENTS = 8


def commits(database: Database, scripts: Sequence[str], seconds: int, **variables: int) -> float:
    """Run *scripts*, each `path@weight`, for *seconds*; return commits a second."""
    done = subprocess.run(
        [
            database.server.installation.bin / "pgbench", "--no-vacuum",
            f"--client={CLIENTS}", "--jobs=2", f"--time={seconds}", "--protocol=prepared",
            *(f"--define={name}={value}" for name, value in variables.items()),
            *(f"--file={script}" for script in scripts),
        ],
        env=without_libpq(os.environ) | database.environment,
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found = re.search(r"^tps = ([\d.]+)", done.stdout, re.MULTILINE)
    assert found, done.stdout
    return float(found[1])
