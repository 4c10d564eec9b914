"""What is due is found at a flat cost (P9), and no floor hides it (P1): see sql/engine/due.sql."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.scene import (
    add_rule,
    age_floor,
    claim,
    emit,
    process,
    process_all,
    report,
    scalar,
)
from tests.concurrency.test_flat_cost import FEW, buffers, read_long

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

DONE = 15_000
#: A session may look at a clock of its own.
SET_CLOCK = """
create or replace function _pgwhen.clock() returns timestamptz language sql volatile as $$
select clock_timestamp()
    + coalesce(nullif(current_setting('app.ahead', true), '')::interval, interval '0');
$$
"""
#: Or at one that stands still.
STOP_CLOCK = """
create table public.app_now as select clock_timestamp() as at;
create or replace function _pgwhen.clock() returns timestamptz language sql volatile as $$
select at from public.app_now;
$$
"""


def make_due(conn: psycopg.Connection, count: int) -> None:
    """Let so many actions be due, as pending rows."""
    conn.execute(
        "insert into pgwhen.form_submission (user_id, form_id)"
        " select 'u' || n, 'f' from generate_series(1, %s) as n",
        [count],
    )
    while process(conn, batch_size=10_000).events:
        pass


def let_time_pass(conn: psycopg.Connection) -> None:
    """Let the floors rise as far as they may."""
    for _ in range(3):
        age_floor(conn)
        process(conn)
        claim(conn, "deliver")
        conn.execute("select pgwhen.recover_stale_actions()")


def look(conn: psycopg.Connection, query: str) -> int:
    """Return how many buffers *query* touches at best.

    Whenever a transaction of the cluster has ended that was open when a floor passed it (an
    autovacuum's, say), one look walks everything.
    """
    found = []
    for _ in range(3):
        let_time_pass(conn)
        found.append(buffers(conn, query))
    return min(found)


@pytest.mark.parametrize("ended", ["complete_actions", "claimed"])
def test_a_look_at_nothing_due_walks_no_dead_rows(
    db: Database, shop: psycopg.Connection, ended: str
) -> None:
    """P9. After 15,000 actions under an old snapshot, a look touches a few pages."""
    add_rule(shop, "r", "deliver", event="form_submitted")
    shop.execute("select pgwhen.register_action('deliver')")
    old = read_long(db)
    make_due(shop, DONE)
    if ended == "claimed":
        shop.execute("insert into pgwhen.setting values ('staleProcessingMinute', '1000')")
    while claims := claim(shop, "deliver", size=1000):
        age_floor(shop)
        if ended != "claimed":
            report(shop, ended, claims)
    let_time_pass(shop)
    walk = buffers(
        shop,
        "select from pgwhen.scheduled_action where action_type = 'deliver'"
        " and status = 'pending' and not waiting order by execute_at, id limit 1",
    )
    assert walk > 2 * FEW, "the dead rows are not in the way, so this test shows nothing"

    assert look(shop, "select pgwhen.claim_actions('w', 500, '{deliver}')") < FEW
    assert look(shop, "select pgwhen.recover_stale_actions()") < FEW
    assert look(shop, "select * from pgwhen.process_events('w', '{deliver}')") < FEW
    old.commit()


def test_a_sweep_of_what_nobody_started_walks_no_dead_rows(
    db: Database, shop: psycopg.Connection
) -> None:
    """P9. 15,000 that passed scheduleToStart and scheduleToClose, under an old snapshot."""
    shop.execute(
        "select pgwhen.register_action('deliver', options =>"
        """ '{"timeouts": {"scheduleToStart": 0.001, "scheduleToClose": 0.001}}')"""
    )
    old = read_long(db)
    shop.execute(
        "select pgwhen.schedule_actions("
        "'deliver', array(select 'u' || n from generate_series(1, %s) as n))",
        [DONE],
    )
    swept = 0
    while swept < DONE:
        age_floor(shop)
        swept += scalar(shop, "select pgwhen.recover_stale_actions(1000)")
    let_time_pass(shop)
    for column in ("deadline", "close_by"):
        walk = buffers(
            shop,
            "select from pgwhen.scheduled_action where status = 'pending' and held_by is null"
            f" and {column} is not null order by {column} limit 1",
        )
        assert walk > FEW // 2, "the dead rows are not in the way, so this test shows nothing"

    assert look(shop, "select pgwhen.recover_stale_actions()") < FEW
    old.commit()


def test_a_claim_among_many_of_one_instant_walks_no_dead_rows(
    db: Database, shop: psycopg.Connection
) -> None:
    """P9. A broadcast: 15,000 actions due at one or two microseconds, under an old snapshot."""
    shop.execute("select pgwhen.register_action('deliver')")
    old = read_long(db)
    shop.execute(
        "select pgwhen.schedule_actions("
        "'deliver', array(select 'u' || n from generate_series(1, %s) as n))",
        [DONE],
    )
    assert scalar(shop, "select count(distinct execute_at) <= 2 from pgwhen.due")
    for _ in range(DONE // 1000):
        report(shop, "complete_actions", claim(shop, "deliver", size=1000 - 10))
        age_floor(shop)

    assert look(shop, "select pgwhen.claim_actions('w', 1, '{deliver}')") < FEW
    assert look(shop, "select _pgwhen.next_due_seconds('{deliver}')") < FEW
    old.commit()


@pytest.fixture
def due(shop: psycopg.Connection) -> psycopg.Connection:
    """Return a session in a shop whose rule makes actions that wait for a worker."""
    add_rule(shop, "r", "deliver")
    shop.execute("select pgwhen.register_action('deliver')")
    shop.execute("insert into pgwhen.setting values ('retrySeconds', '0')")
    shop.execute(SET_CLOCK)
    return shop


def make_one_due(conn: psycopg.Connection, user: str) -> None:
    """Process an event of *user* in the session's transaction."""
    emit(conn, user)
    process(conn)


