"""Listener × listener: the events of a user are processed one at a time, in outbox order (P1)."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
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
    waiting_events,
)
from tests.support import SOAK, wait_blocked

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

EVENTS, USERS = (20_000, 200) if SOAK else (2_000, 50)

#: Two SQL actions that note what the user's attributes are when they are called.
LOOK = """
create function app.look(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as $$
insert into app.effect (user_id, event_id, rule, config)
select u.user_id, 0, 0, u.attributes from pgwhen.line_user as u where u.user_id = look.user_id
returning to_jsonb(n)
$$;
select pgwhen.register_sql_action(name, 'app.look(text, text, jsonb, jsonb)')
from unnest(array['a_look', 'z_look']) as name;
"""

#: Pairs of neighbours in the order of effects of which the later event came first.
INVERSIONS = """
select count(*)
from (
    select
        e.event_id,
        max(e.event_id) over (partition by e.user_id order by e.n rows between
            unbounded preceding and 1 preceding) as latest
    from app.effect as e
) as e
where e.event_id < e.latest
"""


def effects(conn: psycopg.Connection, user: str) -> list[int]:
    """List the events whose effects a user has, in the order of the effects."""
    rows = conn.execute("select event_id from app.effect where user_id = %s order by n", [user])
    return [row[0] for row in rows]


def test_events_of_a_user_in_work_are_nobody_elses(db: Database, shop: psycopg.Connection) -> None:
    """P1. The second session skips them without waiting; after a rollback it gets all, in order."""
    add_rule(shop, "r")
    busy, idle = users_apart(shop, 2)
    first, second = db.sessions(2)
    before = [emit(shop, busy), emit(shop, busy)]
    assert process(first).events == 2
    after = emit(shop, busy)
    other = emit(shop, idle)

    assert process(second).events == 1
    second.commit()
    assert process(second).events == 0
    second.rollback()
    assert waiting_events(shop) == [*before, after]
    assert effects(shop, idle) == [other]

    first.rollback()
    assert process(second).events == 3
    second.commit()
    assert effects(shop, busy) == [*before, after]
    assert waiting_events(shop) == []


def test_the_snapshot_comes_after_the_lock(db: Database, shop: psycopg.Connection) -> None:
    """P1. Who gets a bucket just when its holder commits sees what the holder did.

    The second session peeks while the first one still has its events, then stands at a lock that
    the peek meets, and gets the bucket after the first one's commit.
    """
    add_rule(shop, "r")
    shop.execute(
        "create function app.gate(bucket smallint) returns smallint language plpgsql as $$ begin"
        " perform pg_advisory_lock_shared(1); perform pg_advisory_unlock_shared(1);"
        " return bucket; end $$"
    )
    body = scalar(shop, "select pg_get_functiondef('_pgwhen.take'::regproc)")
    lock = "pg_try_advisory_xact_lock(_pgwhen.bucket_class(), "
    assert lock in body
    shop.execute(body.replace(f"{lock}b.bucket", f"{lock}app.gate(b.bucket)").encode())
    gate = db.connect()
    first, second = db.sessions(2)
    mine = emit(shop, "u1")
    assert process(first).events == 1
    late = emit(shop, "u1")

    gate.execute("select pg_advisory_lock(1)")
    with ThreadPoolExecutor(1) as pool:
        taking = pool.submit(process, second)
        assert wait_blocked(shop, second) == [gate.info.backend_pid]
        first.commit()
        gate.execute("select pg_advisory_unlock(1)")
        assert taking.result().events == 1
    second.commit()
    assert effects(shop, "u1") == [mine, late]


@pytest.mark.parametrize("batch_size", [7, 500])
def test_three_processors_keep_the_order(
    db: Database, shop: psycopg.Connection, batch_size: int
) -> None:
    """P1. Each event has one effect, and each user's effects come in outbox order."""
    add_rule(shop, "r")
    chance = random.Random(batch_size)
    written = threading.Event()
    users = [f"u{n}" for n in range(USERS)]
    chosen = chance.choices(users, k=EVENTS)

    def write(conn: psycopg.Connection) -> None:
        for at in range(0, EVENTS, 100):
            with conn.transaction():
                for user in chosen[at : at + 100]:
                    emit(conn, user)

    def work(conn: psycopg.Connection) -> int:
        done = 0
        while True:
            last = written.is_set()
            found = process(conn, f"w{conn.info.backend_pid}", batch_size=batch_size).events
            done += found
            if last and not found:
                return done

    with ThreadPoolExecutor() as pool:
        working = [pool.submit(work, conn) for conn in db.sessions(3, autocommit=True)]
        try:
            write(db.connect())
        finally:
            written.set()
        shares = [future.result() for future in working]
    process_all(shop)

    assert scalar(shop, "select count(distinct event_id) from app.effect") == EVENTS
    assert log_counts(shop) == {"success": EVENTS}
    assert scalar(shop, INVERSIONS) == 0
    assert min(shares) > 0, f"not really parallel: {shares}"


def test_an_action_sees_what_was_before_its_event(shop: psycopg.Connection) -> None:
    """P1. In one batch too, whatever the action types' names: each event has its turn."""
    shop.execute(LOOK.encode())
    add_rule(shop, "1", "z_look", event="first")
    add_rule(shop, "2", "set_attribute", {"attribute": "seen", "value": True}, event="second")
    add_rule(shop, "3", "a_look", event="third")
    for user in ("u1", "u2"):
        shop.execute("insert into pgwhen.line_user (user_id) values (%s)", [user])
        for event in ("first", "second", "third"):
            emit(shop, user, event)

    process_all(shop)

    seen = shop.execute("select user_id, config from app.effect order by user_id, n").fetchall()
    assert seen == [(user, what) for user in ("u1", "u2") for what in ({}, {"seen": True})]
