"""What stops a pending action × the claim that would start it, in both orders (P3).

A claim never waits for an action: it passes over what somebody else has locked. So where it meets
an open transaction it is seen to find nothing, or to take what that transaction has not touched,
and the outcome is looked at when both are over.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.concurrency.scene import claim, emit, log_counts, process, process_all, report, scalar
from tests.support import wait_blocked

if TYPE_CHECKING:
    from tests.support import Database

Outcome = list[tuple[str, str | None]]


@pytest.fixture
def rule(shop: psycopg.Connection) -> int:
    """Make a rule whose sends are due at once, and asked again; u1 is a friend with 5 points."""
    shop.execute("""select pgwhen.register_action('send', options => '{"send": true}')""")
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    process_all(shop)
    return add_timer(shop, {"reEvaluateConditions": True})


def add_timer(shop: psycopg.Connection, delay: dict[str, Any]) -> int:
    """Make a rule that fires for `paid` while the user's n is 5, and waits for no time."""
    return int(
        scalar(
            shop,
            "insert into pgwhen.trigger_rule"
            " (name, source_type, source_config, action_type, action_config, frequency)"
            " values ('r', 'paid', %s, 'send', %s, 'always') returning id",
            Jsonb({"condition": {"user.n": 5}}),
            Jsonb({"delay": {"seconds": 0, **delay}}),
        )
    )


def make_action(shop: psycopg.Connection) -> None:
    """Let one action be due."""
    emit(shop)
    process_all(shop)


def outcomes(shop: psycopg.Connection) -> Outcome:
    """Return status and reason of each action, the oldest first."""
    return shop.execute(
        "select status, error_message from pgwhen.scheduled_action order by id"
    ).fetchall()


def start(conn: psycopg.Connection) -> int:
    """Claim sends; return how many there were."""
    return len(claim(conn, "send"))


#: What people do to a rule or a user, and the reason with which the action is then cancelled.
CHANGES = {
    "disable": ("update pgwhen.trigger_rule set enabled = false", "rule_disabled"),
    "park": ("update pgwhen.trigger_rule set parked_reason = 'a loop?'", "rule_disabled"),
    "unfollow": (
        "insert into pgwhen.friend_track_event (user_id, event) values ('u1', 'unfollow')",
        "not_a_friend",
    ),
    "condition": ("""update pgwhen.line_user set attributes = '{"n": 4}'""", "condition_false"),
}
#: Those that lock the actions themselves.
ENDS = {
    "delete rule": ("update pgwhen.trigger_rule set deleted_date = now()", "rule_deleted"),
    "remove rule": ("delete from pgwhen.trigger_rule", "rule_deleted"),
    "delete user": ("delete from pgwhen.line_user", "user_deleted"),
}
changes = pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
ends = pytest.mark.parametrize(("change", "reason"), ENDS.values(), ids=ENDS)
everything = pytest.mark.parametrize(
    ("change", "reason"), [*CHANGES.values(), *ENDS.values()], ids=[*CHANGES, *ENDS]
)


@everything
@pytest.mark.usefixtures("rule")
def test_a_change_that_is_committed_counts(
    shop: psycopg.Connection, change: str, reason: str
) -> None:
    """P3. The change first: the claim finds nothing to start, and the row has the reason."""
    make_action(shop)
    shop.execute(change.encode())
    assert start(shop) == 0
    assert outcomes(shop) == [("cancelled", reason)]
    assert log_counts(shop) == {"cancelled": 1}


@changes
@pytest.mark.usefixtures("rule")
def test_a_claim_does_not_wait_for_a_change(
    db: Database, shop: psycopg.Connection, change: str, reason: str
) -> None:
    """P3. The change is open: it does not count yet, and does not touch what was claimed."""
    del reason
    make_action(shop)
    person, worker = db.sessions(2)
    person.execute(change.encode())
    assert start(worker) == 1
    worker.commit()
    person.commit()
    assert outcomes(shop) == [("processing", None)]
    assert log_counts(shop) == {}


@ends
@pytest.mark.usefixtures("rule")
def test_a_claim_passes_over_what_is_being_ended(
    db: Database, shop: psycopg.Connection, change: str, reason: str
) -> None:
    """P3. The deletion is open and has ended the action: the claim does not wait for it."""
    make_action(shop)
    person, worker = db.sessions(2)
    person.execute(change.encode())
    assert start(worker) == 0
    worker.commit()
    person.commit()
    assert outcomes(shop) == [("cancelled", reason)]
    assert log_counts(shop) == {"cancelled": 1}


