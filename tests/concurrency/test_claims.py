"""Worker × worker over claimed actions: each has one holder, and one end (P2, P3)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

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
from tests.support import wait_blocked

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database


class Word(NamedTuple):
    """What a worker says of its claim, and the action's status after it."""

    verb: str
    told: tuple[list[str], ...]
    status: str


WORDS = {
    "complete": Word("complete_actions", (), "done"),
    "fail": Word("fail_actions", (['{"message": "busy"}'],), "pending"),
    "refuse": Word("fail_actions", (['{"message": "no", "nonRetryable": true}'],), "failed"),
    "release": Word("release_actions", (), "pending"),
}
words = pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)


@pytest.fixture
def rule(shop: psycopg.Connection) -> int:
    """Make a rule whose actions wait for a worker; attempts are stale at once."""
    shop.execute(
        "insert into pgwhen.setting values ('staleProcessingMinute', '1e-7'), ('retrySeconds', '0')"
    )
    return add_rule(shop, "r", "deliver", frequency="once")


def make_actions(shop: psycopg.Connection, count: int = 1) -> None:
    """Let so many actions be due."""
    for n in range(count):
        emit(shop, f"u{n}")
    process_all(shop)


def say(conn: psycopg.Connection, word: Word, claims: list[tuple[int, Any]]) -> set[int]:
    """Say *word* of *claims*; return the ids of those that were still the worker's."""
    return report(conn, word.verb, claims, *word.told)


def state(shop: psycopg.Connection) -> tuple[str, int]:
    """Return the only action's status and how many of its attempts have failed."""
    row = shop.execute("select status, retry_count from pgwhen.scheduled_action").fetchone()
    assert row is not None
    return row


def recover(conn: psycopg.Connection) -> int:
    """Take stale actions back; return how many."""
    return int(scalar(conn, "select pgwhen.recover_stale_actions()"))


@pytest.mark.usefixtures("rule")
def test_claims_are_disjoint_and_nobody_waits(db: Database, shop: psycopg.Connection) -> None:
    """P2. While one claim is open the others get the rest, the oldest first, then nothing."""
    make_actions(shop, 3)
    first, second, third = db.sessions(3)
    ids = [row[0] for row in shop.execute("select id from pgwhen.scheduled_action order by id")]

    assert [a for a, _ in claim(first, "deliver", size=2)] == ids[:2]
    assert [a for a, _ in claim(second, "deliver", size=2)] == ids[2:]
    assert claim(third, "deliver") == []

    first.rollback()
    second.commit()
    assert [a for a, _ in claim(third, "deliver")] == ids[:2]


@pytest.mark.usefixtures("rule")
def test_what_process_events_claims_is_nobody_elses(db: Database, shop: psycopg.Connection) -> None:
    """P2. Its claims come into being claimed: there is no moment at which they are pending."""
    first, second = db.sessions(2)
    emit(shop)
    made = process(first, types=["deliver"]).actions
    assert len(made) == 1
    assert claim(second, "deliver") == []
    second.rollback()
    first.commit()
    assert claim(second, "deliver") == []
    assert say(second, WORDS["complete"], [(made[0]["id"], made[0]["token"])]) == {made[0]["id"]}


def exchange(
    conn: psycopg.Connection, claims: list[tuple[int, Any]], size: int | None = None
) -> tuple[list[int], list[int]]:
    """Report *claims* as done and claim others; return the ids of what came late, and of those."""
    rows = conn.execute(
        "select x.id, x.token"
        " from pgwhen.exchange_actions('w', %s, %s, null, %s, '{deliver}') as x",
        [[a for a, _ in claims], [token for _, token in claims], size],
    ).fetchall()
    return [a for a, token in rows if not token], [a for a, token in rows if token]


