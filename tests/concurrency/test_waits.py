"""Click × expiry × cancel × claim × send: of a wait's ends exactly one comes to pass (P3).

docs/adr/0011-waits.md has the table of who meets whom. The clock stands still until a test moves
it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.scene import (
    add_rule,
    claim,
    emit,
    log_counts,
    process,
    process_all,
    report,
    scalar,
    waiting_events,
)
from tests.support import wait_blocked

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

CLOCK = """
create table app.clock (now timestamptz);
insert into app.clock values ('2030-01-07 12:00+00');
create or replace function _pgwhen.clock() returns timestamptz language sql volatile as $$
select c.now from app.clock as c
$$;
"""

NOTE = {"actionType": "note"}
BEFORE = {"waitForTracking": True, "expiresSeconds": 600}
AFTER = {**BEFORE, "after": "send"}
WITH_CHILDREN = {**AFTER, "onClick": NOTE, "onExpire": NOTE}

delays = pytest.mark.parametrize("delay", [BEFORE, WITH_CHILDREN], ids=["before", "after"])


@pytest.fixture
def shop(shop: psycopg.Connection) -> psycopg.Connection:
    """Return a session in a database where the time is what the test says."""
    shop.execute(CLOCK.encode())
    return shop


def click(conn: psycopg.Connection, user: str = "u1") -> None:
    """Click in the session's transaction."""
    conn.execute("insert into pgwhen.campaign_click (user_id) values (%s)", [user])


def move_clock(conn: psycopg.Connection, minutes: int) -> None:
    """Let so many minutes pass."""
    conn.execute("update app.clock set now = now + make_interval(mins => %s)", [minutes])


def expire(conn: psycopg.Connection) -> int:
    """End the waits whose time is over; return how many."""
    return int(scalar(conn, "select pgwhen.expire_actions()"))


def delete_rules(conn: psycopg.Connection) -> None:
    """Delete the rules, softly, and so cancel what waits."""
    conn.execute("update pgwhen.trigger_rule set deleted_date = now()")


def state(conn: psycopg.Connection) -> str:
    """Return how the first action stands."""
    return str(
        scalar(
            conn,
            "select concat_ws(' ', case when waiting then 'waiting' else status end, outcome)"
            " from pgwhen.scheduled_action order by id limit 1",
        )
    )


def children(conn: psycopg.Connection) -> int:
    """Count the actions that follow others."""
    return int(
        scalar(conn, "select count(*) from pgwhen.scheduled_action where parent_id is not null")
    )


def send(conn: psycopg.Connection) -> None:
    """Claim and complete what is due."""
    if claims := claim(conn, "deliver"):
        report(conn, "complete_actions", claims)


def add_wait(shop: psycopg.Connection, delay: dict[str, Any], user: str = "u1") -> None:
    """Let one action wait by such a delay; after its send, if it has one."""
    if not scalar(shop, "select exists (select from pgwhen.trigger_rule)"):
        add_rule(shop, "r", "deliver", {"delay": delay})
    emit(shop, user)
    process_all(shop)
    send(shop)
    process_all(shop)
    assert state(shop) == "waiting"


# Click × expiry -------------------------------------------------------------------------------


@delays
@pytest.mark.parametrize("kept", [True, False])
def test_expiry_passes_over_what_a_click_is_ending(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any], *, kept: bool
) -> None:
    """P3. The click's pass first: expiry gets nothing, whether the pass commits or not."""
    add_wait(shop, delay)
    click(shop)
    move_clock(shop, 11)
    engine, expirer = db.sessions(2)
    assert process(engine).events == 1
    assert expire(expirer) == 0
    expirer.rollback()
    (engine.commit if kept else engine.rollback)()

    assert expire(expirer) == 0
    expirer.commit()
    process_all(shop)
    assert state(shop) == ("pending clicked" if delay is BEFORE else "done clicked")
    assert log_counts(shop) == ({} if delay is BEFORE else {"success": 1})
    assert children(shop) == (delay is not BEFORE)


@delays
@pytest.mark.parametrize("kept", [True, False])
def test_a_click_waits_for_an_expiry_and_is_late(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any], *, kept: bool
) -> None:
    """P3. The expiry first: the click, made in time, was not committed when it was decided."""
    add_wait(shop, delay)
    clicker, expirer, engine = db.sessions(3)
    click(clicker)
    move_clock(shop, 11)
    assert expire(expirer) == 1
    clicker.commit()
    assert process(engine).events == 0
    engine.rollback()
    (expirer.commit if kept else expirer.rollback)()

    assert process(engine).events == 1
    engine.commit()
    if kept:
        assert state(shop) == ("cancelled" if delay is BEFORE else "done") + " not_clicked"
        assert log_counts(shop) == {"expired": 1, "late_click": 1}
    else:
        assert state(shop).endswith(" clicked")
    assert children(shop) == (delay is not BEFORE)


