"""People × workers: what is done by hand and what the engine does, one of them wins (P3).

Each pair in both orders. Where one side waits, it is seen waiting; where it skips, it answers empty
while the other's transaction is open.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import DatabaseError

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
    from collections.abc import Callable

    import psycopg

    from tests.support import Database

BUSY = ['{"message": "busy"}']


@pytest.fixture
def rule(shop: psycopg.Connection) -> int:
    """Make a rule whose actions wait for a worker; attempts are stale at once, and the last."""
    shop.execute(
        "insert into pgwhen.setting values ('staleProcessingMinute', '1e-7'), ('maxRetries', '0')"
    )
    return add_rule(shop, "r", "deliver", frequency="once")


@pytest.fixture
def action(shop: psycopg.Connection, rule: int) -> int:
    """Let one action of the rule be due; return its id."""
    emit(shop)
    process_all(shop)
    return int(
        scalar(shop, "select id from pgwhen.scheduled_action where trigger_rule_id = %s", rule)
    )


def by_hand(conn: psycopg.Connection, verb: str, *args: Any) -> str:
    """Call *verb* and return "ok", or the SQLSTATE with which it was refused."""
    return said(conn, f"select pgwhen.{verb}({', '.join(['%s'] * len(args))})", *args)


def said(conn: psycopg.Connection, statement: str, *args: Any) -> str:
    """Execute *statement*; return "ok", or its SQLSTATE."""
    try:
        conn.execute(statement.encode(), args or None)
    except DatabaseError as error:
        return str(error.sqlstate)
    return "ok"


def meanwhile(
    observer: psycopg.Connection,
    waiter: psycopg.Connection,
    call: Callable[[], Any],
    holder: psycopg.Connection,
    *,
    commit: bool = True,
) -> Any:
    """Make *call*, see *waiter* wait for *holder*, end the holder; return the call's answer."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        assert wait_blocked(observer, waiter) == [holder.info.backend_pid]
        (holder.commit if commit else holder.rollback)()
        return answer.result()


def state(shop: psycopg.Connection) -> tuple[str, int]:
    """Return the only action's status and how many of its attempts have failed."""
    row = shop.execute("select status, retry_count from pgwhen.scheduled_action").fetchone()
    assert row is not None
    return row


# Cancel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["verb", "update"])
def test_a_claim_passes_over_what_is_being_cancelled(
    db: Database, shop: psycopg.Connection, action: int, how: str
) -> None:
    """Cancel first: the claim gets nothing, before the commit and after."""
    person, worker = db.sessions(2)
    if how == "verb":
        assert by_hand(person, "cancel_action", action) == "ok"
    else:
        person.execute("update pgwhen.scheduled_action set status = 'cancelled'")
    assert claim(worker, "deliver") == []
    person.commit()
    assert claim(worker, "deliver") == []
    assert state(shop) == ("cancelled", 0)
    assert log_counts(shop) == {"cancelled": 1}
    assert scalar(shop, "select count(*) from _pgwhen.reservation") == 0


@pytest.mark.parametrize("kept", [True, False])
def test_a_cancel_waits_for_a_claim(
    db: Database, shop: psycopg.Connection, action: int, *, kept: bool
) -> None:
    """Claim first: what it keeps is not stopped and may succeed; what it lets go is cancelled."""
    person, worker = db.sessions(2)
    claims = claim(worker, "deliver")
    call = lambda: by_hand(person, "cancel_action", action)  # noqa: E731
    assert meanwhile(shop, person, call, worker, commit=kept) == "ok"
    person.commit()

    assert state(shop) == ("processing" if kept else "cancelled", 0)
    assert report(shop, "complete_actions", claims) == ({action} if kept else set())
    assert log_counts(shop) == {"success" if kept else "cancelled": 1}


def test_a_cancel_waits_for_a_completion_and_is_late(
    db: Database, shop: psycopg.Connection, action: int
) -> None:
    """Completion first: the cancel is told that it is done."""
    person, worker = db.sessions(2)
    claims = claim(shop, "deliver")
    assert report(worker, "complete_actions", claims) == {action}
    assert (
        meanwhile(shop, person, lambda: by_hand(person, "cancel_action", action), worker) == "PW602"
    )
    assert log_counts(shop) == {"success": 1}