@pytest.mark.usefixtures("rule")
def test_exchanges_are_disjoint_and_nobody_waits(db: Database, shop: psycopg.Connection) -> None:
    """P2. What one of them has claimed is not the other's, committed or not."""
    make_actions(shop, 5)
    mine, yours = claim(shop, "deliver", size=1), claim(shop, "deliver", size=1)
    rest = [row[0] for row in shop.execute("select id from pgwhen.due order by id")]
    one, other = db.sessions(2)

    assert exchange(one, mine, 2) == ([], rest[:2])
    assert exchange(other, yours, 2) == ([], rest[2:])
    one.rollback()
    other.commit()
    assert exchange(one, mine + yours) == ([yours[0][0]], rest[:2])


@pytest.mark.usefixtures("rule")
def test_an_exchange_that_waits_has_claimed_nothing(db: Database, shop: psycopg.Connection) -> None:
    """P3. It asks what is due when its report is through, and holds nothing before."""
    make_actions(shop, 2)
    mine = claim(shop, "deliver", size=1)
    person, worker = db.sessions(2)
    person.execute("select from pgwhen.scheduled_action where id = %s for update", [mine[0][0]])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(exchange, worker, mine)
        assert wait_blocked(shop, worker) == [person.info.backend_pid]
        assert len(claim(shop, "deliver")) == 1
        person.rollback()
        assert answer.result() == ([], [])
    worker.commit()
    assert [
        row[0] for row in shop.execute("select status from pgwhen.scheduled_action order by id")
    ] == ["done", "processing"]


@words
@pytest.mark.parametrize("step", [1, -1], ids=["rising", "falling"])
@pytest.mark.usefixtures("rule")
def test_a_report_locks_by_id(
    db: Database, shop: psycopg.Connection, word: Word, step: int
) -> None:
    """Two that lock many cannot close a circle, in whatever order they tell them."""
    make_actions(shop, 20)
    shop.execute("set pgwhen.by_engine = on")  # which may put them into the past
    shop.execute("update pgwhen.scheduled_action set execute_at = now() - id * interval '1 ms'")
    # One by one from the last on, so that they lie backwards, as a look by bitmap would lock them.
    claims = sorted(claim(shop, "deliver", size=1)[0] for _ in range(20))[::step]
    word = word._replace(told=tuple(texts * 20 for texts in word.told))
    lowest = min(a for a, _ in claims)
    person, worker, other = db.sessions(3)
    person.execute("select from pgwhen.scheduled_action where id = %s for update", [lowest])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(say, worker, word, claims)
        assert wait_blocked(shop, worker) == [person.info.backend_pid]
        others = "select from pgwhen.scheduled_action where id > %s for update skip locked"
        free = other.execute(others, [lowest]).rowcount
        other.rollback()
        person.rollback()
        assert answer.result() == {a for a, _ in claims}
    assert free == 19, "it waits for the lowest, and has locked others before"


@words
@pytest.mark.usefixtures("rule")
def test_a_stale_token_changes_nothing(shop: psycopg.Connection, word: Word) -> None:
    """P2. After recovery the action is somebody else's, whatever the first holder says."""
    make_actions(shop)
    stale = claim(shop, "deliver")
    assert recover(shop) == 1
    fresh = claim(shop, "deliver")
    assert [a for a, _ in fresh] == [a for a, _ in stale]

    assert say(shop, word, stale) == set()
    assert state(shop) == ("processing", 1)
    assert say(shop, word, fresh) == {fresh[0][0]}
    assert state(shop)[0] == word.status


@words
@pytest.mark.usefixtures("rule")
def test_a_worker_waits_for_recovery_and_is_late(
    db: Database, shop: psycopg.Connection, word: Word
) -> None:
    """P3. Recovery first: the worker's word comes after it, and counts for nothing."""
    make_actions(shop)
    claims = claim(shop, "deliver")
    recovery, worker = db.sessions(2)
    assert recover(recovery) == 1
    with ThreadPoolExecutor(1) as pool:
        telling = pool.submit(say, worker, word, claims)
        assert wait_blocked(shop, worker) == [recovery.info.backend_pid]
        recovery.commit()
        assert telling.result() == set()
    worker.commit()

    assert state(shop) == ("pending", 1)
    assert log_counts(shop) == {}