@delays
def test_a_committed_click_is_honoured_hours_later(
    shop: psycopg.Connection, delay: dict[str, Any]
) -> None:
    """P3. Nobody processed it, then the time was over: the wait is the click's."""
    add_wait(shop, delay)
    click(shop)
    move_clock(shop, 600)
    assert expire(shop) == 0
    process_all(shop)
    assert expire(shop) == 0
    assert state(shop).endswith(" clicked")


@pytest.mark.parametrize("processed", [True, False])
def test_expiry_looks_again_when_it_has_the_bucket(
    db: Database, shop: psycopg.Connection, *, processed: bool
) -> None:
    """P3. It found a wait without a click; before it had the bucket, one was committed."""
    add_wait(shop, BEFORE)
    clicker, gate = db.sessions(2)
    (expirer,) = db.sessions(1)
    click(clicker)
    move_clock(shop, 11)
    stop_before(shop, "overdue_waits", "    select array_agg(b.bucket)\n")
    gate.execute("select pg_advisory_lock(1)")
    with ThreadPoolExecutor(1) as pool:
        expiring = pool.submit(expire, expirer)
        assert wait_blocked(shop, expirer) == [gate.info.backend_pid]
        clicker.commit()
        if processed:
            assert process(shop).events == 1
        gate.execute("select pg_advisory_unlock(1)")
        assert expiring.result() == 0
    expirer.commit()
    process_all(shop)
    assert state(shop) == "pending clicked"


def stop_before(conn: psycopg.Connection, function: str, text: str) -> None:
    """Make a function of _pgwhen wait for a lock before it comes to *text*."""
    body = scalar(conn, f"select pg_get_functiondef('_pgwhen.{function}'::regproc)")
    assert body.count(text) == 1, f"_pgwhen.{function} has changed: where is {text!r}?"
    stop = "    perform pg_advisory_lock_shared(1); perform pg_advisory_unlock_shared(1);\n"
    conn.execute(body.replace(text, stop + text).encode())


# Click × cancel -------------------------------------------------------------------------------


@delays
@pytest.mark.parametrize("kept", [True, False])
def test_a_cancel_waits_for_a_click(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any], *, kept: bool
) -> None:
    """P3. The click first: a due action is still cancelled, what has ended is not."""
    add_wait(shop, delay)
    click(shop)
    engine, editor = db.sessions(2)
    assert process(engine).events == 1
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(delete_rules, editor)
        assert wait_blocked(shop, editor) == [engine.info.backend_pid]
        (engine.commit if kept else engine.rollback)()
        deleting.result()
    editor.commit()
    process_all(shop)

    if kept and delay is not BEFORE:
        assert state(shop) == "done clicked"
        assert log_counts(shop)["success"] == 1
    else:
        assert state(shop) == ("cancelled clicked" if kept else "cancelled")
        assert log_counts(shop) == {"cancelled": 1}
        assert children(shop) == 0


@delays
def test_a_click_yields_to_a_cancel(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any]
) -> None:
    """P3. The cancel first: the pass leaves the click for later, when it does nothing."""
    add_wait(shop, delay)
    click(shop)
    engine, editor = db.sessions(2)
    delete_rules(editor)
    assert process(engine).events == 0
    engine.commit()
    assert len(waiting_events(shop)) == 1
    editor.commit()
    process_all(shop)

    assert state(shop) == "cancelled"
    assert log_counts(shop) == {"cancelled": 1}
    assert children(shop) == 0


@delays
def test_a_click_asks_again_after_the_lock(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any]
) -> None:
    """P3. A pass that is patient enough to get the row after the cancel finds no wait."""
    add_wait(shop, delay)
    shop.execute(
        "create or replace function _pgwhen.patience(n integer) returns text language sql"
        " as 'select ''60s'''"
    )
    click(shop)
    engine, editor = db.sessions(2)
    delete_rules(editor)
    with ThreadPoolExecutor(1) as pool:
        passing = pool.submit(process, engine)
        assert wait_blocked(shop, engine) == [editor.info.backend_pid]
        editor.commit()
        assert passing.result().events == 1
    engine.commit()

    assert state(shop) == "cancelled"
    assert log_counts(shop) == {"cancelled": 1}
    assert children(shop) == 0


