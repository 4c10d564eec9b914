"""The rules of CONTRIBUTING.md that a program can check in the files themselves."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import pgwhen
from pgwhen import sources
from tests.support import ROOT

PACKAGE = Path(pgwhen.__file__).parent
#: What is built around the listener's core: pyproject.toml says who may import whom.
AROUND = {
    "__init__", "__main__", "check", "cli", "demo", "deploy", "embedded", "handler_source",
    "loader", "log_message", "logs", "run", "sources", "status", "tail", "testing",
}  # fmt: skip
CORE = sorted(file for file in PACKAGE.glob("*.py") if file.stem not in AROUND)

#: Not for this repository's eyes: split, so that this file does not name it.
ELSEWHERE = "../" + "shared"

NOT_OURS = {
    ".git",
    ".hypothesis",
    ".mypy_cache",
    ".pg",
    ".pytest_cache",
    ".ruff_cache",
    ".venv",
    ".venv-peers",
}


def lines(file: Path) -> int:
    """Count the lines of *file*."""
    return len(file.read_text(encoding="utf-8").splitlines())


def lines_of_code(file: Path) -> int:
    """Count the lines of *file* that are neither empty, nor comments, nor docstrings."""
    text = file.read_text(encoding="utf-8")
    explaining: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            explaining.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        number not in explaining and bool(line.strip()) and not line.lstrip().startswith("#")
        for number, line in enumerate(text.splitlines(), start=1)
    )


def ours() -> list[Path]:
    """List the files of this repository: not what tools keep beside them."""
    tops = [top for top in ROOT.iterdir() if top.name not in NOT_OURS]
    files = [file for top in tops for file in (top.rglob("*") if top.is_dir() else [top])]
    return [file for file in files if file.is_file() and file.suffix != ".pyc"]


def test_manifest_has_each_file_once() -> None:
    """A file under sql/ that the manifest forgets would never be deployed."""
    files = (ROOT / "sql").rglob("*.sql")

    assert sorted(sources.manifest()) == sorted(str(f.relative_to(ROOT / "sql")) for f in files)


def test_grants_come_last() -> None:
    """What is created after them would be open to PUBLIC."""
    assert sources.manifest()[-1] == "grants.sql"


def test_manifest_holds_includes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that only psql would run is refused, with its number."""
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "pgwhen.psql").write_text("-- Core\n\n\\ir a.sql\nselect 1;\n")
    monkeypatch.setattr(sources, "ROOT", tmp_path)

    with pytest.raises(ValueError, match=r"pgwhen\.psql:4: "):
        sources.manifest()


@pytest.mark.parametrize("module", CORE, ids=lambda file: file.stem)
def test_core_module_is_small(module: Path) -> None:
    """A module of the listener's core fits in one reading."""
    assert lines(module) <= 200


def test_core_is_small() -> None:
    """The core as a whole is some 2,400 lines of code, what explains it not counted."""
    assert sum(lines_of_code(module) for module in CORE) <= 2400


@pytest.mark.parametrize("file", sorted((ROOT / "migrations").glob("*.sql")), ids=lambda f: f.name)
def test_migration_is_state_only(file: Path) -> None:
    """A migration reads no clock and neither makes nor calls what sql/ makes."""
    text = "\n".join(line.split("--")[0] for line in file.read_text().splitlines()).lower()

    assert not [
        word for word in ("now()", "clock", "current_", "create or replace") if word in text
    ]
    assert "create function" not in text
    assert "create trigger" not in text


def test_errors_are_listed() -> None:
    """Each code that SQL or the deployer raises stands in docs/errors.md, and no other."""
    code = re.compile(r"\bPW\d{3}\b")
    sources_of_errors = [
        *(ROOT / "sql").rglob("*.sql"),
        *PACKAGE.glob("*.sql"),
        *PACKAGE.glob("*.py"),
    ]
    raised = {found for file in sources_of_errors for found in code.findall(file.read_text())}

    assert set(code.findall((ROOT / "docs" / "errors.md").read_text())) == raised


def test_repository_stands_alone() -> None:
    """No file points outside the repository."""
    assert [file for file in ours() if ELSEWHERE.encode() in file.read_bytes()] == []
