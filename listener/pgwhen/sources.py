"""The SQL that this package carries: `migrations/` (state) and `sql/` (behaviour).

A wheel holds both inside the package; a checkout holds them at its root.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).parent
_INSTALLED = _PACKAGE / "_data"

ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parents[1]

_INCLUDE = re.compile(r"\\ir (\S+)")


@dataclass(frozen=True)
class Script:
    """One SQL file: *name* as people know it, and its *text* with single line feeds."""

    name: str
    text: str

    @property
    def digest(self) -> str:
        """The sha256 of the text, in hex: what the ledger remembers of a migration."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations() -> list[Script]:
    """Every migration in the order of its number; the name is the file's stem."""
    files = sorted((ROOT / "migrations").glob("[0-9]*.sql"))
    return [Script(file.stem, file.read_text(encoding="utf-8")) for file in files]


def behaviour() -> list[Script]:
    """Every file of the manifest in its order; the name is the path below the root."""
    return [
        Script(f"sql/{path}", (ROOT / "sql" / path).read_text(encoding="utf-8"))
        for path in manifest()
    ]


def manifest() -> list[str]:
    r"""Return the paths that `sql/pgwhen.psql` includes, relative to `sql/`, in its order.

    Raises ValueError at a line that is neither empty, nor a comment, nor an ``\ir``: psql would
    run it, and the deployer would not.
    """
    file = ROOT / "sql" / "pgwhen.psql"
    paths = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line or line.startswith("--"):
            continue
        include = _INCLUDE.fullmatch(line)
        if include is None:
            message = f"{file}:{number}: only comments and \\ir lines may stand here: {line}"
            raise ValueError(message)
        paths.append(include[1])
    return paths