# Expiry × cancel, expiry × expiry ---------------------------------------------------------------


@delays
@pytest.mark.parametrize("kept", [True, False])
def test_a_cancel_waits_for_an_expiry(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any], *, kept: bool
) -> None:
    """P3. The expiry first: there is nothing left to cancel."""
    add_wait(shop, delay)
    move_clock(shop, 11)
    expirer, editor = db.sessions(2)
    assert expire(expirer) == 1
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(delete_rules, editor)
        assert wait_blocked(shop, editor) == [expirer.info.backend_pid]
        (expirer.commit if kept else expirer.rollback)()
        deleting.result()
    editor.commit()

    assert state(shop).endswith("not_clicked" if kept else "cancelled")
    assert log_counts(shop)["expired" if kept else "cancelled"] == 1


@delays
def test_expiry_passes_over_what_is_being_cancelled(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any]
) -> None:
    """P3. The cancel first: expiry gets nothing, before the commit and after."""
    add_wait(shop, delay)
    move_clock(shop, 11)
    expirer, editor = db.sessions(2)
    delete_rules(editor)
    assert expire(expirer) == 0
    expirer.rollback()
    editor.commit()
    assert expire(expirer) == 0
    expirer.commit()

    assert state(shop) == "cancelled"
    assert log_counts(shop) == {"cancelled": 1}
    assert children(shop) == 0


@delays
def test_two_expiries_end_a_wait_once(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any]
) -> None:
    """P3. The second passes over what the first holds."""
    add_wait(shop, delay)
    add_wait(shop, delay, "u2")
    move_clock(shop, 11)
    first, second = db.sessions(2)
    assert expire(first) == 2
    assert expire(second) == 0
    second.rollback()
    first.commit()
    assert expire(second) == 0
    second.commit()

    assert log_counts(shop) == {"expired": 2}
    assert children(shop) == (0 if delay is BEFORE else 2)


# Click × click, click × claim -------------------------------------------------------------------


@delays
def test_two_clicks_are_one(db: Database, shop: psycopg.Connection, delay: dict[str, Any]) -> None:
    """P3. The second is left to wait for the first one's pass, and finds nothing to end."""
    add_wait(shop, delay)
    first, second = db.sessions(2)
    click(shop)
    assert process(first).events == 1
    click(shop)
    assert process(second).events == 0
    second.rollback()
    first.commit()
    assert process(second).events == 1
    second.commit()

    assert state(shop).endswith(" clicked")
    assert log_counts(shop) == ({} if delay is BEFORE else {"success": 1})
    assert children(shop) == (delay is not BEFORE)


@pytest.mark.parametrize("kept", [True, False])
def test_a_claim_gets_what_a_committed_click_made_due(
    db: Database, shop: psycopg.Connection, *, kept: bool
) -> None:
    """P3. While the click is being processed, there is only a wait, which nobody can claim."""
    add_wait(shop, BEFORE)
    click(shop)
    engine, worker = db.sessions(2)
    assert process(engine).events == 1
    assert claim(worker, "deliver") == []
    (engine.commit if kept else engine.rollback)()
    assert len(claim(worker, "deliver")) == kept


def test_a_click_does_nothing_to_what_is_claimed(db: Database, shop: psycopg.Connection) -> None:
    """P3. The claim first: a second click neither waits for it nor makes the action due again."""
    add_wait(shop, BEFORE)
    click(shop)
    process_all(shop)
    engine, worker = db.sessions(2)
    claims = claim(worker, "deliver")
    click(shop)
    assert process(engine).events == 1
    engine.commit()
    assert report(worker, "complete_actions", claims) == {claims[0][0]}
    worker.commit()

    assert state(shop) == "done clicked"
    assert log_counts(shop) == {"success": 1}
    assert claim(shop, "deliver") == []


# A wait that begins × click -----------------------------------------------------------------------


def test_a_click_waits_for_the_wait_to_be_written(db: Database, shop: psycopg.Connection) -> None:
    """P3. The rule's pass first: the click stays in the outbox until the wait can be seen."""
    add_rule(shop, "r", "deliver", {"delay": BEFORE})
    first, second = db.sessions(2)
    emit(shop)
    assert process(first).events == 1
    click(shop)
    assert process(second).events == 0
    second.rollback()
    first.commit()
    assert process(second).events == 1
    second.commit()
    assert state(shop) == "pending clicked"


