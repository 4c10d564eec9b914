"""The pairs of docs/races.md that no other file here has: attempts, retries, waits being written.

Each in both orders: where one side waits, it is seen waiting; where it skips, it answers empty
while the other's transaction is open. The clock stands still until a test moves it.
"""

from __future__ import annotations

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
)
from tests.concurrency.test_by_hand import by_hand, meanwhile
from tests.concurrency.test_claims import WORDS, Word, recover, say, words
from tests.concurrency.test_gates import add_timer
from tests.concurrency.test_waits import (
    AFTER,
    BEFORE,
    CLOCK,
    WITH_CHILDREN,
    add_wait,
    begin_send,
    children,
    click,
    delete_rules,
    expire,
    move_clock,
    state,
)

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database


@pytest.fixture
def shop(shop: psycopg.Connection) -> psycopg.Connection:
    """Return a session in a database where the time is what the test says."""
    shop.execute(CLOCK.encode())
    shop.execute("insert into pgwhen.setting values ('retrySeconds', '0')")
    return shop


@pytest.fixture
def asked(shop: psycopg.Connection) -> int:
    """Let a send be due whose condition is asked again; return its id."""
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    add_timer(shop, {"reEvaluateConditions": True})
    return make(shop)


@pytest.fixture
def action(shop: psycopg.Connection) -> int:
    """Let a delivery be due; return its id."""
    add_rule(shop, "r", "deliver")
    return make(shop)


def make(shop: psycopg.Connection) -> int:
    """Let the rule fire; return its action."""
    emit(shop)
    process_all(shop)
    return first(shop)


def first(shop: psycopg.Connection) -> int:
    """Return the id of the first action."""
    return int(scalar(shop, "select min(id) from pgwhen.scheduled_action"))


def be_untrue(shop: psycopg.Connection) -> None:
    """Let the condition be false from now on."""
    shop.execute("""update pgwhen.line_user set attributes = '{"n": 4}'""")
    process_all(shop)


# Claim and re-evaluation × recovery, acknowledgement, retry ---------------------------------------


@pytest.mark.parametrize("true", [True, False])
def test_a_claim_passes_over_what_recovery_takes_back(
    db: Database, shop: psycopg.Connection, asked: int, *, true: bool
) -> None:
    """Recovery first: the claim gets nothing; after the commit it asks, and gets it if it holds."""
    claim(shop, "send")
    move_clock(shop, 6)
    if not true:
        be_untrue(shop)
    recovery, worker = db.sessions(2)
    assert recover(recovery) == 1
    assert claim(worker, "send") == []
    worker.rollback()
    recovery.commit()
    assert [a for a, _ in claim(worker, "send")] == ([asked] if true else [])
    worker.commit()
    assert state(shop) == ("processing" if true else "cancelled")


@pytest.mark.parametrize("true", [True, False])
def test_recovery_does_not_see_a_claim_that_is_open(
    db: Database, shop: psycopg.Connection, asked: int, *, true: bool
) -> None:
    """Claim first: to recovery the action is pending, and what the gate stops has no attempt."""
    if not true:
        be_untrue(shop)
    recovery, worker = db.sessions(2)
    claims = claim(worker, "send")
    move_clock(shop, 6)
    assert recover(recovery) == 0
    recovery.rollback()
    worker.commit()
    assert recover(recovery) == int(true)
    recovery.commit()
    assert state(shop) == ("pending" if true else "cancelled")
    assert [a for a, _ in claims] == ([asked] if true else [])


@words
@pytest.mark.parametrize("true", [True, False])
def test_a_claim_passes_over_what_a_worker_reports(
    db: Database, shop: psycopg.Connection, asked: int, word: Word, *, true: bool
) -> None:
    """Acknowledgement first: nothing to claim until it is committed; a new try is asked again."""
    claims = claim(shop, "send")
    if not true:
        be_untrue(shop)
    first_worker, second_worker = db.sessions(2)
    assert say(first_worker, word, claims) == {asked}
    assert claim(second_worker, "send") == []
    second_worker.rollback()
    first_worker.commit()
    again = claim(second_worker, "send")
    second_worker.commit()
    assert len(again) == int(true and word.status == "pending")
    asked_again = "processing" if true else "cancelled"
    assert state(shop) == (asked_again if word.status == "pending" else word.status)