@pytest.mark.usefixtures("rule")
def test_a_deleted_rule_waits_for_the_claim(db: Database, shop: psycopg.Connection) -> None:
    """P3. The claim first: the deletion waits for it, and what has started goes on."""
    make_action(shop)
    person, worker = db.sessions(2)
    assert start(worker) == 1
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(person.execute, ENDS["delete rule"][0])
        assert wait_blocked(shop, person) == [worker.info.backend_pid]
        worker.commit()
        deleting.result()
    person.commit()
    assert outcomes(shop) == [("processing", None)]


@pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
@pytest.mark.usefixtures("rule")
def test_a_deleted_user_does_not_wait_for_the_claim(
    db: Database, shop: psycopg.Connection, level: str
) -> None:
    """P3. The claim first: the application deletes on, and the next try finds the user gone."""
    make_action(shop)
    application, worker = db.sessions(2)
    application.execute(f"set transaction isolation level {level}".encode())
    application.execute("select from pgwhen.line_user")
    claims = claim(worker, "send")
    application.execute("delete from pgwhen.line_user")
    worker.commit()
    application.commit()
    assert outcomes(shop) == [("processing", None)]

    report(shop, "fail_actions", claims, ['{"nextRetryDelay": 0}'])
    assert start(shop) == 0
    assert outcomes(shop) == [("cancelled", "user_deleted")]


@pytest.mark.usefixtures("rule")
def test_a_snapshot_that_is_too_old_does_not_fail_the_application(
    db: Database, shop: psycopg.Connection
) -> None:
    """P6. A REPEATABLE READ transaction deletes a user whose action it sees as it was."""
    make_action(shop)
    (application,) = db.sessions(1)
    application.execute("set transaction isolation level repeatable read")
    application.execute("select from pgwhen.line_user")
    shop.execute("update pgwhen.scheduled_action set action_config = '{}'")
    application.execute("delete from pgwhen.line_user")
    application.commit()
    assert outcomes(shop) == [("pending", None)]
    assert start(shop) == 0
    assert outcomes(shop) == [("cancelled", "user_deleted")]


@everything
@pytest.mark.usefixtures("rule")
def test_what_an_open_pass_makes_is_asked_when_it_is_due(
    db: Database, shop: psycopg.Connection, change: str, reason: str
) -> None:
    """P3. The pass is open when the change is made: neither sees the other, but the gate does."""
    emit(shop)
    engine, person = db.sessions(2)
    assert process(engine).events == 1
    person.execute(change.encode())
    person.commit()
    engine.commit()
    assert outcomes(shop) == [("pending", None)]
    assert start(shop) == 0
    assert outcomes(shop) == [("cancelled", reason)]


@everything
@pytest.mark.usefixtures("rule")
def test_two_claims_ask_the_gate_once(
    db: Database, shop: psycopg.Connection, change: str, reason: str
) -> None:
    """P3. What one claim is cancelling the other one passes over."""
    emit(shop)
    engine, first, second = db.sessions(3)
    process(engine)
    shop.execute(change.encode())
    engine.commit()
    assert start(first) == 0
    assert start(second) == 0
    second.commit()
    first.commit()
    assert outcomes(shop) == [("cancelled", reason)]
    assert log_counts(shop) == {"cancelled": 1}


@pytest.mark.usefixtures("rule")
def test_what_is_asked_again_is_being_cancelled(db: Database, shop: psycopg.Connection) -> None:
    """P3. Cancelling a rule's actions waits for a gate that stops them, and is late."""
    make_action(shop)
    shop.execute(CHANGES["condition"][0].encode())
    person, worker = db.sessions(2)
    assert start(worker) == 0
    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(person.execute, ENDS["delete rule"][0])
        assert wait_blocked(shop, person) == [worker.info.backend_pid]
        worker.commit()
        cancelling.result()
    person.commit()
    assert outcomes(shop) == [("cancelled", "condition_false")]
    assert log_counts(shop) == {"cancelled": 1}


def test_what_is_claimed_is_not_replaced(db: Database, shop: psycopg.Connection) -> None:
    """P3. The claim is open: replace passes over what it has, does not wait, and adds."""
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    add_timer(shop, {"whenPending": "replace"})
    make_action(shop)
    engine, worker = db.sessions(2)
    assert start(worker) == 1
    emit(shop)
    assert process(engine).events == 1
    engine.commit()
    worker.commit()
    assert outcomes(shop) == [("processing", None), ("pending", None)]


def test_what_is_being_replaced_is_not_claimed(db: Database, shop: psycopg.Connection) -> None:
    """P3. The pass is open and has replaced the action: the claim finds neither of the two."""
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    add_timer(shop, {"whenPending": "replace"})
    make_action(shop)
    engine, worker = db.sessions(2)
    emit(shop)
    assert process(engine).events == 1
    assert start(worker) == 0
    worker.commit()
    engine.commit()
    assert outcomes(shop) == [("cancelled", "replaced"), ("pending", None)]
    assert start(shop) == 1


