"""Application × engine: where both want the same rows, the engine yields (P6).

That a locked row holds up nothing but what needs it is tested in tests/edge/test_locks.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from tests.concurrency.scene import add_rule, emit, process_all, scalar
from tests.support import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database

#: More than the engine can try to lock, one after the other, within deadlock_timeout.
LOCKED = 100

VIP = {"attribute": "vip", "value": True}

#: An action that shows in pg_locks once the engine has kept what it did before. (What it did in a
#: part of its batch that failed, it has let go of.)
SIGN = """
create function app.sign(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as $$ select to_jsonb(true) from pg_advisory_xact_lock(77) $$;
select pgwhen.register_sql_action('sign', 'app.sign(text, text, jsonb, jsonb)');
"""
SIGNED = "select exists (select from pg_locks where locktype = 'advisory' and objid = 77)"


def hold(conn: psycopg.Connection, *users: str) -> None:
    """Lock the rows of *users*, as an UPDATE would."""
    conn.execute(
        "select from pgwhen.line_user where user_id = any(%s) order by user_id for update",
        [list(users)],
    )


@pytest.fixture
def users(shop: psycopg.Connection) -> list[str]:
    """Make users; the first one is `a`."""
    shop.execute(SIGN.encode())
    users = ["a", *(f"b{n:03}" for n in range(LOCKED))]
    shop.execute("insert into pgwhen.line_user (user_id) select unnest(%s::text[])", [users])
    return users


def make_events(shop: psycopg.Connection, users: list[str]) -> str:
    """Let there be an event for each user that sets an attribute of theirs; return who does it."""
    add_rule(shop, "vip", "set_attribute", VIP)
    add_rule(shop, "sign", "sign", event="signed")
    emit(shop, "a")
    emit(shop, "a", "signed")
    for user in users[1:]:
        emit(shop, user)
    return "select pgwhen.process_events('w')"


def make_actions(shop: psycopg.Connection, users: list[str]) -> str:
    """Let there be a due action for each user that does the same; return who does it."""
    types = ["set_attribute", "sign", *["set_attribute"] * LOCKED]
    shop.execute(
        "insert into pgwhen.scheduled_action (user_id, action_type, action_config, key)"
        " select a.user_id, a.action_type, %s, gen_random_uuid()"
        " from unnest(%s::text[], %s::text[]) as a (user_id, action_type)",
        [Jsonb(VIP), ["a", *users], types],
    )
    return "select pgwhen.tick()"


@pytest.mark.parametrize("make_work", [make_events, make_actions])
def test_the_application_never_dies_of_a_deadlock(
    db: Database,
    shop: psycopg.Connection,
    users: list[str],
    make_work: Callable[[psycopg.Connection, list[str]], str],
) -> None:
    """P6. The engine holds `a` and wants the application's rows; then the application wants `a`.

    If the engine tried all of them, the application's deadlock_timeout would end meanwhile.
    """
    work = make_work(shop, users)
    app, engine = db.connect(autocommit=False), db.connect()
    hold(app, *users[1:])
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(engine.execute, work.encode())
        wait_until(shop, SIGNED)
        assert vip(shop) == 0
        hold(app, "a")
        app.commit()
        working.result()
    assert vip(shop) == 1

    process_all(shop)
    shop.execute("update pgwhen.scheduled_action set execute_at = now() where status = 'pending'")
    shop.execute("select pgwhen.tick()")
    assert vip(shop) == len(users)


def vip(conn: psycopg.Connection) -> int:
    """Count the users for whom the action has been done."""
    return int(
        scalar(
            conn,
            "select count(*) from pgwhen.line_user where attributes = %s",
            Jsonb({"vip": True}),
        )
    )
