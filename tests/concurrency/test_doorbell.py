"""Writer × sleeping listener: whoever sleeps is rung for, and nobody else (P1, P7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.concurrency.scene import add_rule, claim, emit, process, report, scalar
from tests.support import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from tests.support import Database

#: A write for each channel that a listener hears.
WRITES = {
    "attribute_changed": (
        "insert into pgwhen.line_user (user_id, attributes) values ('u', '{\"a\": 1}')"
    ),
    "form_submitted": "insert into pgwhen.form_submission (user_id, form_id) values ('u', 'f')",
    "campaign_click": "insert into pgwhen.campaign_click (user_id, campaign) values ('u', 'c')",
    "friend_track_event_inserted": (
        "insert into pgwhen.friend_track_event (user_id, event) values ('u', 'follow')"
    ),
    "booking_event": "insert into pgwhen.booking_event (user_id, status) values ('u', 'new')",
    "pgwhen_due": "select pgwhen.emit('paid', 'u')",
}


class Sleeper:
    """A session that listens as the listener does."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self.conn = conn
        self.rung: list[str] = []
        conn.add_notify_handler(lambda notify: self.rung.append(notify.channel))
        for channel in WRITES:
            conn.execute(f"listen {channel}".encode())

    def try_sleep(self) -> str:
        """Ask to be rung for."""
        return str(scalar(self.conn, "select pgwhen.try_sleep()"))

    def wake_up(self) -> bool:
        """Ask to be rung for no more."""
        return bool(scalar(self.conn, "select pgwhen.wake_up()"))

    def heard(self) -> list[str]:
        """Return the channels that rang since the last call.

        Notifications are handed over in the order of commits, so once this session's own has
        come, all that were committed before have.
        """
        self.conn.execute("notify app_mark")
        rung, self.rung = self.rung, []
        assert rung[-1:] == ["app_mark"]
        return rung[:-1]


@pytest.fixture
def sleeper(db: Database) -> Iterator[Sleeper]:
    """Yield a session that listens."""
    sleeper = Sleeper(db.connect())
    sleeper.conn.execute("listen app_mark")
    yield sleeper
    sleeper.conn.close()


@pytest.fixture
def writer(db: Database) -> psycopg.Connection:
    """Return a session with transactions of its own."""
    return db.connect(autocommit=False)


def has_lock(observer: psycopg.Connection, session: psycopg.Connection, mode: str) -> bool:
    """Whether *session* holds the doorbell lock in *mode*."""
    return bool(
        scalar(
            observer,
            "select exists (select from pg_locks where pid = %s and locktype = 'advisory'"
            " and classid = _pgwhen.lock_class()::oid and objid = _pgwhen.doorbell_lock()::oid"
            " and mode = %s and granted)",
            session.info.backend_pid, mode,
        )
    )  # fmt: skip


def test_a_commit_rings_once_for_who_sleeps(sleeper: Sleeper, writer: psycopg.Connection) -> None:
    """P1. Each source rings on its channel, once a transaction, when it commits and not before."""
    assert sleeper.try_sleep() == "granted"
    for channel, write in WRITES.items():
        for user in "abc":
            writer.execute(write.replace("'u'", f"'{user}'").encode())
        assert sleeper.heard() == []
        writer.commit()
        assert sleeper.heard() == [channel]


def test_nobody_rings_for_who_is_awake(
    db: Database, sleeper: Sleeper, writer: psycopg.Connection
) -> None:
    """P7. A busy listener costs writers no notification, which would take them one by one."""
    emit(writer)
    assert has_lock(db.connect(), writer, "ShareLock")
    writer.commit()
    assert sleeper.heard() == []

    assert sleeper.try_sleep() == "granted"
    assert sleeper.wake_up()
    emit(writer)
    writer.commit()
    assert sleeper.heard() == []


def test_nobody_falls_asleep_over_an_open_writer(
    sleeper: Sleeper, writer: psycopg.Connection
) -> None:
    """P1. It believes the listener awake, so it will not ring: the listener has to look again."""
    emit(writer)
    assert sleeper.try_sleep() == "writer"
    writer.commit()

    assert sleeper.try_sleep() == "granted"
    assert process(sleeper.conn).events == 1


def test_an_open_writer_that_came_later_rings(sleeper: Sleeper, writer: psycopg.Connection) -> None:
    """P1. The last look before sleep cannot see it, its commit can be heard."""
    assert sleeper.try_sleep() == "granted"
    emit(writer)
    assert process(sleeper.conn).events == 0
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"]
    assert process(sleeper.conn).events == 1


def test_a_write_that_is_rolled_back_neither_rings_nor_is_in_the_way(
    db: Database, sleeper: Sleeper, writer: psycopg.Connection
) -> None:
    """P1. Also where it is rolled back to a savepoint only, and the transaction goes on."""
    writer.execute("select 1")
    writer.execute("savepoint s")
    emit(writer)
    writer.execute("rollback to s")
    assert not has_lock(db.connect(), writer, "ShareLock")
    assert sleeper.try_sleep() == "granted"

    emit(writer)
    writer.rollback()
    assert sleeper.heard() == []

    emit(writer)
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"]


