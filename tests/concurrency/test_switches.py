"""Pause and disable rule × everything that happens to an action, in both orders (P3).

Neither switch locks an action, and nothing that happens to an action locks a switch: so nobody
waits (whoever would, fails at once by lock_timeout), what is open is not undone, and what comes
after the commit is held or cancelled when somebody wants to start it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from psycopg.types.json import Jsonb

from tests.concurrency.scene import claim, emit, process, process_all, report, scalar
from tests.concurrency.test_waits import CLOCK, click, expire, move_clock, state
from tests.support import wait_blocked

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database

SENT = {"actionType": "deliver"}
BEFORE = {"waitForTracking": True, "expiresSeconds": 600}
AFTER = {**BEFORE, "after": "send", "onClick": SENT, "onExpire": SENT}
ASKED = {"seconds": 0, "reEvaluateConditions": True}
PLAIN = {"seconds": 0}

PAUSE = "select pgwhen.pause('stop')"
DISABLE = "update pgwhen.trigger_rule set enabled = false"
SWITCHES = [PAUSE, DISABLE]


@pytest.fixture
def shop(shop: psycopg.Connection) -> psycopg.Connection:
    """Return a session in a shop with a clock of its own and a user who has 5 points."""
    shop.execute(CLOCK.encode())
    shop.execute("insert into pgwhen.line_user (user_id) values ('u1')")
    clear(shop)
    return shop


def clear(shop: psycopg.Connection) -> None:
    """Let nothing have happened; the first try of an action is the last one."""
    shop.execute(
        "truncate pgwhen.trigger_rule, pgwhen.scheduled_action, pgwhen.trigger_log,"
        " pgwhen.setting, _pgwhen.processed_event"
    )
    shop.execute("insert into pgwhen.setting values ('maxRetries', '0'), ('retrySeconds', '0')")
    shop.execute("""update pgwhen.line_user set attributes = '{"n": 5}'""")
    process_all(shop)


def add_rule(shop: psycopg.Connection, delay: dict[str, Any]) -> None:
    """Let `paid` be followed by such an action while the user has 5 points; emit one."""
    shop.execute(
        "insert into pgwhen.trigger_rule"
        " (name, source_type, source_config, action_type, action_config, frequency)"
        " values ('r', 'paid', %s, 'deliver', %s, 'always')",
        [Jsonb({"condition": {"user.n": 5}}), Jsonb({"delay": delay})],
    )
    emit(shop)


def begin(shop: psycopg.Connection) -> None:
    """Process what there is; complete what is due by it."""
    process_all(shop)
    if claims := claim(shop, "deliver"):
        report(shop, "complete_actions", claims)
    process_all(shop)


def be_clicked(shop: psycopg.Connection) -> None:
    """Let the wait begin, and the user click."""
    begin(shop)
    click(shop)


def be_over(shop: psycopg.Connection) -> None:
    """Let the wait begin, and its time be over."""
    begin(shop)
    move_clock(shop, 11)


def be_stale(shop: psycopg.Connection) -> None:
    """Let the attempt be lost; it was not the last one."""
    be_tried(shop)
    move_clock(shop, 6)


def be_due(shop: psycopg.Connection) -> None:
    """Let the action be there."""
    process_all(shop)


def be_untrue(shop: psycopg.Connection) -> None:
    """Let the condition be false by now."""
    process_all(shop)
    shop.execute("""update pgwhen.line_user set attributes = '{"n": 4}'""")
    process_all(shop)


def be_failed(shop: psycopg.Connection) -> None:
    """Let the last attempt have failed."""
    be_claimed(shop)
    report(shop, "fail_actions", claims(shop), ['{"message": "busy"}'])
    assert state(shop) == "failed"


def be_claimed(shop: psycopg.Connection) -> None:
    """Let a worker have the action."""
    process_all(shop)
    assert len(claim(shop, "deliver")) == 1


def be_tried(shop: psycopg.Connection) -> None:
    """Let a worker have the action, and not for the last time."""
    be_claimed(shop)
    shop.execute("update pgwhen.setting set value = '3' where name = 'maxRetries'")


def claims(conn: psycopg.Connection) -> list[tuple[int, Any]]:
    """Return what workers have."""
    return conn.execute(
        "select id, claim_token from pgwhen.scheduled_action where status = 'processing'"
    ).fetchall()


def call(verb: str) -> Callable[[psycopg.Connection], int]:
    """Return what calls a verb by hand of the only action, and answers 1."""

    def do(conn: psycopg.Connection) -> int:
        action = scalar(conn, "select id from pgwhen.scheduled_action")
        return int(scalar(conn, f"select pgwhen.{verb}(%s)", action) == action)

    return do


def tell(verb: str, *told: list[str]) -> Callable[[psycopg.Connection], int]:
    """Return what reports the claims, and answers how many were still the worker's."""
    return lambda conn: len(report(conn, verb, claims(conn), *told))


