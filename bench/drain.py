"""How fast one listener empties a queue of due actions, beside pgqueuer and graphile-worker.

All handlers do nothing. The jobs are in their table, vacuumed and checkpointed, before the worker
starts; the time is from when it says that it begins until its table has none left. pgwhen keeps its
finished rows and writes one of the log for each; the others delete theirs (pgqueuer logs them too).
A handler of single actions is compared with pgqueuer, which has no others, and one that takes many
with graphile-worker, which fetches and completes in batches.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from cluster import Database
from listening import IDLE, wait_until
from peers import graphile_worker, pgqueuer
from report import Ratio, paired, say

from pgwhen.embedded import without_libpq

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers import Peer

    from pgwhen.embedded import Server

HERE = Path(__file__).parent
ROUNDS = 5
JOBS = 100_000
LISTENER = [sys.executable, "-m", "pgwhen", "run", str(HERE / "drain_handlers.py")]
#: What workers print: that they begin, and that they have handled all.
STARTING = re.compile("starting|serving")
HANDLED = "handled"


@dataclass(frozen=True)
class Contestant:
    """A worker with a database of its own."""

    name: str
    database: Database
    worker: list[str]
    #: Statements that empty the tables, write so many jobs, and ask whether any are left.
    clear: str
    add: str
    left: str


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return the drain of single and of batch handlers as a part of a peer's."""
    jobs = max(2000, int(JOBS * scale))
    say(f"drain: {jobs:,} due actions a round")
    ratios = []
    for kind, goal, find in (("single", 1.5, pgqueuer), ("batch", 1.0, graphile_worker)):
        ours, peer = _listener(server, kind), find()
        theirs = None if peer is None else _peer(server, peer)
        product: list[float] = []
        yardstick: list[float] = []
        for number in range(1, ROUNDS + 1):
            product.append(_drain(ours, jobs))
            if theirs is not None:
                yardstick.append(_drain(theirs, jobs))
            beside = f", {theirs.name} {yardstick[-1]:,.0f}" if theirs else ""
            say(f"  {kind} handlers, round {number}: {product[-1]:,.0f}{beside} actions/s")
        say(f"  {kind} handlers, median: {median(product):,.0f} actions/s")
        if theirs is not None:
            ratios.append(Ratio(f"drain_{kind}", paired(product, yardstick), goal))
    return ratios


def _listener(server: Server, kind: str) -> Contestant:
    database = Database(server, f"drain_{kind}")
    with database.connect() as conn:
        conn.execute((HERE / "actions.sql").read_bytes(), prepare=False)
    return Contestant(
        f"pgwhen, {kind} handlers", database, LISTENER,
        clear="truncate pgwhen.scheduled_action, pgwhen.trigger_log",
        add=f"select bench.add_actions('{kind}', %s)",
        left=f"select not ({IDLE})",
    )  # fmt: skip


def _peer(server: Server, peer: Peer) -> Contestant:
    database = Database(server, f"drain_{peer.name.replace('-', '_')}", deployed=False)
    subprocess.run(peer.install, env=_environment(database), check=True, capture_output=True)
    return Contestant(peer.name, database, peer.worker, peer.clear, peer.add, peer.left)


def _drain(contestant: Contestant, jobs: int) -> float:
    """Return jobs a second."""
    with contestant.database.connect() as conn:
        conn.execute(contestant.clear.encode())
        conn.execute(contestant.add.encode(), [jobs])
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")
        with _working(contestant, jobs) as process:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            assert any(STARTING.search(line) for line in lines), f"{contestant.name} did not start"
            start = time.perf_counter()
            assert any(HANDLED in line for line in lines), f"{contestant.name} ended too soon"
            wait_until(conn, f"select not ({contestant.left})", process)
            return jobs / (time.perf_counter() - start)


@contextmanager
def _working(contestant: Contestant, jobs: int) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        contestant.worker,
        env=_environment(contestant.database) | {"BENCH_COUNT": str(jobs)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    with process:
        try:
            yield process
        finally:
            process.kill()


def _environment(database: Database) -> dict[str, str]:
    return without_libpq(os.environ) | database.environment