def test_a_completion_waits_for_a_cancel_and_wins(
    db: Database, shop: psycopg.Connection, action: int
) -> None:
    """Cancel first: it was too late to stop the attempt, whose success counts."""
    person, worker = db.sessions(2)
    claims = claim(shop, "deliver")
    assert by_hand(person, "cancel_action", action) == "ok"
    done = meanwhile(shop, worker, lambda: report(worker, "complete_actions", claims), person)
    worker.commit()
    assert done == {action}
    assert log_counts(shop) == {"success": 1}


def test_a_cancel_waits_for_a_failure(db: Database, shop: psycopg.Connection, action: int) -> None:
    """Failure first: the next try is what is cancelled, and the slot is kept."""
    shop.execute("update pgwhen.setting set value = '3' where name = 'maxRetries'")
    person, worker = db.sessions(2)
    claims = claim(shop, "deliver")
    assert report(worker, "fail_actions", claims, BUSY) == {action}
    assert meanwhile(shop, person, lambda: by_hand(person, "cancel_action", action), worker) == "ok"
    person.commit()
    assert state(shop) == ("cancelled", 1)
    assert scalar(shop, "select count(*) from _pgwhen.reservation") == 1


@pytest.mark.parametrize(
    ("verb", "ends"),
    [("fail_actions", ("failed", 1)), ("release_actions", ("cancelled", 0))],
)
def test_what_is_cancelled_is_not_tried_again(
    db: Database, shop: psycopg.Connection, action: int, verb: str, ends: tuple[str, int]
) -> None:
    """Cancel first: a worker that fails or gives up finds that there is no next try."""
    shop.execute("update pgwhen.setting set value = '3' where name = 'maxRetries'")
    person, worker = db.sessions(2)
    claims = claim(shop, "deliver")
    assert by_hand(person, "cancel_action", action) == "ok"
    told = (BUSY,) if verb == "fail_actions" else ()
    assert meanwhile(shop, worker, lambda: report(worker, verb, claims, *told), person) == {action}
    worker.commit()
    assert state(shop) == ends
    assert log_counts(shop) == {ends[0]: 1}


def test_recovery_passes_over_a_cancel_and_then_heeds_it(
    db: Database, shop: psycopg.Connection, action: int
) -> None:
    """Cancel first: recovery does not wait for it; afterwards there is no other attempt."""
    shop.execute("update pgwhen.setting set value = '3' where name = 'maxRetries'")
    person, recovery = db.sessions(2)
    claim(shop, "deliver")
    assert by_hand(person, "cancel_action", action) == "ok"
    assert scalar(recovery, "select pgwhen.recover_stale_actions()") == 0
    recovery.rollback()
    person.commit()
    assert scalar(shop, "select pgwhen.recover_stale_actions()") == 1
    assert state(shop) == ("failed", 1)


# Run now, reschedule, update -----------------------------------------------------------------

CHANGES = {
    "run_action_now": ("select pgwhen.run_action_now(%s)", True),
    "reschedule_action": ("select pgwhen.reschedule_action(%s, now() + interval '1 day')", False),
    "update": ("update pgwhen.scheduled_action set action_config = '{}' where id = %s", True),
}
changes = pytest.mark.parametrize(("change", "due"), CHANGES.values(), ids=CHANGES)


@changes
def test_a_claim_passes_over_what_is_being_changed(
    db: Database, action: int, change: str, *, due: bool
) -> None:
    """Change first: the claim gets nothing, and after the commit what the change says."""
    person, worker = db.sessions(2)
    assert said(person, change, action) == "ok"
    assert claim(worker, "deliver") == []
    worker.rollback()
    person.commit()
    assert [a for a, _ in claim(worker, "deliver")] == ([action] if due else [])


@changes
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.usefixtures("rule")
def test_a_change_waits_for_a_claim(
    db: Database, shop: psycopg.Connection, action: int, change: str, *, due: bool, kept: bool
) -> None:
    """Claim first: what it keeps is refused the change, what it lets go is changed."""
    person, worker = db.sessions(2)
    assert len(claim(worker, "deliver")) == 1
    answer = meanwhile(shop, person, lambda: said(person, change, action), worker, commit=kept)
    assert answer == ("PW602" if kept else "ok")
    (person.rollback if kept else person.commit)()
    assert state(shop)[0] == ("processing" if kept else "pending")
    if not kept:
        assert len(claim(shop, "deliver")) == int(due)


