"""What it costs the server that many actions run for long.

Heartbeats: 10,000 actions with a heartbeat timeout of 10 seconds run, and their handlers beat all
the time, so that each writes once in 8 seconds (0.8 of the timeout). Once a second what is due to
beat is told by one call and the sweep looks for what is stale, as a listener does. Measured is the
processor time of all of the server's processes, autovacuum among them, as a part of one processor.

Sweep: 100,000 running actions, none of which is to beat, of which 100 have passed their deadline,
against those 100 alone: rounds alternate, each takes the 100 back.

Timers: how often the sweep sets the timer of an action that beats anew, for each action and
timeout.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from cluster import Database
from report import Ratio, say

if TYPE_CHECKING:
    import psycopg

    from pgwhen.embedded import Server

HERE = Path(__file__).parent
RUNNING = 10_000
TIMEOUT = 10.0
EVERY = 0.8 * TIMEOUT
SECONDS = 48
SWEPT = 100_000
STALE = 100
ROUNDS = 5

BEAT = "select count(*) from pgwhen.heartbeat_actions('bench', %s, %s) as r where r.held"
SWEEP = "select pgwhen.recover_stale_actions()"
RUN = """
insert into pgwhen.scheduled_action (
    user_id, action_type, execute_at, status, key, claim_token, worker, deadline
)
select
    'U' || i, 'note', now(), 'processing', gen_random_uuid(), gen_random_uuid(), 'bench',
    _pgwhen.write_clock() + %s::interval
from generate_series(1, %s) as i
"""
UPDATES = "select n_tup_upd from pg_stat_user_tables where relname = 'scheduled_action'"


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return the part of a processor that heartbeats take, and what a sweep costs beside others."""
    processor, timers = _heartbeats(server, max(100, int(RUNNING * min(1, scale))))
    return [
        Ratio("heartbeats_processor", processor, 0.15, at_most=True),
        Ratio("heartbeats_timers", timers, 1, at_most=True),
        Ratio("sweep", _sweep(server, max(1000, int(SWEPT * scale))), 1.5, at_most=True),
    ]


def _heartbeats(server: Server, running: int) -> tuple[float, float]:
    database = Database(server, "heartbeats")
    say(f"heartbeats: {running:,} running actions, each told every {EVERY:g} s, for {SECONDS} s")
    with database.connect() as conn:
        claims = _start(conn, running)
        turns = [claims[n :: int(EVERY)] for n in range(int(EVERY))]
        for _ in range(2):  # the first heartbeat of an attempt is another one
            conn.execute("vacuum analyze")
            for turn in turns:
                _beat(conn, turn)
        conn.execute("select pg_stat_force_next_flush()")
        (before,) = conn.execute(UPDATES).fetchone() or (0,)
        used, start = _processor_seconds(server), time.perf_counter()
        for second in range(SECONDS):
            _beat(conn, turns[second % len(turns)])
            (stale,) = conn.execute(SWEEP).fetchone() or (None,)
            assert stale == 0, f"{stale} actions that beat were taken back"
            time.sleep(max(0, start + second + 1 - time.perf_counter()))
        seconds = time.perf_counter() - start
        used = _processor_seconds(server) - used
        conn.execute("select pg_stat_force_next_flush()")
        (after,) = conn.execute(UPDATES).fetchone() or (0,)
    anew = (after - before) / running / (seconds / TIMEOUT)
    say(f"  the server used {used:.1f} s in {seconds:.0f} s; {anew:.2f} timers anew a timeout")
    return used / seconds, anew


def _start(conn: psycopg.Connection, running: int) -> list[tuple[int, Any]]:
    """Claim so many actions that are to beat; return their ids and tokens."""
    conn.execute((HERE / "actions.sql").read_bytes(), prepare=False)
    conn.execute(
        "select pgwhen.register_action('note', options => %s)",
        [f'{{"timeouts": {{"startToClose": 3600, "heartbeat": {TIMEOUT}}}}}'],
    )
    conn.execute("select bench.add_actions('note', %s)", [running])
    claims: list[tuple[int, Any]] = []
    while len(claims) < running:
        claims += conn.execute(
            "select id, token from pgwhen.claim_actions('bench', 500, '{note}')"
        ).fetchall()
    return claims


def _beat(conn: psycopg.Connection, claims: list[tuple[int, Any]]) -> None:
    ids, tokens = (list(column) for column in zip(*claims, strict=True))
    (held,) = conn.execute(BEAT, [ids, tokens]).fetchone() or (0,)
    assert held == len(claims), f"{len(claims) - held} claims were lost"


def _processor_seconds(server: Server) -> float:
    """Return what the server's processes have used, those that have ended among them."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == postmaster:
            ticks += int(fields[11]) + int(fields[12])
        elif int(stat.parent.name) == postmaster:
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _sweep(server: Server, others: int) -> float:
    alone, beside = Database(server, "sweep_alone"), Database(server, "sweep_beside")
    say(f"sweep: {STALE} stale actions beside {others:,} that run, and alone")
    with alone.connect() as one, beside.connect() as other:
        for conn in (one, other):
            conn.execute("select pgwhen.register_action('note')")
        other.execute(RUN, ["1 day", others])
        rounds = [(_swept(other), _swept(one)) for _ in range(ROUNDS)]
    say("  " + ", ".join(f"{1000 * b:.1f} and {1000 * a:.1f} ms" for b, a in rounds))
    return median(b / a for b, a in rounds)


def _swept(conn: psycopg.Connection) -> float:
    """Return the seconds that the sweep takes for so many stale actions."""
    conn.execute(RUN, ["0", STALE])
    start = time.perf_counter()
    (stale,) = conn.execute(SWEEP).fetchone() or (0,)
    seconds = time.perf_counter() - start
    assert stale == STALE, f"{stale} of {STALE} were taken back"
    return seconds
