"""Eight writers on a watched table beside a busy listener, and what the doorbell costs them.

The same load runs against a listener that sleeps until it is rung for, and against one that polls
every 2 ms with no doorbell at all. Each commit updates one user and is one event: three rules ask
for it, SQL actions fire, and for one event in twenty a Python handler runs. One transaction in ten
stays open for 20 ms after its update.

How long an event waited is the time between two commits, both by the server's clock: that of the
writer, whose id is in the event, and that of the batch that processed it.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from cluster import Database
from listening import listening
from pgbench import CLIENTS, commits
from report import Ratio, paired, quantile, say

if TYPE_CHECKING:
    import psycopg

    from pgwhen.embedded import Server

HERE = Path(__file__).parent
ROUNDS = 5
SECONDS = 10
USERS = 20_000
POLL = 0.002

WAITS = """
select 1000 * extract(epoch from
    pg_xact_commit_timestamp(e.xmin) - pg_xact_commit_timestamp((e.new #>> '{}')::xid)
)::float8
from _pgwhen.processed_event as e
"""


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return commits/s as a part of those with polling, and the 99th percentile of the waits."""
    users, seconds = max(800, int(USERS * scale)), max(1, round(SECONDS * scale))
    say(f"writers: {CLIENTS} of them for {seconds} s a round; {users:,} users")
    database = Database(server, "writers")
    with database.connect() as conn:
        conn.execute((HERE / "writers.sql").read_bytes(), prepare=False)
        conn.execute("call bench.load(%s)", [users])
        bell: list[float] = []
        poll: list[float] = []
        waits: list[list[float]] = []
        for number in range(1, ROUNDS + 1):
            bell.append(_round(database, conn, users, seconds, None))
            waits.append([wait for (wait,) in conn.execute(WAITS.encode())])
            poll.append(_round(database, conn, users, seconds, POLL))
            say(
                f"  round {number}: {bell[-1]:,.0f} commits/s, polling {poll[-1]:,.0f}; "
                f"commit to processed p50 {quantile(waits[-1], 0.5):.1f} ms, "
                f"p99 {quantile(waits[-1], 0.99):.1f} ms"
            )
    return [
        Ratio("writers_commits", paired(bell, poll), 0.9),
        Ratio("writers_p99_ms", median(quantile(w, 0.99) for w in waits), 10, at_most=True),
    ]


def _round(
    database: Database, conn: psycopg.Connection, users: int, seconds: int, poll: float | None
) -> float:
    """Let the writers write for *seconds*; return their commits a second."""
    conn.execute("truncate _pgwhen.processed_event, pgwhen.trigger_log, pgwhen.scheduled_action")
    conn.execute("vacuum analyze")
    conn.execute("checkpoint")
    with listening(database, conn, poll):
        return commits(
            database,
            [f"{HERE / 'write.pgbench'}@9", f"{HERE / 'write_slowly.pgbench'}@1"],
            seconds,
            users=users // CLIENTS,
        )