@words
@pytest.mark.usefixtures("rule")
def test_recovery_passes_over_what_a_worker_ends(
    db: Database, shop: psycopg.Connection, word: Word
) -> None:
    """P3. The worker first: recovery does not wait for it, and finds nothing afterwards."""
    make_actions(shop)
    claims = claim(shop, "deliver")
    recovery, worker = db.sessions(2)
    assert say(worker, word, claims) == {claims[0][0]}
    assert recover(recovery) == 0
    worker.commit()
    assert recover(recovery) == 0
    assert state(shop)[0] == word.status


@pytest.mark.usefixtures("rule")
def test_two_recoveries_take_an_action_back_once(db: Database, shop: psycopg.Connection) -> None:
    """P3. The second passes over what the first holds, so one lost attempt counts once."""
    make_actions(shop, 2)
    claim(shop, "deliver")
    first, second = db.sessions(2)
    assert recover(first) == 2
    assert recover(second) == 0
    first.commit()
    assert recover(second) == 0
    counts = shop.execute("select retry_count, count(*) from pgwhen.scheduled_action group by 1")
    assert counts.fetchall() == [(1, 2)]


def delete_rule(conn: psycopg.Connection) -> None:
    """Delete the rule, softly, as people do."""
    conn.execute("update pgwhen.trigger_rule set deleted_date = now()")


@pytest.mark.usefixtures("rule")
def test_a_claim_passes_over_what_is_being_cancelled(
    db: Database, shop: psycopg.Connection
) -> None:
    """P3. The deletion first: the claim gets nothing, before the commit and after."""
    make_actions(shop)
    editor, worker = db.sessions(2)
    delete_rule(editor)
    assert claim(worker, "deliver") == []
    editor.commit()
    assert claim(worker, "deliver") == []
    assert log_counts(shop) == {"cancelled": 1}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.usefixtures("rule")
def test_a_deletion_waits_for_a_claim(
    db: Database, shop: psycopg.Connection, *, kept: bool
) -> None:
    """P3. The claim first: if it commits, what runs is not stopped; if not, it is cancelled."""
    make_actions(shop)
    editor, worker = db.sessions(2)
    claims = claim(worker, "deliver")
    with ThreadPoolExecutor(1) as pool:
        deleting = pool.submit(delete_rule, editor)
        assert wait_blocked(shop, editor) == [worker.info.backend_pid]
        (worker.commit if kept else worker.rollback)()
        deleting.result()
    editor.commit()

    ended = say(shop, WORDS["complete"], claims)
    assert ended == ({claims[0][0]} if kept else set())
    assert log_counts(shop) == {"success" if kept else "cancelled": 1}


@pytest.mark.usefixtures("rule")
def test_a_slot_is_given_back_to_who_holds_it(db: Database, shop: psycopg.Connection) -> None:
    """P5. A firing that waits for a cancelled one's slot gets it: the two never both hold it."""
    make_actions(shop)
    claims = claim(shop, "deliver")
    emit(shop, "u0")
    worker, engine = db.sessions(2)
    assert say(worker, WORDS["refuse"], claims) == {claims[0][0]}
    with ThreadPoolExecutor(1) as pool:
        firing = pool.submit(process, engine)
        assert wait_blocked(shop, engine) == [worker.info.backend_pid]
        worker.commit()
        assert firing.result().events == 1
    engine.commit()

    assert log_counts(shop) == {"failed": 1}
    assert (
        scalar(shop, "select status from pgwhen.scheduled_action order by id desc limit 1")
        == "pending"
    )
    assert scalar(shop, "select count(*) from _pgwhen.reservation") == 1