def test_one_of_two_sleepers_holds_the_lock_and_both_are_rung(
    db: Database, sleeper: Sleeper, writer: psycopg.Connection
) -> None:
    """P7. The second is told that a listener sleeps, not a writer; it hears the bell as well."""
    second = Sleeper(db.connect())
    second.conn.execute("listen app_mark")
    assert sleeper.try_sleep() == "granted"
    assert second.try_sleep() == "listener"
    emit(writer)
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"]
    assert second.heard() == ["pgwhen_due", "app_mark"]

    assert sleeper.wake_up()
    assert second.try_sleep() == "granted"
    assert sleeper.try_sleep() == "listener"


def test_a_sleeper_that_dies_leaves_the_lock(
    db: Database, sleeper: Sleeper, writer: psycopg.Connection
) -> None:
    """P1. Nobody rings for the dead, and the next one can sleep."""
    shop = db.connect()
    assert sleeper.try_sleep() == "granted"
    shop.execute("select pg_terminate_backend(%s)", [sleeper.conn.info.backend_pid])
    wait_until(
        shop,
        "select count(*) = 0 from pg_stat_activity where pid = %s",
        [sleeper.conn.info.backend_pid],
    )

    second = Sleeper(db.connect())
    assert second.try_sleep() == "granted"
    emit(writer)
    assert has_lock(shop, second.conn, "ExclusiveLock")


def test_the_doorbell_can_be_off(sleeper: Sleeper, writer: psycopg.Connection) -> None:
    """P7. With two-phase commit there must be no NOTIFY, and no session lock beside an xact one."""
    assert sleeper.try_sleep() == "granted"
    writer.execute("set local pgwhen.doorbell = off")
    emit(writer)
    writer.commit()
    assert sleeper.heard() == []

    assert sleeper.wake_up()
    writer.execute("set local pgwhen.doorbell = off")
    emit(writer)
    assert sleeper.try_sleep() == "granted"


def test_who_makes_an_action_due_rings(
    db: Database, sleeper: Sleeper, writer: psycopg.Connection
) -> None:
    """P7. A pending action, one that is given back, is recovered, or is soon tried again."""
    shop = db.connect()
    add_rule(shop, "r", "elsewhere")
    emit(shop)
    assert sleeper.try_sleep() == "granted"
    process(writer)
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"]

    claims = claim(shop, "elsewhere")
    report(writer, "release_actions", claims)
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"]

    shop.execute("insert into pgwhen.setting values ('staleProcessingMinute', '1e-7')")
    claim(shop, "elsewhere")
    assert scalar(writer, "select pgwhen.recover_stale_actions()") == 1
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"]

    for seconds, heard in ((5, []), (0.5, ["pgwhen_due"])):
        shop.execute("update pgwhen.scheduled_action set execute_at = now()")
        assert sleeper.heard() == ["pgwhen_due"]
        claims = claim(shop, "elsewhere")
        report(writer, "fail_actions", claims, [f'{{"nextRetryDelay": {seconds}}}'])
        writer.commit()
        assert sleeper.heard() == heard


@pytest.mark.parametrize(
    ("statement", "rings"),
    [
        ("select pgwhen.run_action_now(1)", True),
        ("select pgwhen.reschedule_action(1, now())", True),
        ("select pgwhen.reschedule_action(1, now() + interval '1 hour')", False),
        ("update pgwhen.scheduled_action set execute_at = now()", True),
        ("update pgwhen.scheduled_action set execute_at = now() + interval '1 hour'", False),
        ("select pgwhen.cancel_action(1); select pgwhen.retry_action(1)", True),
        ("select pgwhen.cancel_action(1)", False),
        ("select pgwhen.pause('stop')", True),
        ("select pgwhen.resume()", True),
        ("select pgwhen.retry_event(1)", True),
    ],
)
def test_who_makes_work_by_hand_rings(
    sleeper: Sleeper, writer: psycopg.Connection, statement: str, *, rings: bool
) -> None:
    """A sleeper hears of what is due now because somebody said so, and of nothing else."""
    add_rule(writer, "r", "deliver", {"delay": {"seconds": 60}})
    emit(writer)
    process(writer)
    event = emit(writer, "u2")
    writer.execute("select _pgwhen.park_event(%s, 'x')", [event])
    if "resume" in statement:
        writer.execute("select pgwhen.pause('stop')")
    writer.commit()
    sleeper.try_sleep()
    statement = statement.replace("retry_event(1)", f"retry_event({event})")
    for part in statement.split(";"):
        writer.execute(part.encode())
    writer.commit()
    assert sleeper.heard() == ["pgwhen_due"] * rings
