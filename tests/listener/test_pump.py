"""Calls that die under the listener, and tasks that must not."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest

from pgwhen.claim import read_json_claim
from pgwhen.daemon import Daemon, _cancel
from pgwhen.database import Database
from pgwhen.dispatcher import Dispatcher
from pgwhen.errors import CallDiedError
from pgwhen.handlers import Handler
from pgwhen.lifeline import Tools
from pgwhen.settler import Settler
from pgwhen.wakeup import Doorbell
from tests.support import wait_until

from .conftest import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgwhen.claim import Claim
    from pgwhen.settings import Settings

    from .conftest import Process, Shop

KILLER = """
create function public.kill_backend(text, text, jsonb, jsonb) returns jsonb language plpgsql
as $$ begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(60); end $$;
create function public.sleep_long(text, text, jsonb, jsonb) returns jsonb language plpgsql
as $$ begin perform pg_sleep(60); end $$;
select pgwhen.register_sql_action('kill_backend', 'public.kill_backend(text, text, jsonb, jsonb)');
select pgwhen.register_sql_action('sleep_long', 'public.sleep_long(text, text, jsonb, jsonb)');
"""


@pytest.mark.parametrize("poison", ["kill_backend", "sleep_long"])
def test_action_that_takes_the_call_down_fails_alone(
    listener: Process, shop: Shop, poison: str
) -> None:
    """One among seven ends the backend, or its statement_timeout: the others are processed."""
    shop.conn.execute(KILLER.encode())
    shop.set("maxRetries", 0)
    shop.set("staleProcessingMinute", 0.02)
    shop.rule(poison)
    shop.rule("plain")
    shop.submit("plain", 3)
    shop.submit(poison)
    shop.submit("plain", 3, user="later")
    listener.start(PGWHEN_STATEMENT_TIMEOUT="0.5")

    shop.wait_ended(6, "plain")
    wait_until(
        shop.conn,
        "select count(*) = 1 from pgwhen.scheduled_action"
        " where action_type = %s and status = 'failed'",
        [poison],
        patience=30,
    )
    assert listener.running


async def _raise(*_: Any) -> None:
    raise ZeroDivisionError


async def _return(*_: Any) -> None:
    return None


@pytest.mark.parametrize("end", [_raise, _return])
@pytest.mark.parametrize(
    ("owner", "task"),
    [(Doorbell, "keep_open"), (Settler, "run"), (Daemon, "_tick"), (Daemon, "_present")],
)
async def test_task_that_ends_ends_the_daemon(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    task: str,
    end: Callable[..., Any],
) -> None:
    """Whether it raised or just returned: half a listener is worse than none."""
    end.__qualname__ = f"{owner.__name__}.{task}"
    monkeypatch.setattr(owner, task, end)

    with pytest.raises((ZeroDivisionError, RuntimeError)):
        await asyncio.wait_for(Daemon(settings, {}).run(), 20)


async def test_one_dead_connection_puts_the_others_in_doubt(settings: Settings, shop: Shop) -> None:
    """After a restart of the server only one call dies, not one for each connection of the pool."""
    database = Database(replace(settings, pool_size=2))
    await database.open()
    async with aclosing(database):
        await database._pool.wait()
        await asyncio.gather(*(database.version() for _ in range(8)))
        shop.conn.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgwhen work'"
        )

        with pytest.raises(CallDiedError):
            await database.version()
        for _ in range(4):
            assert await database.version()


async def test_flood_is_drained_by_exchanges(
    shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was claimed by the pass goes back for the next, in one round trip."""
    exchanged: list[int] = []
    exchange_actions = Database.exchange_actions

    async def exchange(self: Database, done: Any, types: Any) -> Any:
        settled, claims = await exchange_actions(self, done, types)
        exchanged.append(len(claims))
        return settled, claims

    monkeypatch.setattr(Database, "exchange_actions", exchange)
    shop.conn.execute("select pgwhen.register_action('plain')")
    shop.conn.execute(
        "select pgwhen.schedule_actions("
        "'plain', array(select 'u' || n from generate_series(1, 5000) as n))"
    )
    async with running(settings, Handler("plain", _nothing, None, None)):
        await asyncio.to_thread(
            wait_until,
            shop.conn,
            "select count(*) = 5000 from pgwhen.trigger_log where status = 'success'",
        )
    assert sum(exchanged) >= 3000


async def _nothing(_ctx: Any, _config: Any) -> None:
    pass


async def test_room_is_told_to_whoever_waits_for_it(settings: Settings) -> None:
    """When an action has been acknowledged, not before, and only if somebody found no room."""
    ended, room = asyncio.Event(), asyncio.Event()

    async def plain(_ctx: Any, _config: Any) -> None:
        await ended.wait()

    async def tell(outcomes: list[Any]) -> set[int]:
        return {outcome.action_id for outcome in outcomes}

    dispatcher = Dispatcher(
        replace(settings, max_in_flight=1),
        {"plain": Handler("plain", plain, None, None)},
        Tools.of(
            settings,
            cast(
                "Database",
                SimpleNamespace(complete_actions=tell, fail_actions=tell, release_actions=tell),
            ),
        ),
        room.set,
    )
    running = asyncio.create_task(dispatcher.settler.run())
    dispatcher.start([a_claim("plain")])
    assert dispatcher.room() == 0
    ended.set()
    await asyncio.wait_for(room.wait(), 10)
    assert dispatcher.room() == 1

    room.clear()
    dispatcher.start([a_claim("plain")])
    await dispatcher.settler.told()
    assert await dispatcher.drain(1)
    assert not room.is_set()
    await _cancel([running])


def a_claim(action_type: str) -> Claim:
    """Return a claim as the database hands it out."""
    action = {
        "id": 1,
        "token": str(UUID(int=1)),
        "attempt": 1,
        "deadline": "2030-01-01T12:01:00.5+00:00",
        "action_type": action_type,
        "action_config": {},
        "line_oa_id": "default",
        "organization_id": "default",
        "user_id": "u",
        "rule": 1,
        "event": None,
        "idempotency_key": str(UUID(int=2)),
        "workflow_node_path": None,
    }
    claim = read_json_claim(json.dumps(action), datetime(2030, 1, 1, 12, tzinfo=timezone.utc))
    assert claim is not None
    return claim


def test_claim_has_what_is_left_of_its_time() -> None:
    """From the server's now to the deadline; the clock of this machine has no say."""
    assert a_claim("plain").seconds == 60.5


async def test_cancellation_is_repeated() -> None:
    """A task that has lost one is ended by the next."""
    begun = asyncio.Event()

    async def lose_one() -> None:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(lose_one())
    await begun.wait()
    await asyncio.wait_for(_cancel([task]), 10)

    assert task.cancelled()


async def test_error_in_the_pump_ends_the_daemon(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it cannot deal with it does not hide."""
    monkeypatch.setattr(Dispatcher, "room", lambda _: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Daemon(settings, {}).run(), 20)


def test_end_by_an_error_shows(listener: Process) -> None:
    """The process ends with a status and a line for whoever looks after it."""
    listener.spawn(
        "from pgwhen.settler import Settler\n"
        "from pgwhen import action\n\n"
        "async def run(self): raise ZeroDivisionError\n\n"
        "Settler.run = run\n\n"
        "@action('plain')\nasync def plain(ctx, config): ...\n"
    )

    assert listener.wait() == 1
    assert "the listener ends: an error that it cannot deal with" in listener.log
    assert "ZeroDivisionError" in listener.log