def test_an_update_of_what_is_pending_leaves_a_claim_alone(
    db: Database, shop: psycopg.Connection, action: int
) -> None:
    """Claim first: an UPDATE that says status = 'pending' looks again, and changes nothing."""
    person, worker = db.sessions(2)
    claim(worker, "deliver")
    update = "update pgwhen.scheduled_action set execute_at = now() where status = 'pending'"
    answer = meanwhile(shop, person, lambda: person.execute(update).rowcount, worker)
    assert answer == 0
    assert action


# Retry ---------------------------------------------------------------------------------------


def fail(shop: psycopg.Connection) -> None:
    """Let the action fail for the last time."""
    report(shop, "fail_actions", claim(shop, "deliver"), BUSY)
    assert state(shop) == ("failed", 1)


@pytest.mark.parametrize("kept", [True, False])
def test_two_retries_are_one(
    db: Database, shop: psycopg.Connection, action: int, *, kept: bool
) -> None:
    """The second waits for the first and is told that it waits already, if the first is kept."""
    fail(shop)
    first, second = db.sessions(2)
    assert by_hand(first, "retry_action", action) == "ok"
    call = lambda: by_hand(second, "retry_action", action)  # noqa: E731
    assert meanwhile(shop, second, call, first, commit=kept) == ("PW602" if kept else "ok")
    second.commit()
    assert state(shop) == ("pending", 0)
    assert len(claim(shop, "deliver")) == 1


def test_a_retry_waits_for_recovery(db: Database, shop: psycopg.Connection, action: int) -> None:
    """Recovery first: it fails the action, whose retry then is one of a failed one."""
    claim(shop, "deliver")
    person, recovery = db.sessions(2)
    assert scalar(recovery, "select pgwhen.recover_stale_actions()") == 1
    assert (
        meanwhile(shop, person, lambda: by_hand(person, "retry_action", action), recovery) == "ok"
    )
    person.commit()
    assert state(shop) == ("pending", 0)
    assert log_counts(shop) == {"failed": 1}


def test_recovery_does_not_see_a_retry(db: Database, shop: psycopg.Connection, action: int) -> None:
    """Retry first: what is pending is nothing to recover, before the commit and after."""
    fail(shop)
    person, recovery = db.sessions(2)
    assert by_hand(person, "retry_action", action) == "ok"
    assert scalar(recovery, "select pgwhen.recover_stale_actions()") == 0
    assert claim(recovery, "deliver") == []
    recovery.rollback()
    person.commit()
    assert scalar(recovery, "select pgwhen.recover_stale_actions()") == 0
    assert len(claim(recovery, "deliver")) == 1


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.usefixtures("rule")
def test_a_parked_event_is_put_back_once(
    db: Database, shop: psycopg.Connection, *, kept: bool
) -> None:
    """P1. The second waits for the first, and finds it parked no longer, if the first is kept."""
    event = emit(shop)
    shop.execute("select _pgwhen.park_event(%s, 'x')", [event])
    first, second = db.sessions(2)
    assert by_hand(first, "retry_event", event) == "ok"
    assert process(second).events == 0
    second.rollback()
    call = lambda: by_hand(second, "retry_event", event)  # noqa: E731
    assert meanwhile(shop, second, call, first, commit=kept) == ("PW605" if kept else "ok")
    (second.rollback if kept else second.commit)()
    assert len(waiting_events(shop)) == 1
    assert process_all(shop) == 1
    assert scalar(shop, "select count(*) from pgwhen.scheduled_action") == 1


def test_a_scan_that_has_passed_the_event_finds_it(db: Database, shop: psycopg.Connection) -> None:
    """P1. Put back late in a transaction that began early, it still comes above the floor."""
    event = emit(shop)
    shop.execute("select _pgwhen.park_event(%s, 'x')", [event])
    (person,) = db.sessions(1)
    person.execute("select pg_current_xact_id()")
    for _ in range(3):
        emit(shop, "u2")
        process_all(shop)
        shop.execute("update _pgwhen.floor set made_at = made_at - interval '1 hour'")
    assert by_hand(person, "retry_event", event) == "ok"
    emit(shop, "u3")
    assert process_all(shop) == 1
    person.commit()
    assert process_all(shop) == 1
    assert waiting_events(shop) == []


