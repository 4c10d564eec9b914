"""Actions that are due as soon as they are committed, and actions that become due.

Eight clients each commit one action a transaction, due at once, while a listener works: one that
sleeps until it is rung for, and one that polls every 2 ms with no doorbell. How long an action
waited is the time from the commit, by the server's clock, to the start of its handler.

Then one listener has nothing to do but to wait, beside many actions that are due tomorrow, and a
few that are due soon, one after another. How late a handler starts is counted from execute_at.
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
POLL = 0.002
OTHERS = 1_000_000
SOON = 300

EMPTY = "truncate pgwhen.scheduled_action, pgwhen.trigger_log"
WAITS = """
select (a.result ->> 'started')::float8 - extract(epoch from
    pg_xact_commit_timestamp((a.action_config ->> 'writer')::xid)
)::float8
from pgwhen.scheduled_action as a
where a.status = 'done'
"""
COMMITTED = "select count(*) from pgwhen.scheduled_action"
LATENESS = """
select (a.result ->> 'started')::float8 - extract(epoch from a.execute_at)::float8
from pgwhen.scheduled_action as a
where a.status = 'done'
"""
#: By the indexes: an observer that reads a million rows again and again is a load of its own.
NONE_SOON = """
select
    not exists (select from pgwhen.scheduled_action as a where a.status = 'processing')
    and not exists (
        select
        from pgwhen.scheduled_action as a
        where
            a.status = 'pending' and a.action_type = 'note_start' and not a.waiting
            and a.execute_at < clock_timestamp() + interval '1 hour'
    )
"""


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return commits/s as a part of those with polling, and 99th percentiles in milliseconds."""
    return [*_at_once(server, scale), _soon(server, scale)]


def _at_once(server: Server, scale: float) -> list[Ratio]:
    seconds = max(1, round(SECONDS * scale))
    say(f"scheduled: {CLIENTS} clients for {seconds} s a round")
    database = Database(server, "scheduled")
    bell: list[float] = []
    poll: list[float] = []
    p99: list[float] = []
    with database.connect() as conn:
        conn.execute("select pgwhen.register_action('note_start')")
        for number in range(1, ROUNDS + 1):
            bell.append(_round(database, conn, seconds, None))
            waits = _waits(conn)
            p99.append(1000 * quantile(waits, 0.99))
            poll.append(_round(database, conn, seconds, POLL))
            say(
                f"  round {number}: {bell[-1]:,.0f} commits/s, polling {poll[-1]:,.0f}; "
                f"commit to start p50 {1000 * quantile(waits, 0.5):.1f} ms, p99 {p99[-1]:.1f} ms"
            )
    return [
        Ratio("scheduled_commits", paired(bell, poll), 0.9),
        Ratio("scheduled_p99_ms", median(p99), 15, at_most=True),
    ]


def _round(database: Database, conn: psycopg.Connection, seconds: int, poll: float | None) -> float:
    conn.execute(EMPTY.encode())
    conn.execute("vacuum analyze")
    conn.execute("checkpoint")
    with listening(database, conn, poll):
        return commits(database, [str(HERE / "schedule.pgbench")], seconds)


def _waits(conn: psycopg.Connection) -> list[float]:
    """Return the seconds that each action waited; all must have been handled."""
    waits = [float(seconds) for (seconds,) in conn.execute(WAITS.encode())]
    (committed,) = conn.execute(COMMITTED.encode()).fetchone() or (0,)
    assert len(waits) == committed, f"{len(waits)} of {committed} actions were handled"
    return waits


def _soon(server: Server, scale: float) -> Ratio:
    others, soon = int(OTHERS * scale), max(20, int(SOON * scale))
    say(f"scheduled: {soon} due one after another, beside {others:,} due tomorrow")
    database = Database(server, "scheduled_soon")
    with database.connect() as conn:
        conn.execute((HERE / "actions.sql").read_bytes(), prepare=False)
        conn.execute("select pgwhen.register_action('note_start')")
        conn.execute("select bench.add_actions('note_start', %s, '1 day')", [others])
        conn.execute("vacuum analyze")
        with listening(database, conn, idle=NONE_SOON):
            conn.execute(
                "select bench.add_actions('note_start', %s, '2 s', apart => '50 ms')", [soon]
            )
        late = [1000 * float(seconds) for (seconds,) in conn.execute(LATENESS.encode())]
    assert len(late) == soon, f"{len(late)} of {soon} actions were handled"
    say(f"  late by p50 {quantile(late, 0.5):.1f} ms, p99 {quantile(late, 0.99):.1f} ms")
    return Ratio("scheduled_late_p99_ms", quantile(late, 0.99), 50, at_most=True)
