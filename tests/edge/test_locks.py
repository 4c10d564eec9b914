"""Whoever holds a lock holds up what needs it, and nothing else; pgwhen never waits for long."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.support import wait_blocked

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database


@pytest.fixture
def conn(db: Database) -> psycopg.Connection:
    """Return a session that would rather fail than wait: a test must not hang."""
    conn = db.connect(options="-c statement_timeout=10s -c client_min_messages=error")
    conn.execute(
        "insert into pgwhen.trigger_rule"
        " (name, source_type, action_type, action_config, frequency) values"
        " ('slow', 'ordered', 'add_to_audience', '{\"audience\": \"a\"}', 'once_per_minute')"
    )
    return conn


def process(conn: psycopg.Connection) -> int:
    """Process one batch; return of how many events."""
    (events,) = conn.execute("select events from pgwhen.process_events('w-1')").fetchone()  # type: ignore[misc]
    return int(events)


def outcomes(conn: psycopg.Connection) -> list[tuple[str, str]]:
    """Return who has which outcome, in order."""
    return conn.execute(
        "select user_id, status from pgwhen.trigger_log order by user_id, id"
    ).fetchall()


def test_a_locked_slot_holds_up_its_user_only(db: Database, conn: psycopg.Connection) -> None:
    """An event that cannot have its reservation waits, and is no failure; others go on."""
    conn.execute("select pgwhen.emit('ordered', 'U1', at => '2020-01-01')")
    assert process(conn) == 1
    (holder,) = db.sessions(1)
    holder.execute("select from _pgwhen.reservation for update")
    conn.execute("select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 40) as n")
    conn.execute("select pgwhen.emit('ordered', 'U1')")

    assert process(conn) < 41
    done = outcomes(conn)
    assert ("U1", "success") in done
    assert done.count(("U1", "success")) == 1
    assert len(done) > 30
    assert {status for _, status in done} == {"success"}
    waiting = conn.execute("select user_id from _pgwhen.outbox order by id").fetchall()
    assert waiting[0] == waiting[-1] == ("U1",), "its user's next event waits behind it"

    holder.rollback()
    assert process(conn) == len(waiting)
    assert [status for user, status in outcomes(conn) if user == "U1"] == [
        "success", "success", "suppressed",
    ]  # fmt: skip


def test_a_locked_user_holds_up_its_action_only(db: Database, conn: psycopg.Connection) -> None:
    """A built-in action whose row the application has locked is put off, and is no failure."""
    conn.execute(
        "insert into pgwhen.line_user (user_id) select 'U' || n from generate_series(1, 9) n"
    )
    conn.execute(
        "update pgwhen.trigger_rule set action_type = 'set_attribute',"
        ' action_config = \'{"attribute": "seen", "value": true}\''
    )
    (holder,) = db.sessions(1)
    holder.execute("select from pgwhen.line_user where user_id = 'U5' for update")
    conn.execute("select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 9) as n")

    assert process(conn) == 9
    assert [user for user, _ in outcomes(conn)] == [f"U{n}" for n in range(1, 10) if n != 5]
    conn.execute("select pgwhen.tick()")
    assert conn.execute(
        "select user_id, status, retry_count, error_message from pgwhen.scheduled_action"
    ).fetchall() == [
        ("U5", "pending", 0, "put off: the rows it needs are locked by somebody else")
    ]  # fmt: skip

    holder.rollback()
    conn.execute("update pgwhen.scheduled_action set execute_at = now()")
    conn.execute("select pgwhen.tick()")
    assert ("U5", "success") in outcomes(conn)


def test_a_locked_action_holds_up_itself_only(db: Database, conn: psycopg.Connection) -> None:
    """A claimed action whose row somebody has locked is left; the others of its batch are done."""
    conn.execute(
        "insert into pgwhen.scheduled_action (user_id, action_type, action_config, key)"
        " select 'U' || n, 'add_to_audience', '{\"audience\": \"a\"}', gen_random_uuid()"
        " from generate_series(1, 5) as n"
    )
    conn.execute("create table claimed as select _pgwhen.claim_sql_actions('w-1', 10) as actions")
    (holder,) = db.sessions(1)
    holder.execute("select from pgwhen.scheduled_action where user_id = 'U3' for update")

    conn.execute("select _pgwhen.run_claimed('w-1', c.actions) from claimed as c")
    assert [user for user, _ in outcomes(conn)] == ["U1", "U2", "U4", "U5"]
    holder.rollback()
    assert conn.execute(
        "select user_id, status from pgwhen.scheduled_action where status <> 'done'"
    ).fetchall() == [("U3", "processing")]


FAILS = """
create function public.fails(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language plpgsql as $$ begin raise exception 'no'; end; $$;
select pgwhen.register_sql_action('fails', 'public.fails(text, text, jsonb, jsonb)');
select pgwhen.schedule_action('fails', 'U1', '{"retryPolicy": {"maximumAttempts": 1}}');
create table claimed as select _pgwhen.claim_sql_actions('w-1', 10) as actions;
"""


def test_a_failure_waits_for_its_log(db: Database, conn: psycopg.Connection) -> None:
    """What must be written down of a failed attempt is waited for: its claim is committed.

    With a deadlock_timeout of 2 ms, pgwhen waits for others' rows for one: too short to be seen.
    """
    conn.execute(FAILS.encode())
    holder, runner = db.sessions(2)
    runner.execute("set deadlock_timeout = '2ms'")
    holder.execute("lock table pgwhen.trigger_log in share mode")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            runner.execute, "select _pgwhen.run_claimed('w-1', c.actions) from claimed as c"
        )
        wait_blocked(conn, runner)
        holder.rollback()
        assert running.result().fetchall() == [(1,)]
    runner.commit()
    assert outcomes(conn) == [("U1", "failed")]


def test_the_end_of_a_locked_action_is_not_waited_for(
    db: Database, conn: psycopg.Connection
) -> None:
    """Whoever locks its row between its attempt and the end of it leaves it to its deadline."""
    conn.execute(FAILS.encode())
    (holder,) = db.sessions(1)
    lock = "select _pgwhen.lock_claimed(c.actions[1]) from claimed as c"
    holder.execute("select from pgwhen.scheduled_action for update")
    assert conn.execute(lock.encode()).fetchone() == (False,)
    holder.rollback()
    assert conn.execute(lock.encode()).fetchone() == (True,)
    conn.execute(
        "select pgwhen.release_actions('w-1', array[c.actions[1].id],"
        " array[c.actions[1].token]) from claimed as c"
    )
    assert conn.execute(lock.encode()).fetchone() == (False,)
