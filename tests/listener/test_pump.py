"""Calls that die under the listener, and tasks that must not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen.daemon import Daemon
from pgwhen.dispatcher import Dispatcher
from pgwhen.settler import Settler
from pgwhen.wakeup import Doorbell
from tests.support import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

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
def test_event_that_takes_the_call_down_is_parked(
    listener: Process, shop: Shop, poison: str
) -> None:
    """One among seven ends the backend, or its statement_timeout: the others are processed."""
    shop.conn.execute(KILLER.encode())
    shop.rule(poison)
    shop.rule("plain")
    shop.submit("plain", 3)
    shop.submit(poison)
    shop.submit("plain", 3, user="later")
    listener.start(PGWHEN_STATEMENT_TIMEOUT="0.5")

    shop.wait_ended(6, "plain")
    wait_until(
        shop.conn,
        "select count(*) = 1 from pgwhen.event where key = %s and parked is not null",
        [poison],
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