@words
@pytest.mark.parametrize("kept", [True, False])
def test_a_late_report_does_not_wait_for_the_next_claim(
    db: Database, shop: psycopg.Connection, action: int, word: Word, *, kept: bool
) -> None:
    """Claim first: the token of the attempt before is worth nothing, whether it is kept or not."""
    late = claim(shop, "deliver")
    move_clock(shop, 6)
    assert recover(shop) == 1
    old, new = db.sessions(2)
    claims = claim(new, "deliver")
    old.execute("set lock_timeout = 1")
    assert say(old, word, late) == set()
    (new.commit if kept else new.rollback)()
    old.commit()
    assert state(shop) == ("processing" if kept else "pending")
    assert report(shop, "complete_actions", claims) == ({action} if kept else set())


def test_a_late_report_does_not_wait_for_the_gate(
    db: Database, shop: psycopg.Connection, asked: int
) -> None:
    """Re-evaluation first: what it has cancelled, a report of an earlier try does not complete."""
    late = claim(shop, "send")
    move_clock(shop, 6)
    assert recover(shop) == 1
    be_untrue(shop)
    old, new = db.sessions(2)
    assert claim(new, "send") == []
    old.execute("set lock_timeout = 1")
    assert report(old, "complete_actions", late) == set()
    new.commit()
    old.commit()
    assert state(shop) == "cancelled"
    assert log_counts(shop) == {"cancelled": 1}
    assert asked


@pytest.mark.parametrize("second", ["complete_actions", "release_actions"])
@pytest.mark.parametrize("kept", [True, False])
def test_two_reports_of_a_claim_are_one(
    db: Database, shop: psycopg.Connection, action: int, second: str, *, kept: bool
) -> None:
    """The second waits for the first, and has no claim any more, if the first is kept."""
    claims = claim(shop, "deliver")
    one, other = db.sessions(2)
    assert report(one, "complete_actions", claims) == {action}
    call = lambda: report(other, second, claims)  # noqa: E731
    assert meanwhile(shop, other, call, one, commit=kept) == (set() if kept else {action})
    other.commit()
    assert log_counts(shop).get("success", 0) == int(kept or second == "complete_actions")


@pytest.mark.parametrize("true", [True, False])
def test_a_claim_passes_over_what_is_retried(
    db: Database, shop: psycopg.Connection, asked: int, *, true: bool
) -> None:
    """Retry first: the claim gets nothing; after the commit it asks, as for every other try."""
    say(shop, WORDS["refuse"], claim(shop, "send"))
    if not true:
        be_untrue(shop)
    person, worker = db.sessions(2)
    assert by_hand(person, "retry_action", asked) == "ok"
    assert claim(worker, "send") == []
    worker.rollback()
    person.commit()
    assert len(claim(worker, "send")) == int(true)
    worker.commit()
    assert state(shop) == ("processing" if true else "cancelled")


@pytest.mark.parametrize("true", [True, False])
def test_a_retry_waits_for_a_claim(
    db: Database, shop: psycopg.Connection, asked: int, *, true: bool
) -> None:
    """Claim first: what has started is not retried, what the gate has stopped is."""
    if not true:
        be_untrue(shop)
    person, worker = db.sessions(2)
    claim(worker, "send")
    retry = lambda: by_hand(person, "retry_action", asked)  # noqa: E731
    assert meanwhile(shop, person, retry, worker) == ("PW602" if true else "ok")
    (person.rollback if true else person.commit)()
    assert state(shop) == ("processing" if true else "pending")


@words
def test_a_retry_waits_for_a_report(
    db: Database, shop: psycopg.Connection, action: int, word: Word
) -> None:
    """Acknowledgement first: what has failed for good is retried, nothing else is."""
    claims = claim(shop, "deliver")
    person, worker = db.sessions(2)
    assert say(worker, word, claims) == {action}
    retry = lambda: by_hand(person, "retry_action", action)  # noqa: E731
    assert meanwhile(shop, person, retry, worker) == ("ok" if word.status == "failed" else "PW602")
    (person.commit if word.status == "failed" else person.rollback)()
    assert state(shop) == ("done" if word.status == "done" else "pending")


@words
def test_a_late_report_does_not_wait_for_a_retry(
    db: Database, shop: psycopg.Connection, action: int, word: Word
) -> None:
    """Retry first: it is a new try, of which the attempt before knows nothing."""
    late = claim(shop, "deliver")
    say(shop, WORDS["refuse"], late)
    person, worker = db.sessions(2)
    assert by_hand(person, "retry_action", action) == "ok"
    worker.execute("set lock_timeout = 1")
    assert say(worker, word, late) == set()
    person.commit()
    worker.commit()
    assert state(shop) == "pending"
    assert len(claim(shop, "deliver")) == 1