def release(conn: psycopg.Connection, claims: list[tuple[int, Any]]) -> None:
    """Give claims back."""
    assert report(conn, "release_actions", claims)


def fail(conn: psycopg.Connection, claims: list[tuple[int, Any]]) -> None:
    """Let an attempt fail, to be tried again at once."""
    assert report(conn, "fail_actions", claims, ['{"message": "busy"}'])


@pytest.mark.parametrize("how", [release, fail])
def test_what_is_given_back_by_a_slow_transaction_is_found(
    db: Database, due: psycopg.Connection, how: Any
) -> None:
    """P1. It was due long before it can be seen; the floors have passed its time."""
    slow = db.connect(autocommit=False)
    make_one_due(due, "u1")
    claims = claim(due, "deliver")
    how(slow, claims)
    for n in range(3):
        make_one_due(due, f"later{n}")
        assert report(due, "complete_actions", claim(due, "deliver"))
        let_time_pass(due)
    passed = scalar(
        due,
        "select max(position) > _pgwhen.position_of("
        " (select execute_at from pgwhen.scheduled_action where id = %s)"
        ") from _pgwhen.floor where name = 'due:deliver'",
        claims[0][0],
    )
    assert passed
    slow.commit()

    assert [action for action, _ in claim(due, "deliver")] == [claims[0][0]]


def test_what_a_slow_pass_made_due_is_found(db: Database, due: psycopg.Connection) -> None:
    """P1. The action of an event whose pass commits last of all."""
    slow = db.connect(autocommit=False)
    make_one_due(slow, "u1")
    for n in range(3):
        make_one_due(due, f"later{n}")
        assert report(due, "complete_actions", claim(due, "deliver"))
        let_time_pass(due)
    slow.commit()

    assert len(claim(due, "deliver")) == 1


#: What makes an action due that was not, or not any more: by its user, so that each has its own.
LATER = {"delay": {"seconds": 3600, "whenPending": "add"}}
LONG_AGO = "'2020-01-01 00:00+00'"
DEEDS = {
    "an UPDATE to the past": f"update pgwhen.scheduled_action set execute_at = {LONG_AGO}",
    "reschedule": f"select pgwhen.reschedule_action(id, {LONG_AGO}) from pgwhen.scheduled_action",
    "run now": "select pgwhen.run_action_now(id) from pgwhen.scheduled_action",
    "cancel and retry": (
        "select pgwhen.retry_action(pgwhen.cancel_action(id)) from pgwhen.scheduled_action"
    ),
    "a click": "insert into pgwhen.campaign_click (user_id) values ('u')",
    "schedule": f"select pgwhen.schedule_action('deliver', 'u', execute_at => {LONG_AGO})",
}


