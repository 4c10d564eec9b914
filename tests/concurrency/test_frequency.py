"""Event × event: a frequency holds, whoever processes at the same time (P5)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from tests.concurrency.scene import (
    add_rule,
    emit,
    log_counts,
    process,
    process_all,
    scalar,
    users_apart,
)
from tests.support import wait_blocked

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

#: Two events of the same minute, hour, day, week and month, whatever the frequency.
EARLIER = datetime(2026, 11, 3, 9, 30, 10, tzinfo=timezone.utc)
LATER = datetime(2026, 11, 3, 9, 30, 11, tzinfo=timezone.utc)

FREQUENCIES = [
    "once",
    "once_per_minute",
    "once_per_month",
    "once_per_calendar_day",
    "once_per_calendar_month",
]

#: Reserve for one event as process_events does, but without having taken its bucket.
RESERVE = """
select array_agg(r.verdict)
from unnest(_pgwhen.reserve(array(
    select j
    from _pgwhen.judge(array(
        select o from _pgwhen.outbox as o where o.id = %s
    )) as j
))) as r
"""


@pytest.fixture
def rules(shop: psycopg.Connection) -> list[int]:
    """Make a rule of each frequency; they all wait for the same event."""
    return [add_rule(shop, frequency, frequency=frequency) for frequency in FREQUENCIES]


def test_one_of_two_sessions_fires(
    db: Database, shop: psycopg.Connection, rules: list[int]
) -> None:
    """P5. While one session is at it the other gets nothing; then it is late."""
    first, second = db.sessions(2)
    emit(shop, at=EARLIER)
    assert process(first).events == 1
    emit(shop, at=LATER)
    assert process(second).events == 0
    second.commit()
    first.commit()

    assert process(second).events == 1
    second.commit()

    effects = shop.execute("select rule from app.effect order by rule").fetchall()
    assert effects == [(rule,) for rule in rules]
    assert log_counts(shop) == {"success": len(rules), "suppressed": len(rules)}


def test_firing_that_is_rolled_back_reserves_nothing(
    db: Database, shop: psycopg.Connection
) -> None:
    """P5. Whoever comes after a session that failed fires in its place."""
    add_rule(shop, "r", frequency="once")
    failing = db.connect(autocommit=False)
    emit(shop)
    emit(shop)
    assert process(failing, batch_size=1).events == 1
    failing.rollback()

    assert process_all(shop) == 2

    assert log_counts(shop) == {"success": 1, "suppressed": 1}


@pytest.mark.parametrize(("end", "verdict"), [("commit", "suppressed"), ("rollback", "fire")])
@pytest.mark.usefixtures("rules")
def test_reservation_is_atomic_by_itself(
    db: Database, shop: psycopg.Connection, end: str, verdict: str
) -> None:
    """P5. Without the buckets' help too: the second session waits for the first one's rows."""
    first, second = db.sessions(2)
    events = [emit(shop, at=EARLIER), emit(shop, at=LATER)]
    assert scalar(first, RESERVE, events[0]) == ["fire"] * len(FREQUENCIES)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(scalar, second, RESERVE, events[1])
        assert wait_blocked(shop, second) == [first.info.backend_pid]
        getattr(first, end)()
        assert late.result() == [verdict] * len(FREQUENCIES)


def test_fifty_writers_make_one_action(db: Database, shop: psycopg.Connection) -> None:
    """P5. Fifty simultaneous events of a user, four processors at once: one action a rule."""
    writers = 50
    rules = [add_rule(shop, f, frequency=f) for f in ("once", "once_per_day")]
    users = users_apart(shop, 2)
    written = threading.Event()

    def write(conn: psycopg.Connection) -> None:
        for user in users:
            emit(conn, user)

    def work(conn: psycopg.Connection) -> None:
        while not written.is_set():
            process(conn, batch_size=7)

    with ThreadPoolExecutor() as processing, ThreadPoolExecutor(writers) as writing:
        working = [processing.submit(work, conn) for conn in db.sessions(4, autocommit=True)]
        try:
            list(writing.map(write, db.sessions(writers, autocommit=True)))
        finally:
            written.set()
        for future in working:
            future.result()
    process_all(shop)

    effects = shop.execute("select rule, user_id from app.effect order by rule, user_id")
    assert effects.fetchall() == [(rule, user) for rule in rules for user in sorted(users)]
    assert log_counts(shop) == {"success": 4, "suppressed": 4 * (writers - 1)}