@words
def test_a_late_report_closes_no_circle(
    db: Database, shop: psycopg.Connection, action: int, word: Word
) -> None:
    """Of many actions that are no longer its own it locks none, in whatever order others do."""
    make(shop)
    late = claim(shop, "deliver")
    word = word._replace(told=tuple(texts * 2 for texts in word.told))
    assert len(late) == 2
    move_clock(shop, 6)
    assert recover(shop) == 2
    person, worker = db.sessions(2)
    change = "update pgwhen.scheduled_action set execute_at = execute_at where id = %s"
    person.execute(change, [max(id_ for id_, _ in late)])
    worker.execute("set lock_timeout = 1")
    assert say(worker, word, late) == set()
    person.execute(change, [action])
    person.commit()
    worker.commit()
    assert len(claim(shop, "deliver")) == 2


# Cancel × recovery, retry, cancel -----------------------------------------------------------------


@pytest.mark.parametrize("kept", [True, False])
def test_a_cancel_waits_for_recovery(
    db: Database, shop: psycopg.Connection, action: int, *, kept: bool
) -> None:
    """Recovery first: the next try is cancelled; without it, a next try there will not be."""
    claim(shop, "deliver")
    move_clock(shop, 6)
    person, recovery = db.sessions(2)
    assert recover(recovery) == 1
    cancel = lambda: by_hand(person, "cancel_action", action)  # noqa: E731
    assert meanwhile(shop, person, cancel, recovery, commit=kept) == "ok"
    person.commit()
    assert state(shop) == ("cancelled" if kept else "processing")
    assert recover(shop) == (not kept)
    assert state(shop) == ("cancelled" if kept else "failed")
    assert log_counts(shop) == {state(shop): 1}


@pytest.mark.parametrize("kept", [True, False])
def test_a_retry_waits_for_a_cancel(
    db: Database, shop: psycopg.Connection, action: int, *, kept: bool
) -> None:
    """Cancel first: what it has cancelled is retried; what it has not, is pending already."""
    one, other = db.sessions(2)
    assert by_hand(one, "cancel_action", action) == "ok"
    retry = lambda: by_hand(other, "retry_action", action)  # noqa: E731
    assert meanwhile(shop, other, retry, one, commit=kept) == ("ok" if kept else "PW602")
    (other.commit if kept else other.rollback)()
    assert state(shop) == "pending"
    assert log_counts(shop) == ({"cancelled": 1} if kept else {})
    assert len(claim(shop, "deliver")) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_cancel_waits_for_a_retry(
    db: Database, shop: psycopg.Connection, action: int, *, kept: bool
) -> None:
    """Retry first: it is cancelled; without it, there is nothing to cancel."""
    say(shop, WORDS["refuse"], claim(shop, "deliver"))
    one, other = db.sessions(2)
    assert by_hand(one, "retry_action", action) == "ok"
    cancel = lambda: by_hand(other, "cancel_action", action)  # noqa: E731
    assert meanwhile(shop, other, cancel, one, commit=kept) == ("ok" if kept else "PW602")
    (other.commit if kept else other.rollback)()
    assert state(shop) == ("cancelled" if kept else "failed")
    assert log_counts(shop) == {"failed": 1, **({"cancelled": 1} if kept else {})}


@pytest.mark.parametrize("kept", [True, False])
def test_two_cancels_are_one(
    db: Database, shop: psycopg.Connection, action: int, *, kept: bool
) -> None:
    """The second waits for the first, and is told that it is cancelled, if the first is kept."""
    one, other = db.sessions(2)
    assert by_hand(one, "cancel_action", action) == "ok"
    cancel = lambda: by_hand(other, "cancel_action", action)  # noqa: E731
    assert meanwhile(shop, other, cancel, one, commit=kept) == ("PW602" if kept else "ok")
    (other.rollback if kept else other.commit)()
    assert log_counts(shop) == {"cancelled": 1}


# Click and expiry × claim, recovery, acknowledgement, retry ---------------------------------------


@pytest.mark.parametrize("first", ["click", "recovery"])
def test_a_click_between_two_attempts_counts(
    db: Database, shop: psycopg.Connection, first: str
) -> None:
    """The lost attempt may have sent: neither waits, and the next send's wait finds the click."""
    begin_send(shop)
    move_clock(shop, 6)
    click(shop)
    engine, recovery = db.sessions(2)
    if first == "click":
        assert process(engine).events == 1
        assert recover(recovery) == 1
        engine.commit()
        recovery.commit()
    else:
        assert recover(recovery) == 1
        assert process(engine).events == 1
        recovery.commit()
        engine.commit()
    assert state(shop) == "pending"
    move_clock(shop, 1)
    report(shop, "complete_actions", claim(shop, "deliver"))
    process_all(shop)
    assert state(shop) == "done clicked"
    assert children(shop) == 1