@pytest.mark.parametrize("deed", DEEDS)
def test_whatever_makes_an_action_due_is_found_at_once(due: psycopg.Connection, deed: str) -> None:
    """P1. Floors have risen to now; nothing is made due before that."""
    wait = {"waitForTracking": True, "expiresSeconds": 3600}
    add_rule(due, "w", "deliver", {"delay": wait} if deed == "a click" else LATER, event="left")
    for n in range(3):
        make_one_due(due, f"u{n}")
        assert report(due, "complete_actions", claim(due, "deliver"))
        let_time_pass(due)
    due.execute("truncate pgwhen.scheduled_action")
    if deed != "schedule":
        emit(due, "u", "left")
        process(due)
    let_time_pass(due)
    assert claim(due, "deliver") == []

    due.execute(DEEDS[deed].encode())
    process(due)
    assert len(claim(due, "deliver")) == 1


def test_what_is_on_the_shelf_is_found_when_it_is_resumed(due: psycopg.Connection) -> None:
    """P1. It was due long before, and the floor has risen over it meanwhile."""
    make_one_due(due, "u1")
    due.execute("select pgwhen.pause('stop', line_oa_id => 'default')")
    assert claim(due, "deliver") == []
    let_time_pass(due)
    due.execute("select pgwhen.resume(line_oa_id => 'default')")
    assert len(claim(due, "deliver")) == 1


def test_a_wait_that_was_passed_over_expires_later(db: Database, due: psycopg.Connection) -> None:
    """P3. Somebody held its user while the floor of expiries rose; it is still the lowest."""
    add_rule(
        due,
        "w",
        "deliver",
        {"delay": {"waitForTracking": True, "expiresSeconds": 60}},
        event="left",
    )
    emit(due, "u1", "left")
    process(due)
    holder = db.connect(autocommit=False)
    holder.execute(
        "select pg_advisory_xact_lock(_pgwhen.bucket_class(), _pgwhen.bucket('default', 'u1'))"
    )
    due.execute("set app.ahead = '2 minutes'")
    for _ in range(3):
        age_floor(due)
        assert scalar(due, "select pgwhen.expire_actions()") == 0
    holder.rollback()

    assert scalar(due, "select pgwhen.expire_actions()") == 1


def test_a_late_writer_into_an_instant_is_found(db: Database, due: psycopg.Connection) -> None:
    """P1. The floor has passed half of the instant, and the late one has the lowest id."""
    schedule = "select pgwhen.schedule_action('deliver', 'u', execute_at => %s)"
    at = scalar(due, "select now() + interval '1 hour'")
    slow = db.connect(autocommit=False)
    late = scalar(slow, schedule, at)
    last = [scalar(due, schedule, at) for _ in range(4)][-1]
    due.execute("set app.ahead = '2 hours'")
    for _ in range(3):
        assert report(due, "complete_actions", claim(due, "deliver", size=1))
        age_floor(due)
    assert [action for action, _ in claim(due, "deliver")] == [last]
    assert scalar(due, "select max(within) from _pgwhen.floor") > late
    slow.commit()

    assert [action for action, _ in claim(due, "deliver")] == [late]


def test_what_comes_due_at_the_instant_of_a_floor_is_found(due: psycopg.Connection) -> None:
    """P1. The clock stands still, and an action with a low id is made due once more."""
    make_one_due(due, "u0")
    claims = claim(due, "deliver")
    report(due, "fail_actions", claims, ['{"message": "no", "nonRetryable": true}'])
    due.execute(STOP_CLOCK)
    for n in range(3):
        make_one_due(due, f"u{n}")
    for _ in range(2):
        assert report(due, "complete_actions", claim(due, "deliver", size=1))
        age_floor(due)
    assert len(claim(due, "deliver")) == 1
    due.execute("select pgwhen.retry_action(%s)", [claims[0][0]])

    assert [action for action, _ in claim(due, "deliver")] == [claims[0][0]]