def test_a_wait_finds_the_click_that_was_processed_before(
    db: Database, shop: psycopg.Connection
) -> None:
    """P3. The click's pass first: its event was committed later, though it was there before."""
    add_rule(shop, "r", "deliver", {"delay": BEFORE})
    writer, first, second = db.sessions(3)
    emit(writer)
    click(shop)
    assert process(first).events == 1
    writer.commit()
    assert process(second).events == 0
    second.rollback()
    first.commit()
    assert process(second).events == 1
    second.commit()
    assert state(shop) == "pending clicked"


def begin_send(shop: psycopg.Connection) -> list[tuple[int, Any]]:
    """Let a send that is to be followed by a wait be under way; return its claim."""
    add_rule(shop, "r", "deliver", {"delay": WITH_CHILDREN})
    emit(shop)
    process_all(shop)
    return claim(shop, "deliver")


def test_a_send_that_is_being_reported_finds_the_click(
    db: Database, shop: psycopg.Connection
) -> None:
    """P3. The report first: the click meets no wait, the wait finds the click."""
    claims = begin_send(shop)
    worker, engine = db.sessions(2)
    assert report(worker, "complete_actions", claims) == {claims[0][0]}
    click(shop)
    assert process(engine).events == 1
    engine.commit()
    assert state(shop) == "processing"
    worker.commit()
    assert state(shop) == "waiting"
    assert process(engine).events == 1
    engine.commit()

    assert state(shop) == "done clicked"
    assert log_counts(shop) == {"success": 1}
    assert children(shop) == 1


def test_a_click_that_is_being_processed_is_found_by_the_send(
    db: Database, shop: psycopg.Connection
) -> None:
    """P3. The click's pass first: the report does not wait for it, its announcement does."""
    claims = begin_send(shop)
    worker, engine, other = db.sessions(3)
    click(shop)
    assert process(engine).events == 1
    assert report(worker, "complete_actions", claims) == {claims[0][0]}
    worker.commit()
    assert process(other).events == 0
    other.rollback()
    engine.commit()
    assert state(shop) == "waiting"
    assert process(other).events == 1
    other.commit()

    assert state(shop) == "done clicked"
    assert children(shop) == 1


def test_expiry_looks_for_the_click_before_the_announcement_does(
    db: Database, shop: psycopg.Connection
) -> None:
    """P3. The time is over before the announcement was processed: the click counts all the same."""
    claims = begin_send(shop)
    click(shop)
    process_all(shop)
    report(shop, "complete_actions", claims)
    assert len(waiting_events(shop)) == 1
    move_clock(shop, 11)
    (expirer,) = db.sessions(1)
    assert expire(expirer) == 1
    expirer.commit()

    assert state(shop) == "done clicked"
    assert log_counts(shop) == {"success": 1}
    process_all(shop)
    assert children(shop) == 1


@pytest.mark.parametrize("first", ["recovery", "report"])
def test_a_send_opens_its_wait_once(db: Database, shop: psycopg.Connection, first: str) -> None:
    """P3. Report × recovery: a report that was late opens no wait, one in time cannot be undone."""
    claims = begin_send(shop)
    move_clock(shop, 6)
    worker, recoverer = db.sessions(2)
    if first == "recovery":
        assert scalar(recoverer, "select pgwhen.recover_stale_actions()") == 1
        with ThreadPoolExecutor(1) as pool:
            reporting = pool.submit(report, worker, "complete_actions", claims)
            assert wait_blocked(shop, worker) == [recoverer.info.backend_pid]
            recoverer.commit()
            assert reporting.result() == set()
        worker.commit()
        assert state(shop) == "pending"
    else:
        assert report(worker, "complete_actions", claims) == {claims[0][0]}
        assert scalar(recoverer, "select pgwhen.recover_stale_actions()") == 0
        recoverer.commit()
        worker.commit()
        assert scalar(shop, "select pgwhen.recover_stale_actions()") == 0
        assert state(shop) == "waiting"


def test_expiry_leaves_a_user_in_work_alone(db: Database, shop: psycopg.Connection) -> None:
    """P3. Who works on the user's events may be about to begin or end a wait."""
    add_wait(shop, BEFORE)
    move_clock(shop, 11)
    engine, expirer = db.sessions(2)
    emit(shop, event="other")
    assert process(engine).events == 1
    assert expire(expirer) == 0
    expirer.rollback()
    engine.commit()
    assert expire(expirer) == 1