@pytest.mark.parametrize("delay", [BEFORE, AFTER], ids=["before", "after"])
def test_a_retry_waits_for_a_click(
    db: Database, shop: psycopg.Connection, delay: dict[str, Any]
) -> None:
    """Click first: what it has made due, or ended, is not retried."""
    add_wait(shop, delay)
    click(shop)
    engine, person = db.sessions(2)
    assert process(engine).events == 1
    retry = lambda: by_hand(person, "retry_action", first(shop))  # noqa: E731
    assert meanwhile(shop, person, retry, engine) == "PW602"
    assert state(shop) == ("pending clicked" if delay is BEFORE else "done clicked")


def test_a_click_does_nothing_to_what_is_retried(db: Database, shop: psycopg.Connection) -> None:
    """Retry first: a wait that was cancelled is due now; the click neither waits nor counts."""
    add_wait(shop, BEFORE)
    assert by_hand(shop, "cancel_action", first(shop)) == "ok"
    click(shop)
    engine, person = db.sessions(2)
    assert by_hand(person, "retry_action", first(shop)) == "ok"
    assert process(engine).events == 1
    engine.commit()
    person.commit()
    assert state(shop) == "pending"
    assert len(claim(shop, "deliver")) == 1
    assert log_counts(shop) == {"cancelled": 1}


def test_a_late_click_yields_to_a_retry(db: Database, shop: psycopg.Connection) -> None:
    """Retry first, of a wait that expired: the pass leaves the click for later; then it is late."""
    add_wait(shop, BEFORE)
    move_clock(shop, 11)
    assert expire(shop) == 1
    click(shop)
    engine, person = db.sessions(2)
    assert by_hand(person, "retry_action", first(shop)) == "ok"
    assert process(engine).events == 0
    engine.commit()
    person.commit()
    process_all(shop)
    assert state(shop) == "pending not_clicked"
    assert log_counts(shop) == {"expired": 1, "late_click": 1}


@pytest.mark.parametrize("kept", [True, False])
def test_a_retry_waits_for_an_expiry(db: Database, shop: psycopg.Connection, *, kept: bool) -> None:
    """Expiry first: what it has cancelled can be retried, and waits for no click then."""
    add_wait(shop, BEFORE)
    move_clock(shop, 11)
    expirer, person = db.sessions(2)
    assert expire(expirer) == 1
    retry = lambda: by_hand(person, "retry_action", first(shop))  # noqa: E731
    answer = meanwhile(shop, person, retry, expirer, commit=kept)
    assert answer == ("ok" if kept else "PW602")
    (person.commit if kept else person.rollback)()
    assert state(shop) == ("pending not_clicked" if kept else "waiting")
    assert expire(shop) == (not kept)


def test_expiry_does_not_see_a_retry(db: Database, shop: psycopg.Connection) -> None:
    """Retry first: what is retried does not wait, before the commit and after."""
    add_wait(shop, BEFORE)
    assert by_hand(shop, "cancel_action", first(shop)) == "ok"
    move_clock(shop, 11)
    expirer, person = db.sessions(2)
    assert by_hand(person, "retry_action", first(shop)) == "ok"
    assert expire(expirer) == 0
    expirer.rollback()
    person.commit()
    assert expire(expirer) == 0
    assert len(claim(shop, "deliver")) == 1


def test_a_claim_gets_what_an_expiry_has_left(db: Database, shop: psycopg.Connection) -> None:
    """While it expires there is nothing to claim; then there is what follows, and only that."""
    sent = {"actionType": "deliver"}
    add_wait(shop, {**BEFORE, "onExpire": sent})
    move_clock(shop, 11)
    expirer, worker = db.sessions(2)
    assert claim(worker, "deliver") == []
    assert expire(expirer) == 1
    assert claim(worker, "deliver") == []
    expirer.commit()
    assert [a for a, _ in claim(worker, "deliver")] == [first(shop) + 1]


# A wait that is being written × everything else ---------------------------------------------------


def test_nobody_sees_a_wait_before_it_is_written(db: Database, shop: psycopg.Connection) -> None:
    """A rule's wait first: nothing to claim, recover or expire; expiry keeps off its bucket."""
    add_rule(shop, "r", "deliver", {"delay": {**BEFORE, "expiresSeconds": 1}})
    emit(shop)
    engine, other = db.sessions(2)
    assert process(engine).events == 1
    move_clock(shop, 6)
    assert claim(other, "deliver") == []
    assert recover(other) == 0
    assert expire(other) == 0
    other.rollback()
    engine.commit()
    assert claim(other, "deliver") == []
    assert recover(other) == 0
    assert expire(other) == 1