def nothing(shop: psycopg.Connection) -> None:
    """Let nothing more happen."""


def be_clicked_now(shop: psycopg.Connection) -> None:
    """Let the user click, and the click be processed."""
    click(shop)
    process_all(shop)


def be_over_now(shop: psycopg.Connection) -> None:
    """Let the wait expire."""
    move_clock(shop, 11)
    assert expire(shop) == 1


class Deed(NamedTuple):
    """What happens to an action, how it stands then, and how much wants to start afterwards."""

    delay: dict[str, Any]
    before: Callable[[psycopg.Connection], None]
    do: Callable[[psycopg.Connection], int]
    state: str
    after: Callable[[psycopg.Connection], None] = nothing
    due: int = 0


def pass_once(conn: psycopg.Connection) -> int:
    """Process a batch; return how many events it had."""
    return process(conn).events


def start(conn: psycopg.Connection) -> int:
    """Claim what is due; return how many there were."""
    return len(claim(conn, "deliver"))


def stop_untrue(conn: psycopg.Connection) -> int:
    """Claim, where the gate stops the only action."""
    return 1 - start(conn)


def recover(conn: psycopg.Connection) -> int:
    """Take stale actions back; return how many."""
    return int(scalar(conn, "select pgwhen.recover_stale_actions()"))


DEEDS = {
    "click before": Deed(BEFORE, be_clicked, pass_once, "pending clicked", due=1),
    "click after": Deed(AFTER, be_clicked, pass_once, "done clicked", due=1),
    "expiry before": Deed(BEFORE, be_over, expire, "cancelled not_clicked"),
    "expiry after": Deed(AFTER, be_over, expire, "done not_clicked", due=1),
    "cancel": Deed(PLAIN, be_due, call("cancel_action"), "cancelled"),
    "claim": Deed(PLAIN, be_due, start, "processing"),
    "re-evaluation": Deed(ASKED, be_untrue, stop_untrue, "cancelled"),
    "recovery": Deed(PLAIN, be_stale, recover, "pending", due=1),
    "completion": Deed(PLAIN, be_claimed, tell("complete_actions"), "done"),
    "failure": Deed(
        PLAIN, be_tried, tell("fail_actions", ['{"message": "busy"}']), "pending", due=1
    ),
    "release": Deed(PLAIN, be_claimed, tell("release_actions"), "pending", due=1),
    "retry": Deed(PLAIN, be_failed, call("retry_action"), "pending", due=1),
    "wait": Deed(BEFORE, nothing, pass_once, "waiting", be_clicked_now, due=1),
    "wait after": Deed(
        AFTER, be_claimed, tell("complete_actions"), "waiting", be_over_now, due=1
    ),
}  # fmt: skip
deeds = pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS)


def impatient(db: Database) -> list[psycopg.Connection]:
    """Open two sessions of which neither waits for the other."""
    sessions = db.sessions(2)
    for session in sessions:
        session.execute("set lock_timeout = '1ms'")
        session.commit()
    return sessions


def check_switch(shop: psycopg.Connection, switch: str, deed: Deed) -> None:
    """See the deed done, and what follows from it held or cancelled."""
    assert state(shop) == deed.state
    deed.after(shop)
    process_all(shop)
    assert start(shop) == 0
    cancelled = scalar(
        shop, "select count(*) from pgwhen.trigger_log where error_message = 'rule_disabled'"
    )
    assert cancelled == (deed.due if switch == DISABLE else 0)
    if switch == PAUSE:
        shop.execute("select pgwhen.resume()")
        assert start(shop) == deed.due


