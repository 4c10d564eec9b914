"""Claiming and acknowledging, against the bare UPDATEs that no queue of rows can do without.

One connection claims 500 due actions and acknowledges them, in two calls, until none is left. The
yardstick does so on a table of four columns: an UPDATE of 500 rows that are locked with SKIP LOCKED
in the order in which they are due, and an UPDATE of the same rows by their ids. Its rows have no
token, deadline, worker or log.

The product writes a row of trigger_log for each action; it is measured with these, and with a
trigger on trigger_log that drops each (at the product's cost). Then, against the product in an
empty table: beside rows that are not due, beside finished rows, and under a transaction that has
been open since before the first row was written and keeps all dead rows of all rounds.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from cluster import Database
from report import Ratio, paired, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from pgwhen.embedded import Server

HERE = Path(__file__).parent
ROUNDS = 5
BATCH = 500
DUE = 50_000
OTHERS = 1_000_000

CLAIM = (
    "select array_agg(c.id), array_agg(c.token)"
    " from pgwhen.claim_actions('bench', %s, '{note}') as c"
)
COMPLETE = "select count(*) from pgwhen.complete_actions('bench', %s, %s)"
CLAIM_BARE = """
with claimed as (
    update bench.action as a
    set status = 'processing'
    where a.id = any(array(
        select d.id
        from bench.action as d
        where d.status = 'pending' and d.execute_at <= now()
        order by d.execute_at, d.id
        limit %s
        for no key update skip locked
    ))
    returning a.id
)
select array_agg(c.id) from claimed as c
"""
COMPLETE_BARE = "update bench.action as a set status = 'done' where a.id = any(%s)"
EMPTY = "truncate pgwhen.scheduled_action, pgwhen.trigger_log, _pgwhen.floor, bench.action"
ADD = "select bench.add_actions('note', %s, %s, %s)"


@dataclass(frozen=True)
class Side:
    """One of what is compared. *fill* writes the rows that are due; *claim_all* ends them."""

    name: str
    database: Database
    fill: Callable[[psycopg.Connection, int], None]
    claim_all: Callable[[psycopg.Connection], int]


def measure(server: Server, scale: float) -> list[Ratio]:
    """Return the product's ratios to the yardstick, and to itself where it should not matter."""
    due, others = max(5000, int(DUE * scale)), int(OTHERS * scale)
    say(f"claims: {due:,} due actions a round; {others:,} others")
    bare, plain, unlogged, pending, finished, held = (
        _database(server, f"claims_{name}")
        for name in ("bare", "plain", "unlogged", "pending", "finished", "held")
    )
    with unlogged.connect() as conn:
        conn.execute(
            "create trigger drop_row before insert on pgwhen.trigger_log"
            " for each row execute function bench.drop_row()"
        )
    with pending.connect() as conn:
        conn.execute(ADD, [others, "1 day", "pending"])
    with finished.connect() as conn:
        conn.execute(ADD, [others, "-1 day", "done"])
    sides = [
        Side("bare", bare, _fill_bare, _claim_all_bare),
        Side("with log", plain, _fill_anew, _claim_all),
        Side("without", unlogged, _fill_anew, _claim_all),
        Side("not due", pending, _fill, _claim_all),
        Side("finished", finished, _fill, _claim_all),
        Side("held", held, _fill, _claim_all),
    ]
    with _open_transaction(held):
        speeds = _measure(sides, due)
    return [
        Ratio("claims_without_log", paired(speeds["without"], speeds["bare"]), 0.6),
        Ratio("claims_with_log", paired(speeds["with log"], speeds["bare"]), 0.5),
        Ratio("claims_not_due", paired(speeds["not due"], speeds["with log"]), 0.95),
        Ratio("claims_finished", paired(speeds["finished"], speeds["with log"]), 0.95),
        Ratio("claims_held", paired(speeds["held"], speeds["with log"]), 0.9),
    ]


def _database(server: Server, name: str) -> Database:
    database = Database(server, name)
    with database.connect() as conn:
        for file in ("actions.sql", "claims.sql"):
            conn.execute((HERE / file).read_bytes(), prepare=False)
        conn.execute("select pgwhen.register_action('note')")
    return database


@contextmanager
def _open_transaction(database: Database) -> Iterator[None]:
    """Keep a transaction open that reads and has an id, as a forgotten session does."""
    with database.connect() as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute("select pg_current_xact_id()")
        yield
        conn.execute("rollback")


def _measure(sides: list[Side], due: int) -> dict[str, list[float]]:
    """Return actions a second, by side, round by round."""
    speeds: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(1, ROUNDS + 1):
        for side in sides:
            speeds[side.name].append(_speed(side, due))
        say(f"  round {number}: {_words({name: s[-1] for name, s in speeds.items()})}")
    say(f"  medians: {_words({name: median(s) for name, s in speeds.items()})} actions/s")
    return speeds


def _words(speeds: dict[str, float]) -> str:
    return ", ".join(f"{name} {speed:,.0f}" for name, speed in speeds.items())


def _speed(side: Side, due: int) -> float:
    with side.database.connect() as conn:
        side.fill(conn, due)
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")
        start = time.perf_counter()
        done = side.claim_all(conn)
        seconds = time.perf_counter() - start
    assert done == due, f"{side.name}: {done} of {due} actions were done"
    return done / seconds


def _fill(conn: psycopg.Connection, due: int) -> None:
    conn.execute(ADD, [due, "0", "pending"])


def _fill_anew(conn: psycopg.Connection, due: int) -> None:
    conn.execute(EMPTY)
    _fill(conn, due)


def _fill_bare(conn: psycopg.Connection, due: int) -> None:
    conn.execute(EMPTY)
    conn.execute("select bench.add_bare_actions(%s)", [due])


def _claim_all(conn: psycopg.Connection) -> int:
    done = 0
    while True:
        ids, tokens = conn.execute(CLAIM, [BATCH]).fetchone() or (None, None)
        if ids is None:
            return done
        (count,) = conn.execute(COMPLETE, [ids, tokens]).fetchone() or (0,)
        done += count


def _claim_all_bare(conn: psycopg.Connection) -> int:
    done = 0
    while True:
        (ids,) = conn.execute(CLAIM_BARE, [BATCH]).fetchone() or (None,)
        if ids is None:
            return done
        done += conn.execute(COMPLETE_BARE, [ids]).rowcount
