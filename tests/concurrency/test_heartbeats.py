"""Heartbeats: whom they race, that they wait for nobody, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.concurrency.scene import claim, report, scalar
from tests.concurrency.test_by_hand import by_hand, meanwhile
from tests.concurrency.test_flat_cost import buffers
from tests.concurrency.test_waits import CLOCK

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

    Claims = list[tuple[int, Any]]

#: Actions of a type that is to beat every 10 seconds, for at most 10 minutes.
PAY = """
insert into pgwhen.setting values ('retrySeconds', '0');
select pgwhen.register_action(
    'pay', options => '{"timeouts": {"startToClose": 600, "heartbeat": 10}}'
);
"""
FAILED = ['{"message": "busy"}']
#: Buffers of a sweep that finds nothing.
FEW = 100


class Reply(NamedTuple):
    """What a heartbeat is told."""

    held: bool
    cancel_requested: bool


HELD = Reply(held=True, cancel_requested=False)
LOST = Reply(held=False, cancel_requested=False)


@pytest.fixture
def shop(shop: psycopg.Connection) -> psycopg.Connection:
    """Return a session in a shop that pays, where the time is what the test says."""
    shop.execute(CLOCK.encode())
    shop.execute(PAY.encode())
    return shop


@pytest.fixture(params=["first", "later"])
def claims(shop: psycopg.Connection, request: pytest.FixtureRequest) -> Claims:
    """Return the claim of a payment, which has beaten, or has not."""
    shop.execute("select pgwhen.schedule_action('pay', 'u1')")
    claims = claim(shop, "pay")
    if request.param == "later":
        assert beat(shop, claims, "1") == HELD
    return claims


def beat(conn: psycopg.Connection, claims: Claims, details: str | None = None) -> Reply:
    """Let the claim beat; return the reply."""
    [(action, token)] = claims
    row = conn.execute(
        "select held, cancel_requested from pgwhen.heartbeat_actions("
        "'w', array[%s]::bigint[], array[%s]::uuid[], array[%s::jsonb])",
        [action, token, details],
    ).fetchone()
    assert row is not None
    return Reply(*row)


def let_pass(conn: psycopg.Connection, seconds: float) -> None:
    """Let so many seconds pass."""
    conn.execute("update app.clock set now = now + make_interval(secs => %s)", [seconds])


def recover(conn: psycopg.Connection) -> int:
    """Take back what is stale; return how much that was."""
    return int(scalar(conn, "select pgwhen.recover_stale_actions()"))


def details(conn: psycopg.Connection) -> Any:
    """Return what is known of the progress of the only action."""
    return scalar(conn, "select (select b.details from _pgwhen.heartbeat as b)")


def status(conn: psycopg.Connection) -> str:
    """Return the status of the only action."""
    return str(scalar(conn, "select status from pgwhen.scheduled_action"))


def test_a_heartbeat_does_not_wait_for_recovery(
    db: Database, shop: psycopg.Connection, claims: Claims
) -> None:
    """Recovery first: the beat passes by and writes nothing; after the commit it hears so."""
    let_pass(shop, 11)
    before = details(shop)
    recovery, worker = db.sessions(2)
    assert recover(recovery) == 1
    assert beat(worker, claims, "2") == HELD
    worker.commit()
    recovery.commit()
    assert details(shop) == before
    assert beat(worker, claims, "3") == LOST
    worker.commit()
    assert details(shop) == before


def test_recovery_passes_over_what_beats(
    db: Database, shop: psycopg.Connection, claims: Claims
) -> None:
    """Heartbeat first: recovery does not wait, and finds that the action lives."""
    let_pass(shop, 11)
    recovery, worker = db.sessions(2)
    assert beat(worker, claims, "2") == HELD
    assert recover(recovery) == 0
    recovery.rollback()
    worker.commit()
    assert recover(shop) == 0
    assert status(shop) == "processing"
    let_pass(shop, 11)
    assert recover(shop) == 1


@pytest.mark.parametrize(
    ("verb", "told"),
    [("complete_actions", ()), ("fail_actions", (FAILED,)), ("release_actions", ())],
)
def test_a_heartbeat_does_not_wait_for_a_report(
    db: Database, shop: psycopg.Connection, claims: Claims, verb: str, told: tuple[list[str], ...]
) -> None:
    """Acknowledgement first: the beat passes by; after the commit it hears that all is over."""
    before = details(shop)
    reporter, worker = db.sessions(2)
    assert report(reporter, verb, claims, *told) == {claims[0][0]}
    assert beat(worker, claims, "2") == HELD
    worker.commit()
    reporter.commit()
    assert details(shop) == (None if verb == "complete_actions" else before)
    assert beat(worker, claims, "3") == LOST


@pytest.mark.parametrize(("verb", "told"), [("complete_actions", ()), ("fail_actions", (FAILED,))])
def test_a_report_waits_for_a_heartbeat(
    db: Database, shop: psycopg.Connection, claims: Claims, verb: str, told: tuple[list[str], ...]
) -> None:
    """Heartbeat first: the report waits for it, and counts; what is done needs no details."""
    reporter, worker = db.sessions(2)
    assert beat(worker, claims, "2") == HELD
    tell = lambda: report(reporter, verb, claims, *told)  # noqa: E731
    assert meanwhile(shop, reporter, tell, worker) == {claims[0][0]}
    reporter.commit()
    assert details(shop) == (None if verb == "complete_actions" else 2)
    assert beat(shop, claims, "3") == LOST


def test_a_heartbeat_does_not_wait_for_a_cancel(db: Database, claims: Claims) -> None:
    """Cancel first: the beat hears of it after the commit."""
    person, worker = db.sessions(2)
    assert by_hand(person, "cancel_action", claims[0][0]) == "ok"
    assert beat(worker, claims, "2") == HELD
    worker.commit()
    person.commit()
    assert beat(worker, claims) == Reply(held=True, cancel_requested=True)


def test_a_cancel_and_a_heartbeat(db: Database, shop: psycopg.Connection, claims: Claims) -> None:
    """Heartbeat first: a cancel waits for the first of an attempt only; the next hears of it."""
    is_first = details(shop) is None
    person, worker = db.sessions(2)
    assert beat(worker, claims, "2") == HELD

    def cancel() -> str:
        return by_hand(person, "cancel_action", claims[0][0])

    assert (meanwhile(shop, person, cancel, worker) if is_first else cancel()) == "ok"
    worker.commit()
    person.commit()
    assert beat(shop, claims) == Reply(held=True, cancel_requested=True)


def test_a_late_heartbeat_does_not_touch_the_next_attempt(
    db: Database, shop: psycopg.Connection, claims: Claims
) -> None:
    """Claim × heartbeat: beside the next claim, and after it, the old token is worth nothing."""
    before = details(shop)
    report(shop, "fail_actions", claims, FAILED)
    claimer, worker = db.sessions(2)
    newer = claim(claimer, "pay")
    assert beat(worker, claims, "2") == LOST
    claimer.commit()
    assert beat(worker, claims, "3") == LOST
    worker.commit()
    assert details(shop) == before
    assert beat(shop, newer, "4") == HELD
    assert details(shop) == 4


def test_two_heartbeats_do_not_wait_for_each_other(
    db: Database, shop: psycopg.Connection, claims: Claims
) -> None:
    """The one that is later in the same moment writes nothing, and is answered."""
    one, other = db.sessions(2)
    assert beat(one, claims, "2") == HELD
    assert beat(other, claims, "3") == HELD
    other.commit()
    one.commit()
    assert details(shop) == 2


def hot_part(shop: psycopg.Connection, worker: psycopg.Connection, claims: Claims) -> float:
    """Let all beat ten times; return the part of the updates that were HOT."""
    counts = "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'heartbeat'"
    updated, hot = shop.execute(counts).fetchone() or (0, 0)
    ids, tokens = (list(column) for column in zip(*claims, strict=True))
    for _ in range(10):
        worker.execute("select pgwhen.heartbeat_actions('w', %s, %s)", [ids, tokens])
        worker.commit()
    worker.execute("select pg_stat_force_next_flush()")
    worker.commit()
    updated_now, hot_now = shop.execute(counts).fetchone() or (0, 0)
    assert updated_now - updated == 10 * len(claims)
    return float((hot_now - hot) / (updated_now - updated))


def test_heartbeats_are_hot(db: Database, shop: psycopg.Connection) -> None:
    """A heartbeat writes no index entry: its table has none on what it changes, and room.

    At best: while a snapshot lives that still sees the old versions (an autovacuum's, say), there
    is no room.
    """
    shop.execute(
        "select pgwhen.schedule_actions("
        "'pay', array(select 'u' || n from generate_series(1, 200) as n))"
    )
    (worker,) = db.sessions(1)
    claims = claim(worker, "pay")
    worker.commit()
    worker.execute(
        "select pgwhen.heartbeat_actions('w', %s, %s)",
        [list(column) for column in zip(*claims, strict=True)],
    )
    worker.execute("select pg_stat_force_next_flush()")
    worker.commit()
    assert max(hot_part(shop, worker, claims) for _ in range(3)) > 0.95


def make_running(conn: psycopg.Connection, count: int) -> None:
    """Let so many actions run without a heartbeat timeout, by rows as a claim leaves them."""
    conn.execute(
        "insert into pgwhen.scheduled_action (user_id, action_type, execute_at, status, key,"
        " claim_token, worker, deadline)"
        " select 'u' || n, 'deliver', c.now, 'processing', gen_random_uuid(), gen_random_uuid(),"
        " 'w', c.now + interval '1 hour' + n * interval '1 second'"
        " from app.clock as c, generate_series(1, %s) as n",
        [count],
    )


def test_a_sweep_costs_what_it_finds(shop: psycopg.Connection) -> None:
    """P9. Of 20,000 running actions those past their deadline; plans are from before."""
    make_running(shop, 20_000)
    shop.execute(
        "insert into pgwhen.scheduled_action (user_id, action_type, execute_at, key, deadline,"
        " startable_at, close_by)"
        " select 'p' || n, 'pay', c.now, gen_random_uuid(), c.now + interval '1 day', c.now,"
        " c.now + interval '2 days' from app.clock as c, generate_series(1, 20000) as n"
    )
    recover(shop)
    assert buffers(shop, "select pgwhen.recover_stale_actions()") < FEW
    let_pass(shop, 3602)
    assert recover(shop) == 1
    assert (
        scalar(shop, "select count(*) from pgwhen.scheduled_action where status = 'processing'")
        == 19_999
    )


def test_a_timer_is_set_anew_once_in_a_timeout(shop: psycopg.Connection, claims: Claims) -> None:
    """Of ten heartbeats in ten seconds one touches the action, when its timer runs out."""
    versions = []
    for _ in range(30):
        let_pass(shop, 1)
        assert beat(shop, claims) == HELD
        assert recover(shop) == 0
        versions.append(scalar(shop, "select xmin::text from pgwhen.scheduled_action"))
    assert len(set(versions)) <= 5


def test_those_that_live_hide_nothing(shop: psycopg.Connection) -> None:
    """A sweep of a hundred passes over a thousand that beat, and finds the one that does not."""
    shop.execute("set deadlock_timeout = '60s'")
    shop.execute(
        "select pgwhen.schedule_actions("
        "'pay', array(select 'u' || n from generate_series(1, 1000) as n))"
    )
    ids, tokens = (list(column) for column in zip(*claim(shop, "pay", size=1000), strict=True))
    let_pass(shop, 1)
    shop.execute("select pgwhen.schedule_action('pay', 'dead')")
    claim(shop, "pay")
    let_pass(shop, 8)
    shop.execute("select pgwhen.heartbeat_actions('w', %s, %s)", [ids, tokens])
    let_pass(shop, 3)
    assert scalar(shop, "select pgwhen.recover_stale_actions(100)") == 1
    late = "select user_id from pgwhen.scheduled_action where status = 'pending'"
    assert scalar(shop, late) == "dead"
