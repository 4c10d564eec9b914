"""process_events with SQL actions, against bare INSERTs of the same rows.

A drain processes the events of one UPDATE of all users: three candidate rules each, about 1.3
firings. The yardstick is what no engine can do without: the rows which that drain left (the kept
event, log, audience, reservation, false counts), inserted again into the same tables, set-based, in
the same batches and commits, with nothing decided.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from cluster import Database
from report import Ratio, paired, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from pgwhen.embedded import Server

HERE = Path(__file__).parent
ROUNDS = 5
USERS = 40_000
OTHER_RULES = 100_000
#: What one drain writes. Each row's xmin says in which batch it was written.
WRITTEN = (
    "_pgwhen.processed_event",
    "pgwhen.trigger_log",
    "pgwhen.audience_member",
    "_pgwhen.reservation",
    "_pgwhen.false_count",
)
TRUNCATE = f"truncate {', '.join(WRITTEN)}"
PROCESS = "select p.events from pgwhen.process_events(worker => %s) as p"
LEFT = "select exists (select from _pgwhen.outbox)"


@dataclass
class Speeds:
    """Events a second, round by round."""

    product: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)
    crowded: list[float] = field(default_factory=list)


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return the ratios for 1 and 2 connections, alone and among rules that do not match."""
    users, others = max(1000, int(USERS * scale)), int(OTHER_RULES * scale)
    say(f"throughput: {users:,} users; {others:,} rules that do not match")
    plain, crowded = Database(server, "throughput"), Database(server, "throughput_crowded")
    for database in (plain, crowded):
        with database.connect() as conn:
            conn.execute((HERE / "throughput.sql").read_bytes(), prepare=False)
            conn.execute("call bench.load(%s)", [users])
    with crowded.connect() as conn:
        conn.execute("select bench.add_other_rules(%s)", [others])

    ratios = []
    for connections in (1, 2):
        speeds = Speeds()
        for number in range(1, ROUNDS + 1):
            _round(speeds, plain, crowded, connections)
            say(
                f"  {connections} connection(s), round {number}: "
                f"product {speeds.product[-1]:,.0f}, bare {speeds.bare[-1]:,.0f}, "
                f"crowded {speeds.crowded[-1]:,.0f} events/s"
            )
        say(
            f"  medians: product {median(speeds.product):,.0f}, bare {median(speeds.bare):,.0f}, "
            f"crowded {median(speeds.crowded):,.0f} events/s"
        )
        ratios += [
            Ratio(f"throughput_{connections}", paired(speeds.product, speeds.bare), 0.35),
            Ratio(f"throughput_{connections}_crowded", paired(speeds.crowded, speeds.product), 0.9),
        ]
    return ratios


def _round(speeds: Speeds, plain: Database, crowded: Database, connections: int) -> None:
    speeds.product.append(_drain(plain, connections))
    speeds.bare.append(_replay(plain, connections))
    speeds.crowded.append(_drain(crowded, connections))


def _drain(database: Database, connections: int) -> float:
    """Process one event of each user; return events a second."""
    with database.connect() as conn:
        conn.execute(TRUNCATE.encode())
        conn.execute("update pgwhen.line_user set attributes = bench.next_attributes(attributes)")
        events = _scalar(conn, "select count(*) from _pgwhen.outbox")
        _settle(conn)

    def work(number: int, conn: psycopg.Connection) -> None:
        while _scalar(conn, PROCESS, [f"bench-{number}"]) or _scalar(conn, LEFT):
            pass

    return events / _timed(database, connections, work)


def _replay(database: Database, connections: int) -> float:
    """Insert what the last drain of *database* wrote once more; return events a second."""
    with database.connect() as conn:
        conn.execute("select bench.stage(%s::regclass[])", [list(WRITTEN)])
        events = _scalar(conn, f"select count(*) from {WRITTEN[0]}")
        batches = _scalar(conn, "select count(*) from bench.batch")
        conn.execute(TRUNCATE.encode())
        _settle(conn)

    def work(number: int, conn: psycopg.Connection) -> None:
        for batch in range(number, batches + 1, connections):
            conn.execute("select bench.replay(%s)", [batch])

    return events / _timed(database, connections, work)


def _settle(conn: psycopg.Connection) -> None:
    """Begin from a state that does not depend on what was done before."""
    conn.execute("vacuum analyze")
    conn.execute("checkpoint")


def _timed(
    database: Database, connections: int, work: Callable[[int, psycopg.Connection], None]
) -> float:
    """Run *work* on each connection at once; return the seconds until the last is done."""
    sessions = [database.connect() for _ in range(connections)]
    with ThreadPoolExecutor(connections) as threads:
        start = time.perf_counter()
        for done in [threads.submit(work, n, conn) for n, conn in enumerate(sessions, start=1)]:
            done.result()
        seconds = time.perf_counter() - start
    for conn in sessions:
        conn.close()
    return seconds


def _scalar(conn: psycopg.Connection, query: str, values: Sequence[object] = ()) -> int:
    row = conn.execute(query.encode(), values).fetchone()
    assert row is not None
    return int(row[0])