def test_what_is_being_claimed_is_still_in_the_way(db: Database, shop: psycopg.Connection) -> None:
    """P3. The claim is open: to a firing the action is pending, as if the firing had come first."""
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    add_timer(shop, {})
    make_action(shop)
    engine, worker = db.sessions(2)
    assert start(worker) == 1
    emit(shop)
    assert process(engine).events == 1
    engine.commit()
    worker.commit()
    assert outcomes(shop) == [("processing", None)]
    assert log_counts(shop) == {"suppressed": 1}


def test_what_was_claimed_is_not_in_the_way(db: Database, shop: psycopg.Connection) -> None:
    """P3. The firing first, or the claim first: one is suppressed, or both are done."""
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    add_timer(shop, {})
    make_action(shop)
    engine, worker = db.sessions(2)
    emit(shop)
    assert process(engine).events == 1
    assert start(worker) == 1
    worker.commit()
    engine.commit()
    assert outcomes(shop) == [("processing", None)]
    assert log_counts(shop) == {"suppressed": 1}

    make_action(shop)
    assert outcomes(shop) == [("processing", None), ("pending", None)]


def test_two_events_in_two_passes_make_one_timer(db: Database, shop: psycopg.Connection) -> None:
    """P5. While one pass holds the user, the other one takes nothing; then it finds the timer."""
    shop.execute("""insert into pgwhen.line_user (user_id, attributes) values ('u1', '{"n": 5}')""")
    process_all(shop)
    add_timer(shop, {"seconds": 60})
    emit(shop)
    first, second = db.sessions(2)
    assert process(first).events == 1
    emit(shop)
    assert process(second).events == 0
    second.rollback()
    first.commit()
    assert process(second).events == 1
    second.commit()
    assert outcomes(shop) == [("pending", None)]
    assert log_counts(shop) == {"suppressed": 1}


SCHEDULE = "select pgwhen.schedule_action('send', %s, deduplication_key => 'cart')"


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_one_deduplication_key_is_one_action(
    db: Database, shop: psycopg.Connection, ends: str
) -> None:
    """P2. The second waits for the first: if that commits it is told the same id, else its own."""
    first, second = db.sessions(2)
    theirs = scalar(first, SCHEDULE, "u1")
    with ThreadPoolExecutor(1) as pool:
        scheduling = pool.submit(scalar, second, SCHEDULE, "u2")
        assert wait_blocked(shop, second) == [first.info.backend_pid]
        getattr(first, ends)()
        ours = scheduling.result()
    second.commit()

    assert (ours == theirs) is (ends == "commit")
    rows = shop.execute("select id, user_id from pgwhen.scheduled_action").fetchall()
    assert rows == [(theirs, "u1") if ends == "commit" else (ours, "u2")]


def test_many_deduplication_keys_are_one_action_each(
    db: Database, shop: psycopg.Connection
) -> None:
    """P2. A bulk call that meets one key of another one's makes the rest, once."""
    first, second = db.sessions(2)
    theirs = scalar(first, SCHEDULE, "u1")
    many = (
        "select array_agg(s) from pgwhen.schedule_actions("
        "'send', '{a,b,c}', deduplication_keys => '{one,cart,two}') as s"
    )
    with ThreadPoolExecutor(1) as pool:
        scheduling = pool.submit(scalar, second, many)
        assert wait_blocked(shop, second) == [first.info.backend_pid]
        first.commit()
        ids = scheduling.result()
    second.commit()
    assert ids[1] == theirs
    assert shop.execute(
        "select id, user_id from pgwhen.scheduled_action where id = any(%s) order by user_id", [ids]
    ).fetchall() == [(ids[0], "a"), (ids[2], "c"), (theirs, "u1")]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_who_cannot_see_the_other_one_is_told_to_try_again(
    db: Database, shop: psycopg.Connection, level: str
) -> None:
    """P6. A snapshot from before the other's commit: a serialization failure, not a loop."""
    shop.execute("select pgwhen.register_action('send')")
    (application,) = db.sessions(1)
    application.execute(f"set transaction isolation level {level}".encode())
    application.execute("select from pgwhen.line_user")
    theirs = scalar(shop, SCHEDULE, "u1")
    with pytest.raises(psycopg.errors.SerializationFailure, match="deduplication_key"):
        scalar(application, SCHEDULE, "u2")
    application.rollback()
    assert scalar(application, SCHEDULE, "u2") == theirs