def test_a_clock_that_was_set_back_hides_nothing(db: Database, due: psycopg.Connection) -> None:
    """P1. The floors come from the future, until somebody looks."""
    ahead = db.connect()
    ahead.execute("set app.ahead = '1 hour'")
    for n in range(3):
        make_one_due(ahead, f"u{n}")
        assert report(ahead, "complete_actions", claim(ahead, "deliver"))
        let_time_pass(ahead)
    make_one_due(due, "now")
    assert len(claim(due, "deliver")) == 1
    claim(due, "deliver")
    make_one_due(due, "then")
    assert len(claim(ahead, "deliver")) == 1


def test_what_changes_its_type_is_found(due: psycopg.Connection) -> None:
    """A person gives what nobody serves to those who work, whose floor has risen far above."""
    due.execute("select pgwhen.register_action('lost')")
    due.execute("select pgwhen.schedule_action('lost', 'u')")
    for n in range(3):
        make_one_due(due, f"u{n}")
        assert report(due, "complete_actions", claim(due, "deliver"))
        let_time_pass(due)
    due.execute(
        "update pgwhen.scheduled_action set action_type = 'deliver' where action_type = 'lost'"
    )

    assert len(claim(due, "deliver")) == 1


def test_chores_go_on_after_a_clock_was_set_back(due: psycopg.Connection) -> None:
    """What was last done in the future is done again."""
    due.execute("set app.ahead = '2 hours'")
    due.execute("call pgwhen.run_ticks()")
    due.execute("reset app.ahead")
    due.execute("call pgwhen.run_ticks()")

    assert scalar(due, "select max(done_at) <= clock_timestamp() from _pgwhen.chore")


def test_what_lies_below_its_floor_is_found_within_a_minute(due: psycopg.Connection) -> None:
    """However it came there: here by a write that fired no trigger."""
    make_one_due(due, "u1")
    claims = claim(due, "deliver")
    for n in range(3):
        make_one_due(due, f"later{n}")
        assert report(due, "complete_actions", claim(due, "deliver"))
        let_time_pass(due)
    due.execute("set session_replication_role = replica")
    due.execute(
        "update pgwhen.scheduled_action set status = 'pending', claim_token = null,"
        " deadline = null where id = %s",
        [claims[0][0]],
    )
    due.execute("reset session_replication_role")
    assert claim(due, "deliver") == []

    due.execute("update _pgwhen.chore set done_at = done_at - interval '61 seconds'")
    due.execute("select pgwhen.tick()")
    assert scalar(due, "select bool_and(position <= mark) from _pgwhen.floor")
    assert [action for action, _ in claim(due, "deliver")] == [claims[0][0]]


def test_exchanges_alone_raise_the_floor(due: psycopg.Connection) -> None:
    """P9. A listener in a flood claims in no other way."""
    due.execute("select pgwhen.schedule_actions('deliver', '{a,b,c,d,e}')")
    [claimed] = claim(due, "deliver", size=1)
    for _ in range(3):
        age_floor(due)
        [claimed] = due.execute(
            "select id, token from pgwhen.exchange_actions("
            "'w', %s, %s, batch_size => 1, action_types => '{deliver}')",
            [[claimed[0]], [claimed[1]]],
        ).fetchall()
    assert scalar(due, "select max(within) from _pgwhen.floor") >= claimed[0] - 1


def test_many_types_have_floors_of_their_own(due: psycopg.Connection) -> None:
    """P9. A backlog of one type that nobody serves holds no other back."""
    add_rule(due, "s", "stuck")
    make_one_due(due, "u0")
    for n in range(3):
        make_one_due(due, f"u{n}")
        assert report(due, "complete_actions", claim(due, "deliver"))
        let_time_pass(due)
    positions: dict[str, int] = dict(
        due.execute(
            "select f.name, max(f.position) from _pgwhen.floor as f where f.name like 'due:%'"
            " group by f.name"
        ).fetchall()
    )
    assert positions["due:deliver"] > 0
    assert len(claim(due, "stuck")) == 4
    assert process_all(due) == 0