def test_a_wait_is_not_written_beside_an_expiry(db: Database, shop: psycopg.Connection) -> None:
    """Expiry first: the event stays in the outbox, and finds that its user waits no more."""
    add_wait(shop, BEFORE)
    move_clock(shop, 11)
    emit(shop)
    expirer, engine = db.sessions(2)
    assert expire(expirer) == 1
    assert process(engine).events == 0
    engine.rollback()
    expirer.commit()
    assert process(engine).events == 1
    engine.commit()
    rows = shop.execute("select status, waiting from pgwhen.scheduled_action order by id")
    assert rows.fetchall() == [("cancelled", False), ("pending", True)]


@pytest.mark.parametrize("first", ["wait", "deletion"])
def test_a_wait_of_a_rule_that_is_being_deleted_is_not_started(
    db: Database, shop: psycopg.Connection, first: str
) -> None:
    """Neither sees the other or waits for it: the wait is there, and the gate stops its action."""
    add_rule(shop, "r", "deliver", {"delay": BEFORE})
    emit(shop)
    engine, person = db.sessions(2)
    if first == "wait":
        assert process(engine).events == 1
        delete_rules(person)
        person.commit()
        engine.commit()
    else:
        delete_rules(person)
        assert process(engine).events == 1
        engine.commit()
        person.commit()
    assert state(shop) == "waiting"
    click(shop)
    process_all(shop)
    assert claim(shop, "deliver") == []
    assert state(shop) == "cancelled clicked"
    assert log_counts(shop) == {"cancelled": 1}


@pytest.mark.parametrize("verb", ["cancel_action", "retry_action"])
@pytest.mark.parametrize("kept", [True, False])
def test_who_wants_a_send_waits_for_its_report(
    db: Database, shop: psycopg.Connection, verb: str, *, kept: bool
) -> None:
    """A send's wait first: the wait is cancelled, and nothing follows; it is not retried."""
    claims = begin_send(shop)
    worker, person = db.sessions(2)
    assert len(report(worker, "complete_actions", claims)) == 1
    call = lambda: by_hand(person, verb, first(shop))  # noqa: E731
    answer = meanwhile(shop, person, call, worker, commit=kept)
    assert answer == ("ok" if verb == "cancel_action" else "PW602")
    (person.commit if answer == "ok" else person.rollback)()
    was = "waiting" if kept else "processing"
    assert state(shop) == ("cancelled" if kept and verb == "cancel_action" else was)
    click(shop)
    process_all(shop)
    assert children(shop) == (kept and verb == "retry_action")


def test_a_send_that_is_cancelled_opens_no_wait(db: Database, shop: psycopg.Connection) -> None:
    """Cancel first: the send that it was too late for is done, and nothing follows it."""
    claims = begin_send(shop)
    worker, person = db.sessions(2)
    assert by_hand(person, "cancel_action", first(shop)) == "ok"
    done = meanwhile(shop, worker, lambda: report(worker, "complete_actions", claims), person)
    worker.commit()
    assert len(done) == 1
    assert state(shop) == "done"
    click(shop)
    process_all(shop)
    move_clock(shop, 11)
    assert expire(shop) == 0
    assert children(shop) == 0
    assert log_counts(shop) == {"success": 1}


def test_a_send_that_is_being_reported_is_nobody_elses(
    db: Database, shop: psycopg.Connection
) -> None:
    """A send's wait first: a claim and an expiry find nothing, before the commit and after."""
    claims = begin_send(shop)
    worker, other = db.sessions(2)
    assert len(report(worker, "complete_actions", claims)) == 1
    assert claim(other, "deliver") == []
    assert expire(other) == 0
    other.rollback()
    worker.commit()
    assert claim(other, "deliver") == []
    assert expire(other) == 0
    other.rollback()
    move_clock(shop, 11)
    assert expire(other) == 1


def test_a_send_is_reported_beside_an_expiry(db: Database, shop: psycopg.Connection) -> None:
    """Expiry of another wait of the user first: the report does not wait for its bucket."""
    add_wait(shop, {**WITH_CHILDREN, "whenPending": "add"})
    move_clock(shop, 11)
    emit(shop)
    process_all(shop)
    claims = claim(shop, "deliver")
    expirer, worker = db.sessions(2)
    assert expire(expirer) == 1
    assert len(report(worker, "complete_actions", claims)) == 1
    worker.commit()
    expirer.commit()
    process_all(shop)
    waiting = shop.execute("select id from pgwhen.scheduled_action where waiting").fetchall()
    assert waiting == [(claims[0][0],)]