@deeds
def test_what_is_under_way_does_not_wait_for_a_switch(
    db: Database, shop: psycopg.Connection, deed: Deed
) -> None:
    """P3. The switch is open: it does not count yet."""
    person, engine = impatient(db)
    for switch in SWITCHES:
        clear(shop)
        add_rule(shop, deed.delay)
        deed.before(shop)
        person.execute(switch.encode())
        assert deed.do(engine) == 1
        engine.commit()
        person.commit()
        check_switch(shop, switch, deed)


@deeds
def test_a_switch_does_not_wait_for_what_is_under_way(
    db: Database, shop: psycopg.Connection, deed: Deed
) -> None:
    """P3. The switch is committed in the middle: what was begun is not undone."""
    person, engine = impatient(db)
    for switch in SWITCHES:
        clear(shop)
        add_rule(shop, deed.delay)
        deed.before(shop)
        assert deed.do(engine) == 1
        person.execute(switch.encode())
        person.commit()
        engine.commit()
        check_switch(shop, switch, deed)


def test_what_is_paused_is_not_asked(db: Database, shop: psycopg.Connection) -> None:
    """P3. The pause first: the condition is asked when it is over, on the facts of then."""
    add_rule(shop, ASKED)
    be_untrue(shop)
    shop.execute("select pgwhen.pause('stop', rule => min(id)) from pgwhen.trigger_rule")
    (worker,) = db.sessions(1)
    assert start(worker) == 0
    worker.commit()
    assert state(shop) == "pending"
    shop.execute("""update pgwhen.line_user set attributes = '{"n": 5}'""")
    shop.execute("select pgwhen.resume(rule => min(id)) from pgwhen.trigger_rule")
    assert start(worker) == 1


@pytest.mark.parametrize("first", SWITCHES, ids=["pause", "disable"])
def test_pause_and_disable_do_not_wait_for_each_other(
    db: Database, shop: psycopg.Connection, first: str
) -> None:
    """P3. Both hold: while it is paused nobody asks for the rule, then it is cancelled."""
    add_rule(shop, PLAIN)
    process_all(shop)
    one, other = impatient(db)
    one.execute(first.encode())
    other.execute((DISABLE if first == PAUSE else PAUSE).encode())
    other.commit()
    one.commit()
    assert start(shop) == 0
    assert state(shop) == "pending"
    shop.execute("select pgwhen.resume()")
    assert start(shop) == 0
    assert state(shop) == "cancelled"


@pytest.mark.parametrize("kept", [True, False])
def test_two_pauses_of_the_same_are_one(
    db: Database, shop: psycopg.Connection, *, kept: bool
) -> None:
    """The second waits for the first, and then says why it is paused."""
    first, second = db.sessions(2)
    first.execute(PAUSE.encode())
    with ThreadPoolExecutor(1) as pool:
        pausing = pool.submit(second.execute, "select pgwhen.pause('still')")
        assert wait_blocked(shop, second) == [first.info.backend_pid]
        (first.commit if kept else first.rollback)()
        pausing.result()
    second.commit()
    assert shop.execute("select reason from pgwhen.paused").fetchall() == [("still",)]


@pytest.mark.parametrize("first", ["claim", "cancel"])
def test_a_cancel_and_a_claim_that_shelves(
    db: Database, shop: psycopg.Connection, first: str
) -> None:
    """P3. What a claim puts on the shelf of a pause can be cancelled, and is not left there."""
    add_rule(shop, PLAIN)
    process_all(shop)
    shop.execute("select pgwhen.pause('stop', rule => min(id)) from pgwhen.trigger_rule")
    worker, person = db.sessions(2)
    if first == "claim":
        assert start(worker) == 0
        with ThreadPoolExecutor(1) as pool:
            cancelling = pool.submit(call("cancel_action"), person)
            assert wait_blocked(shop, person) == [worker.info.backend_pid]
            worker.commit()
            assert cancelling.result() == 1
    else:
        assert call("cancel_action")(person) == 1
        assert start(worker) == 0
        worker.commit()
    person.commit()
    shop.execute("select pgwhen.resume(rule => min(id)) from pgwhen.trigger_rule")
    assert start(shop) == 0
    assert state(shop) == "cancelled"