# Pause ---------------------------------------------------------------------------------------


def test_a_pause_does_not_wait_for_a_claim(
    db: Database, shop: psycopg.Connection, action: int
) -> None:
    """Claim first: it is as good as running, and goes on."""
    (worker,) = db.sessions(1)
    claims = claim(worker, "deliver")
    assert by_hand(shop, "pause", "stop") == "ok"
    worker.commit()
    assert report(shop, "complete_actions", claims) == {action}
    assert log_counts(shop) == {"success": 1}


@pytest.mark.parametrize("scope", ["", "action_type => 'deliver'", "rule => 1"])
@pytest.mark.usefixtures("action")
def test_a_claim_does_not_wait_for_a_pause(db: Database, scope: str) -> None:
    """Pause first: it holds from its commit on, and a claim waits for neither it nor its end."""
    person, worker = db.sessions(2)
    narrowed = f", {scope}" if scope else ""
    person.execute(f"select pgwhen.pause('stop'{narrowed})".encode())
    assert len(claim(worker, "deliver")) == 1
    worker.rollback()
    person.commit()
    assert claim(worker, "deliver") == []
    worker.commit()

    person.execute(f"select pgwhen.resume({scope})".encode())
    assert claim(worker, "deliver") == []
    worker.commit()
    person.rollback()
    assert claim(worker, "deliver") == []
    worker.commit()
    person.execute(f"select pgwhen.resume({scope})".encode())
    person.commit()
    assert len(claim(worker, "deliver")) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_resume_waits_for_a_claim_that_shelves(
    db: Database, shop: psycopg.Connection, rule: int, action: int, *, kept: bool
) -> None:
    """What a claim shelves under a pause that is ending is not left behind on the shelf."""
    person, worker = db.sessions(2)
    shop.execute("select pgwhen.pause('stop', rule => %s)", [rule])
    assert claim(worker, "deliver") == []
    call = lambda: said(person, "select pgwhen.resume(rule => %s)", rule)  # noqa: E731
    assert meanwhile(shop, person, call, worker, commit=kept) == "ok"
    person.commit()
    assert scalar(shop, "select count(held_by) from pgwhen.scheduled_action") == 0
    assert [a for a, _ in claim(shop, "deliver")] == [action]


def test_a_pause_and_a_dispatch(db: Database, shop: psycopg.Connection) -> None:
    """What is dispatched before a pause's commit is done, in whatever order they commit."""
    add_rule(shop, "n", "note")
    add_rule(shop, "a", "add_to_audience", {"audience": "a"})
    person, engine = db.sessions(2)
    emit(shop)
    assert process(engine).events == 1
    person.execute("select pgwhen.pause('stop')")
    person.commit()
    engine.commit()
    assert log_counts(shop) == {"success": 2}

    emit(shop)
    process_all(shop)
    assert log_counts(shop) == {"success": 2}
    assert scalar(shop, "select count(*) from app.effect") == 1
    assert scalar(shop, "select (pgwhen.tick()).actions") == 0

    person.execute("select pgwhen.resume()")
    emit(shop)
    process_all(shop)
    assert log_counts(shop) == {"success": 2}
    person.commit()
    assert scalar(shop, "select (pgwhen.tick()).actions") == 4
    assert log_counts(shop) == {"success": 6}


def test_a_long_engine_sees_a_pause_at_its_next_step(
    db: Database, shop: psycopg.Connection
) -> None:
    """A pause that is committed in the middle of a transaction holds for the rest of it."""
    add_rule(shop, "n", "note")
    (engine,) = db.sessions(1)
    emit(shop)
    assert process(engine).events == 1
    assert by_hand(shop, "pause", "stop") == "ok"
    emit(shop, "u2")
    assert process(engine).events == 1
    engine.commit()
    assert [row[0] for row in shop.execute("select user_id from app.effect")] == ["u1"]
    states = shop.execute("select user_id, status from pgwhen.scheduled_action order by id")
    assert states.fetchall() == [("u1", "done"), ("u2", "pending")]
