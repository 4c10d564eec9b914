"""Writers and sleeping listeners: the bell rings when somebody sleeps, and only then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import daemon, pump, wakeup
from pgwhen.database import Database as PgwhenDatabase
from pgwhen.handlers import Handler
from pgwhen.wakeup import CHANNELS, Doorbell
from tests.support import PATIENCE, wait_until

from .conftest import crowd, running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pgwhen.settings import Settings
    from tests.support import Database

    from .conftest import Shop

SLEEPER = """
select exists (
    select
    from pg_locks
    where locktype = 'advisory' and classid = 7077 and objid = 1 and mode = 'ExclusiveLock'
        and database = (select oid from pg_database where datname = current_database())
)
"""
PARKED = """
select count(*) = %s
from pg_stat_activity
where datname = current_database() and application_name = 'pgwhen listen' and state = 'idle'
"""


@pytest.fixture
def _long_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing but the bell to wake a listener in time."""

    async def never(_: daemon.Daemon) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(pump, "SLEEP", 3600.0)
    monkeypatch.setattr(daemon.Daemon, "_tick", never)


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[None]]:
    """Return what waits until the one listener sleeps, and nothing is left that would wake it."""
    waits, sleeps = Doorbell.wait, asyncio.Event()

    async def wait(self: Doorbell, seconds: float) -> None:
        if self.asleep and not self._woken.is_set():
            sleeps.set()
        await waits(self, seconds)
        sleeps.clear()

    async def until_asleep() -> None:
        await asyncio.wait_for(sleeps.wait(), PATIENCE)

    monkeypatch.setattr(Doorbell, "wait", wait)
    return until_asleep


def handler(name: str = "plain") -> Handler:
    """Return a handler that gives back its config."""

    async def give_back(_ctx: Any, config: Any) -> Any:
        return config

    return Handler(name, give_back, None, None)


async def until(shop: Shop, query: str, *params: Any) -> None:
    """Wait as `wait_until` does, while the tasks of the test run."""
    await asyncio.to_thread(wait_until, shop.conn, query, params)


@pytest.mark.usefixtures("_long_sleep")
@pytest.mark.parametrize(
    ("source", "insert"),
    [
        (
            "form_submitted",
            "insert into pgwhen.form_submission (user_id, form_id) values ('u', 'f')",
        ),
        ("campaign_click", "insert into pgwhen.campaign_click (user_id, link) values ('u', 'f')"),
        (
            "friend_track_event_inserted",
            "insert into pgwhen.friend_track_event (user_id, event) values ('u', 'f')",
        ),
        ("booking_event", "insert into pgwhen.booking_event (user_id, status) values ('u', 'f')"),
        (
            "attribute_changed",
            "insert into pgwhen.line_user (user_id, attributes) values ('u', '{\"f\": 1}')",
        ),
        ("ours", "select pgwhen.emit('ours', user_id => 'u')"),
    ],
)
async def test_sleeping_listener_is_rung(
    shop: Shop, settings: Settings, asleep: Callable[[], Awaitable[None]], source: str, insert: str
) -> None:
    """An event of each kind wakes a listener that would sleep for an hour."""
    config = {"attribute_changed": '{"attribute": "f"}'}.get(source, "{}")
    shop.conn.execute(
        "insert into pgwhen.trigger_rule (name, source_type, source_config, action_type, frequency)"
        " values ('r', %s, %s, 'plain', 'always')",
        [source, config],
    )
    async with running(settings, handler()):
        await asleep()
        shop.conn.execute(insert.encode())
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")


@pytest.mark.usefixtures("_long_sleep")
async def test_delayed_action_wakes_by_itself(
    shop: Shop, settings: Settings, asleep: Callable[[], Awaitable[None]]
) -> None:
    """The listener sleeps until the next due time, and needs no tick to be in time."""
    shop.rule("plain", {"delay": {"seconds": 0.3}})
    async with running(settings, handler()):
        await asleep()
        shop.submit("plain")
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")
    late = shop.conn.execute(
        "select extract(epoch from executed_at - execute_at)::float8 from pgwhen.scheduled_action"
    ).fetchone()
    assert late is not None
    assert late[0] < 1


