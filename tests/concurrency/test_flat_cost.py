"""Looking for events costs the same under a long transaction (P9), in buffers, not in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.concurrency.scene import age_floor, emit, process, process_all, scalar, waiting_events

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database

PROCESSED = 60_000
#: Buffers that a call with nothing to do may touch: settings, the floor, the index's way down.
#: Walking the dead rows of so many events would touch more than a thousand.
FEW = 100


def emit_many(conn: psycopg.Connection, count: int) -> None:
    """Emit so many events of many users, as one statement."""
    conn.execute(
        "insert into pgwhen.form_submission (user_id, form_id)"
        " select 'u' || n %% 1000, 'f' from generate_series(1, %s) as n",
        [count],
    )


def buffers(conn: psycopg.Connection, query: str) -> int:
    """Return how many buffers *query* touches, planning not counted, once all is in the caches."""
    for _ in range(3):
        plan = scalar(conn, f"explain (analyze, buffers, timing off, format json) {query}")
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


def read_long(db: Database) -> psycopg.Connection:
    """Open a transaction that pins a snapshot."""
    conn = db.connect(autocommit=False)
    conn.execute("set transaction isolation level repeatable read")
    conn.execute("select count(*) from pgwhen.line_user")
    return conn


def write_long(db: Database) -> psycopg.Connection:
    """Open a transaction that has written an event."""
    conn = db.connect(autocommit=False)
    emit(conn, "late")
    return conn


@pytest.mark.parametrize("begin", [read_long, write_long])
def test_a_look_at_nothing_walks_no_dead_rows(
    db: Database, begin: Callable[[Database], psycopg.Connection]
) -> None:
    """P9. After 60,000 events have been processed under it, a look touches a few pages."""
    conn = db.connect()
    long = begin(db)
    look = "select * from pgwhen.process_events('w')"
    emit_many(conn, PROCESSED)
    while process(conn, batch_size=10_000).events:
        age_floor(conn)
    for _ in range(2):
        age_floor(conn)
        process(conn)
    assert waiting_events(conn) == []
    walk = buffers(conn, "select from _pgwhen.outbox where id > 0 order by id limit 2000")
    assert walk > 5 * FEW, "the dead rows are not in the way, so this test shows nothing"

    assert buffers(conn, look) < FEW

    emit_many(conn, 10)
    assert process(conn).events == 10
    age_floor(conn)
    process(conn)
    assert buffers(conn, look) < FEW

    long.commit()
    process_all(conn)
    assert waiting_events(conn) == []
