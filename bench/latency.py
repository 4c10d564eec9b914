"""Commit to handler start, against the least that LISTEN can do.

The yardstick is a loop of a few lines (bare_listener.py): wait for a notification, DELETE …
RETURNING the row. Both times begin with the commit of the INSERT by the server's clock, and end in
Python on the same machine: in the handler, and when the row is in hand. Writes come one at a time,
at a steady pace. The first events of a round are not counted, on either side: what connections,
plans and caches cost once is not what an event costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bare_listener import READY
from cluster import Database
from listening import PATIENCE, listening
from report import Ratio, paired, quantile, say

from pgwhen.embedded import without_libpq

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from pgwhen.embedded import Server

HERE = Path(__file__).parent
ROUNDS = 5
#: Events before those that are counted.
WARM_UP = 20


@dataclass(frozen=True)
class Pace:
    """So many events a second, and how many of them in a round."""

    name: str
    per_second: int
    events: int


PACES = (Pace("idle", 10, 100), Pace("50_per_s", 50, 300), Pace("500_per_s", 500, 2000))

SET_UP = """
insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
values ('start', 'form_submitted', '{"formId": "bench"}', 'note_start', '{}', 'always');

create schema bench;
create table bench.queue (id bigint primary key generated always as identity, user_id text);
create table bench.received (xid xid, at float8);
"""
WRITE = "insert into pgwhen.form_submission (user_id, form_id) values (%s, 'bench')"
WRITE_BARE = (
    "with row as (insert into bench.queue (user_id) values (%s)) select pg_notify('bench', '')"
)
WAITS = """
select (a.result ->> 'started')::float8
    - extract(epoch from pg_xact_commit_timestamp(f.xmin))::float8
from pgwhen.form_submission as f
inner join pgwhen.scheduled_action as a on (a.event ->> 'key') = 'bench' and a.user_id = f.user_id
order by f.id
"""
WAITS_BARE = """
select r.at - extract(epoch from pg_xact_commit_timestamp(r.xid))::float8
from bench.received as r
order by pg_xact_commit_timestamp(r.xid)
"""


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return the ratios of the medians and of the 99th percentiles at each pace."""
    database = Database(server, "latency")
    ratios = []
    with database.connect() as conn:
        conn.execute(SET_UP.encode(), prepare=False)
        for pace in PACES:
            count = max(20, int(pace.events * scale))
            say(f"latency: {count} events a round at {pace.per_second} a second")
            ours: list[list[float]] = []
            bare: list[list[float]] = []
            for number in range(1, ROUNDS + 1):
                ours.append(_product(database, conn, pace, count))
                bare.append(_yardstick(database, conn, pace, count))
                say(f"  round {number}: {_words(ours[-1])}; bare {_words(bare[-1])}")
            for name, q in (("p50", 0.5), ("p99", 0.99)):
                value = paired([quantile(w, q) for w in ours], [quantile(w, q) for w in bare])
                ratios.append(Ratio(f"latency_{pace.name}_{name}", value, 2, at_most=True))
    return ratios


def _product(database: Database, conn: psycopg.Connection, pace: Pace, count: int) -> list[float]:
    conn.execute("truncate pgwhen.form_submission, pgwhen.scheduled_action")
    conn.execute("vacuum analyze")
    with listening(database, conn):
        _write(database, WRITE, pace, count)
    return _waits(conn, WAITS, count)


def _yardstick(database: Database, conn: psycopg.Connection, pace: Pace, count: int) -> list[float]:
    conn.execute("truncate bench.queue, bench.received")
    conn.execute("vacuum analyze")
    with _bare_listener(database, WARM_UP + count):
        _write(database, WRITE_BARE, pace, count)
    return _waits(conn, WAITS_BARE, count)


@contextmanager
def _bare_listener(database: Database, count: int) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, HERE / "bare_listener.py", str(count)],
        env=without_libpq(os.environ) | database.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == READY
        yield
        assert process.wait(PATIENCE) == 0


def _write(database: Database, statement: str, pace: Pace, count: int) -> None:
    """Write one row each time that one is due, the warm-up's first."""
    with database.connect() as conn:
        start = time.perf_counter()
        for number in range(WARM_UP + count):
            time.sleep(max(0.0, start + number / pace.per_second - time.perf_counter()))
            conn.execute(statement.encode(), [f"U{number}"])


def _waits(conn: psycopg.Connection, query: str, count: int) -> list[float]:
    """Return the seconds that each event waited, in the order of their commits."""
    waits = [float(seconds) for (seconds,) in conn.execute(query.encode())]
    assert len(waits) == WARM_UP + count, f"{len(waits)} of {WARM_UP + count} events arrived"
    return waits[WARM_UP:]


def _words(waits: list[float]) -> str:
    return f"p50 {1000 * quantile(waits, 0.5):.2f} p99 {1000 * quantile(waits, 0.99):.2f} ms"