async def test_expiry_wakes_by_itself(
    shop: Shop,
    settings: Settings,
    asleep: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The listener sleeps until a wait expires, and what follows is done in time too."""
    monkeypatch.setattr(pump, "SLEEP", 3600.0)
    monkeypatch.setattr(daemon, "TICK_EVERY", 3600.0)
    follow_up = {"actionType": "plain", "actionConfig": {"text": "not clicked"}}
    wait = {"waitForTracking": True, "expiresSeconds": 0.3, "onExpire": follow_up}
    shop.rule("plain", {"delay": wait})
    async with running(settings, handler()):
        await asleep()
        shop.submit("plain")
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")
    late = shop.conn.execute(
        "select c.result ->> 'text', extract(epoch from c.executed_at - w.expires_at)::float8"
        " from pgwhen.scheduled_action as c"
        " inner join pgwhen.scheduled_action as w on w.id = c.parent_id"
    ).fetchone()
    assert late is not None
    assert late[0] == "not clicked"
    assert late[1] < 1


@pytest.mark.usefixtures("_long_sleep")
async def test_writer_that_believes_it_awake_is_waited_for(
    shop: Shop, settings: Settings, db: Database
) -> None:
    """While such a writer is about to commit the listener does not sleep, and hears no bell."""
    shop.rule("plain")
    observer = db.connect()
    for channel in CHANNELS:
        observer.execute(f"listen {channel}".encode())
    writer = db.connect(autocommit=False)
    writer.execute("insert into pgwhen.form_submission (user_id, form_id) values ('u', 'plain')")
    async with running(settings, handler()):
        await until(shop, PARKED, 1)
        assert shop.conn.execute(SLEEPER).fetchone() == (False,)
        writer.commit()
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")
    assert list(observer.notifies(timeout=0)) == []


@pytest.mark.usefixtures("_long_sleep")
async def test_what_commits_between_scan_and_sleep_is_seen(
    shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An event of a writer that saw nobody asleep, committed just before the lock is granted."""
    shop.rule("plain")
    asked = Doorbell.try_sleep
    verdicts: list[str | None] = []

    async def try_sleep(self: Doorbell) -> str | None:
        if not verdicts:
            shop.submit("plain")
        verdicts.append(await asked(self))
        return verdicts[-1]

    monkeypatch.setattr(Doorbell, "try_sleep", try_sleep)
    async with running(settings, handler()):
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")
    assert verdicts[0] == "granted"


@pytest.mark.usefixtures("_long_sleep")
async def test_events_that_come_one_by_one_cost_one_call_each(
    shop: Shop,
    settings: Settings,
    asleep: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The doorbell lock is kept meanwhile, so neither is it asked for nor is there another scan."""
    shop.rule("plain")
    calls: list[str] = []
    for owner, name in (
        (Doorbell, "try_sleep"), (Doorbell, "wake_up"), (PgwhenDatabase, "process_events")
    ):  # fmt: skip
        _note_calls(monkeypatch, owner, name, calls)
    async with running(settings, handler()):
        await asleep()
        calls.clear()
        for n in range(3):
            await asyncio.to_thread(shop.submit, "plain", 1, f"user{n}-")
            await until(
                shop, "select count(*) = %s from pgwhen.trigger_log where status = 'success'", n + 1
            )
            await asleep()
        assert calls == ["process_events"] * 3


@pytest.mark.usefixtures("_long_sleep")
@pytest.mark.parametrize(
    "many",
    [
        """insert into pgwhen.form_submission (user_id, form_id)
        values ('a', 'plain'), ('b', 'plain'), ('c', 'plain')""",
        "select pgwhen.schedule_actions('plain', '{a,b,c}')",
    ],
    ids=["events", "actions"],
)
async def test_crowd_is_not_rung_for(
    shop: Shop,
    settings: Settings,
    asleep: Callable[[], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    many: str,
) -> None:
    """Where a scan finds more than one the lock is given back until nothing is left."""
    shop.rule("plain")
    calls: list[str] = []
    for name in ("try_sleep", "wake_up"):
        _note_calls(monkeypatch, Doorbell, name, calls)
    async with running(settings, handler()):
        await asleep()
        calls.clear()
        shop.conn.execute(many)
        await until(shop, "select count(*) = 3 from pgwhen.trigger_log where status = 'success'")
        await asleep()
        assert calls == ["wake_up", "try_sleep"]


def _note_calls(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, calls: list[str]) -> None:
    method = getattr(owner, name)

    async def noted(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(name)
        return await method(self, *args, **options)

    monkeypatch.setattr(owner, name, noted)


@pytest.mark.usefixtures("_long_sleep")
async def test_what_commits_while_it_is_deaf_is_seen(
    shop: Shop,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Listening again comes before the scan: an event of the gap rang for nobody."""
    shop.rule("plain")
    opens, waits = Doorbell._open, Doorbell.wait
    gate, deaf = asyncio.Event(), asyncio.Event()
    gate.set()

    async def _open(self: Doorbell) -> None:
        await gate.wait()
        await opens(self)

    async def wait(self: Doorbell, seconds: float) -> None:
        if self._conn is None and not gate.is_set():
            deaf.set()
        await waits(self, seconds)

    monkeypatch.setattr(Doorbell, "_open", _open)
    monkeypatch.setattr(Doorbell, "wait", wait)
    async with running(settings, handler()):
        await until(shop, SLEEPER)
        gate.clear()
        shop.conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgwhen listen'"
        )
        await asyncio.wait_for(deaf.wait(), PATIENCE)
        shop.submit("plain")
        gate.set()
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")


@pytest.mark.parametrize("count", [1, 4])
async def test_every_event_is_handled_once(shop: Shop, settings: Settings, count: int) -> None:
    """However many listeners there are, and whoever of them sleeps."""
    shop.rule("plain")
    async with crowd(settings, [handler()] * count):
        await until(shop, PARKED, count)
        for n in range(50):
            await asyncio.to_thread(shop.submit, "plain", 1, f"user{n}-")
        await until(shop, "select count(*) = 50 from pgwhen.scheduled_action where status = 'done'")
    rows = shop.conn.execute(
        "select count(*), count(distinct user_id) from pgwhen.trigger_log"
    ).fetchone()
    assert rows == (50, 50)


@pytest.mark.usefixtures("_long_sleep")
async def test_listeners_of_different_types_wake_each_other(shop: Shop, settings: Settings) -> None:
    """Whoever processes the event, the action reaches the one that serves its type."""
    names = ["one", "two", "three", "four"]
    for name in names:
        shop.rule(name)
    async with crowd(settings, [handler(name) for name in names]):
        await until(shop, PARKED, 4)
        for name in names * 3:
            await until(shop, SLEEPER)
            shop.submit(name)
        await until(shop, "select count(*) = 12 from pgwhen.scheduled_action where status = 'done'")


async def test_garbage_on_every_channel_is_ignored(shop: Shop, settings: Settings) -> None:
    """A payload is never read, so nothing in it can harm."""
    shop.rule("plain")
    async with running(settings, handler()):
        await until(shop, PARKED, 1)
        for channel in CHANNELS:
            for payload in ("", "{", "\\", "'; drop table x; --", "ก" * 2600, "\x01\x7f"):
                shop.conn.execute("select pg_notify(%s, %s)", [channel, payload])
        shop.submit("plain")
        await until(shop, "select exists (select from pgwhen.trigger_log where status = 'success')")


async def test_lock_is_given_back_in_the_end(
    shop: Shop, settings: Settings, asleep: Callable[[], Awaitable[None]]
) -> None:
    """However often it slept, a listener that ends is rung for no more, while handlers finish."""
    begun, done = asyncio.Event(), asyncio.Event()

    async def wait(_ctx: Any, _config: Any) -> None:
        begun.set()
        await done.wait()

    shop.rule("plain")
    async with running(settings, Handler("plain", wait, None, None)) as listener:
        await asleep()
        shop.submit("plain")
        await begun.wait()
        await asleep()
        listener.stop()
        await until(shop, f"select not ({SLEEPER})")
        assert shop.count("processing") == 1
        done.set()


async def test_connection_that_stopped_listening_is_replaced(
    settings: Settings, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers, but something has made it deaf: the probe finds out."""
    deaf: list[Any] = []
    hears = asyncio.Event()
    probe = Doorbell._probe

    async def unlisten(self: Doorbell, conn: Any) -> None:
        if conn is self._conn and not deaf:
            deaf.append(conn)
            assert conn is not None
            await conn.execute("unlisten *")
        await probe(self, conn)
        if deaf:
            hears.set()

    monkeypatch.setattr(wakeup, "PROBE_EVERY", 0.0)
    monkeypatch.setattr(Doorbell, "_probe", unlisten)
    async with running(settings, handler()):
        await asyncio.wait_for(hears.wait(), PATIENCE)
    assert "the server no longer listens for this connection" in caplog.text
