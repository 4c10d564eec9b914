"""Heartbeats of handlers: progress that survives, silence that is noticed, cancels that arrive."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import ActionError, Cancelled, Context, Retry, action, pulse
from pgwhen.errors import HandlerError
from tests.support import PATIENCE, wait_until

from .conftest import declared, running

if TYPE_CHECKING:
    from pgwhen.settings import Settings
    from tests.support import Database

    from .conftest import Process, Shop

SOON = Retry(initial_interval=0.01)
ONCE = Retry(maximum_attempts=1)

HAS_BEATEN = "select count(*) = %s from _pgwhen.heartbeat where beat_at is not null"


async def ended(shop: Shop, count: int = 1) -> list[dict[str, Any]]:
    """Wait in a thread, so that the daemon in this loop goes on."""
    return await asyncio.to_thread(shop.wait_ended, count)


async def seen(shop: Shop, query: str, *values: Any) -> None:
    """Wait until *query* is true, likewise."""
    await asyncio.to_thread(wait_until, shop.conn, query, list(values))


async def test_details_of_a_failed_attempt_are_the_next_ones(
    settings: Settings, shop: Shop
) -> None:
    """The last ones too, which were not due yet; a heartbeat without details keeps them."""
    found = []

    @action("walk", retry=SOON, heartbeat=60)
    async def walk(ctx: Context, _config: Any) -> int:
        found.append(ctx.heartbeat_details)
        start = ctx.heartbeat_details or 0
        for step in range(start + 1, start + 4):
            await ctx.heartbeat(step)
        await ctx.heartbeat()
        if ctx.attempt < 3:
            raise ActionError("half way")
        return int(step)

    async with running(settings, declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        [row] = await ended(shop)
    assert (row["status"], row["result"]) == ("done", 9)
    assert found == [None, 3, 6]


async def test_a_thread_beats_as_well(settings: Settings, shop: Shop) -> None:
    """Without await."""
    found = []

    @action("walk", retry=SOON)
    def walk(ctx: Context, _config: Any) -> None:
        found.append(ctx.heartbeat_details)
        for step in ("a", "b"):
            ctx.heartbeat(step)
        if ctx.attempt == 1:
            raise ActionError("half way")

    async with running(settings, declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        [row] = await ended(shop)
    assert row["status"] == "done"
    assert found == [None, "b"]


async def test_later_heartbeats_are_told_too(settings: Settings, shop: Shop) -> None:
    """Not only the first: the latest reaches the database while the handler is still at work."""
    go_on = asyncio.Event()

    @action("walk", heartbeat=2)
    async def walk(ctx: Context, _config: Any) -> None:
        step = 0
        while not go_on.is_set():
            await ctx.heartbeat(step := step + 1)
            await asyncio.sleep(0.01)

    async with running(settings, declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        await seen(shop, "select details > '1' from _pgwhen.heartbeat")
        go_on.set()
        [row] = await ended(shop)
    assert (row["status"], row["retry_count"]) == ("done", 0)


async def test_without_a_timeout_they_are_told_too(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while that is half a minute, and a moment here."""
    monkeypatch.setattr(pulse, "WITHOUT", 0.1)
    go_on = asyncio.Event()

    @action("walk")
    async def walk(ctx: Context, _config: Any) -> None:
        await ctx.heartbeat(1)
        await asyncio.sleep(0.02)
        await ctx.heartbeat(2)
        await go_on.wait()

    async with running(settings, declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        await seen(shop, "select details = '2' from _pgwhen.heartbeat")
        go_on.set()
        await ended(shop)


async def test_heartbeats_are_throttled(settings: Settings, shop: Shop) -> None:
    """A thousand of them cost the database two calls: the first, and none before its time."""
    shop.conn.execute("create table beat_seen ()")
    shop.conn.execute(
        "create function note() returns trigger language plpgsql security definer as"
        " $$ begin insert into public.beat_seen default values; return null; end; $$"
    )
    shop.conn.execute(
        "create trigger note after insert or update of beat_at on _pgwhen.heartbeat"
        " for each statement execute function note()"
    )

    @action("walk", heartbeat=600)
    async def walk(ctx: Context, _config: Any) -> None:
        for step in range(1000):
            await ctx.heartbeat(step)
            await asyncio.sleep(0.0001)

    async with running(settings, declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        [row] = await ended(shop)
    assert row["status"] == "done"
    calls = shop.conn.execute("select count(*) from public.beat_seen").fetchone()
    assert calls is not None
    assert calls[0] <= 4


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_silence_is_noticed(settings: Settings, shop: Shop, way: str) -> None:
    """A handler that hangs is timed out long before its deadline, and tried again."""
    starts: list[Any] = []
    stopped: list[str] = []
    hang, over = threading.Event(), threading.Barrier(3)

    async def waits(ctx: Context, _config: Any) -> None:
        starts.append(ctx.heartbeat_details)
        await ctx.heartbeat("started")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append("cancelled")
            raise

    def waits_in_thread(ctx: Context, _config: Any) -> None:
        starts.append(ctx.heartbeat_details)
        ctx.heartbeat("started")
        hang.wait()
        try:
            ctx.heartbeat("late")
        except Cancelled as exc:
            stopped.append(exc.reason)
        over.wait(PATIENCE)

    function = waits if way == "async" else waits_in_thread
    twice = Retry(initial_interval=0.01, maximum_attempts=2)
    action("wait", heartbeat=0.3, retry=twice)(function)
    async with running(settings, declared(function)):
        shop.rule("wait")
        shop.submit("wait")
        [row] = await ended(shop)
        hang.set()
        if way == "thread":
            await asyncio.to_thread(over.wait, PATIENCE)
    assert row["status"] == "failed"
    assert row["error_message"] == "Timeout:Heartbeat: no heartbeat for 0.3 s"
    assert starts == [None, "started"]
    assert stopped == ["cancelled" if way == "async" else "timed_out"] * 2


async def test_a_busy_loop_loses_no_claim(settings: Settings, shop: Shop, db: Database) -> None:
    """A handler that blocks the loop for long harms neither the others nor itself.

    Somebody else looks for claims that are lost meanwhile: this listener's own ticks wait too.
    """
    other, is_over = db.connect(), threading.Event()

    def recover() -> None:
        while not is_over.is_set():
            other.execute("call pgwhen.run_ticks()")

    starts: list[int] = []
    both = asyncio.Event()

    @action("quiet", heartbeat=1.5, retry=ONCE)
    async def quiet(ctx: Context, _config: Any) -> None:
        starts.append(ctx.attempt)
        if len(starts) == 2:
            both.set()
        await both.wait()
        for _ in range(3):
            await ctx.heartbeat()
            await asyncio.sleep(0.05)

    @action("blocker", heartbeat=1.5, retry=ONCE)
    async def blocker(ctx: Context, _config: Any) -> None:
        starts.append(ctx.attempt)
        if len(starts) == 2:
            both.set()
        await both.wait()
        await ctx.heartbeat()
        time.sleep(4.5)  # noqa: ASYNC251 -- that is the point: three timeouts long

    async with running(settings, declared(quiet), declared(blocker)):
        for name in ("quiet", "blocker"):
            shop.rule(name)
        for name in ("quiet", "blocker"):
            shop.submit(name)
        recovering = asyncio.create_task(asyncio.to_thread(recover))
        rows = await ended(shop, 2)
        is_over.set()
        await recovering
    assert [(row["status"], row["retry_count"]) for row in rows] == [("done", 0)] * 2


@pytest.mark.parametrize("way", ["gives way", "completes", "fails"])
async def test_a_cancel_arrives_by_heartbeat(settings: Settings, shop: Shop, way: str) -> None:
    """As Cancelled, with time to clean up; the handler may complete all the same."""
    cleaned = []

    @action("long", heartbeat=1.5, retry=SOON)
    async def long(ctx: Context, _config: Any) -> str:
        try:
            while True:
                await ctx.heartbeat()
                await asyncio.sleep(0.01)
        except Cancelled as exc:
            assert ctx.cancel_requested
            await asyncio.sleep(0.01)
            cleaned.append(exc.reason)
            if way == "completes":
                return "just finished"
            if way == "fails":
                raise ActionError("could not clean up") from exc
            raise

    async with running(settings, declared(long)):
        shop.rule("long")
        shop.submit("long")
        await seen(shop, HAS_BEATEN, 1)
        shop.conn.execute("select pgwhen.cancel_action(id) from pgwhen.scheduled_action")
        await seen(
            shop, "select count(*) = 0 from pgwhen.scheduled_action where status = 'processing'"
        )
    [(status, result, error)] = shop.conn.execute(
        "select status, result, error_message from pgwhen.scheduled_action"
    ).fetchall()
    assert cleaned == ["cancel_requested"]
    if way == "completes":
        assert (status, result) == ("done", "just finished")
    elif way == "fails":
        assert status == "failed"
        assert error == ("ActionError: could not clean up; caused by Cancelled: cancel_requested")
    else:
        assert status == "cancelled"


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_a_lost_claim_stops_its_handler(settings: Settings, shop: Shop, way: str) -> None:
    """What it does is for nothing: an async one is cancelled, a thread told at its next beat."""
    stopped: list[str] = []
    is_over = threading.Event()

    async def long(ctx: Context, _config: Any) -> None:
        try:
            while True:
                await ctx.heartbeat()
                await asyncio.sleep(1)
        except (Cancelled, asyncio.CancelledError) as exc:
            stopped.append(type(exc).__name__)
            is_over.set()
            raise

    def long_thread(ctx: Context, _config: Any) -> None:
        try:
            while True:
                ctx.heartbeat()
                time.sleep(0.01)
        except Cancelled as exc:
            stopped.append(exc.reason)
            is_over.set()
            raise

    function = long if way == "async" else long_thread
    action("long", heartbeat=1.5, retry=SOON)(function)
    async with running(settings, declared(function)):
        shop.rule("long")
        shop.submit("long")
        await seen(shop, HAS_BEATEN, 1)
        shop.conn.execute(TAKE_AWAY)
        await asyncio.to_thread(is_over.wait, PATIENCE)
    assert stopped == ["CancelledError" if way == "async" else "claim_lost"]
    assert shop.count("processing") == 1


#: As if another listener had it now.
TAKE_AWAY = """
do $$
begin
    set local pgwhen.by_engine = on;
    update pgwhen.scheduled_action set claim_token = gen_random_uuid(), worker = 'thief';
    delete from _pgwhen.heartbeat;
end;
$$
"""


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ("x" * 65_600, "DetailsTooLarge: heartbeat details have more than 65536 bytes"),
        (float("nan"), "DetailsNotJson: heartbeat details cannot be kept as JSON: ValueError"),
        ("a\0b", "DetailsNotJson: heartbeat details cannot be kept as JSON: it has a NUL"),
        ({1, 2}, "DetailsNotJson: heartbeat details cannot be kept as JSON: TypeError"),
        ("\ud83d", "DetailsNotJson: heartbeat details cannot be kept as JSON: Unicode"),
    ],
)
async def test_bad_details_are_refused_at_the_call(
    settings: Settings, shop: Shop, details: Any, error: str
) -> None:
    """In the handler, for good: the next attempt would come to the same point."""

    @action("walk")
    async def walk(ctx: Context, _config: Any) -> None:
        await ctx.heartbeat(details)

    async with running(settings, declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        [row] = await ended(shop)
    assert row["error_message"].startswith(error)
    assert row["retry_state"] == "non_retryable"


def test_a_killed_worker_is_followed_by_one_that_goes_on(
    shop: Shop, listener: Process, another_listener: Process
) -> None:
    """From the last heartbeat, not from the start; and long before the attempt's deadline."""
    listener.start(WALKER)
    shop.rule("walk")
    shop.submit("walk")
    wait_until(shop.conn, "select details >= '3' from _pgwhen.heartbeat")
    listener.kill()
    another_listener.start(WALKER.replace("endless = True", "endless = False"))
    [row] = shop.wait_ended()
    assert (row["status"], row["retry_count"]) == ("done", 1)
    assert row["result"]["from"] >= 3


WALKER = """
import asyncio
from pathlib import Path
from pgwhen import Retry, action

endless = True

@action("walk", heartbeat=1.5, retry=Retry(initial_interval=0.01))
async def walk(ctx, config):
    start = ctx.heartbeat_details or 0
    step = start
    while endless:
        await ctx.heartbeat(step := step + 1)
        await asyncio.sleep(0.01)
    return {"from": start}
"""


def test_sigterm_keeps_what_was_not_told(shop: Shop, listener: Process) -> None:
    """A handler that outlasts the grace fails with its last details."""
    listener.start(WALKER.replace("heartbeat=1.5", "heartbeat=600"), PGWHEN_GRACE="0.2")
    shop.rule("walk")
    shop.submit("walk")
    wait_until(shop.conn, "select count(*) = 1 from _pgwhen.heartbeat")
    assert listener.stop() == 0
    [(status, kept)] = shop.conn.execute(
        "select a.status, h.details from pgwhen.scheduled_action as a"
        " left join _pgwhen.heartbeat as h on h.action_id = a.id"
    ).fetchall()
    assert (status, kept > 1) == ("pending", True)


def test_heartbeats_go_on_in_the_grace_time(shop: Shop, listener: Process) -> None:
    """After SIGTERM a handler may finish, and its claim holds as long."""
    listener.start(WALKER.replace("while endless", 'while not Path("go_on").exists()'))
    shop.rule("walk")
    shop.submit("walk")
    wait_until(shop.conn, HAS_BEATEN, [1])
    listener.signal(signal.SIGTERM)
    listener.wait_log("stopping")
    [(told,)] = shop.conn.execute("select details from _pgwhen.heartbeat").fetchall()
    wait_until(shop.conn, "select details > to_jsonb(%s) from _pgwhen.heartbeat", [told])
    listener.write("go_on")
    assert listener.wait() == 0
    [row] = shop.wait_ended()
    assert (row["status"], row["retry_count"]) == ("done", 0)


async def test_heartbeats_outlive_a_restarted_connection(settings: Settings, shop: Shop) -> None:
    """A severed connection is replaced, and the claim survives."""
    go_on = asyncio.Event()

    @action("walk", heartbeat=2, retry=ONCE)
    async def walk(ctx: Context, _config: Any) -> None:
        step = 0
        while not go_on.is_set():
            await ctx.heartbeat(step := step + 1)
            await asyncio.sleep(0.01)

    async with running(replace(settings, statement_timeout=5), declared(walk)):
        shop.rule("walk")
        shop.submit("walk")
        await seen(shop, HAS_BEATEN, 1)
        [(details,)] = shop.conn.execute("select details from _pgwhen.heartbeat").fetchall()
        shop.conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgwhen heart'"
        )
        await seen(shop, "select details > to_jsonb(%s) from _pgwhen.heartbeat", details)
        go_on.set()
        [row] = await ended(shop)
    assert (row["status"], row["retry_count"]) == ("done", 0)


def test_heartbeat_and_batch_do_not_go_together() -> None:
    """Of a batch, nobody could say whose heartbeat it is."""

    async def many(batch: Any) -> None: ...

    with pytest.raises(HandlerError, match="heartbeat goes with handlers of single actions"):
        action("many", batch=5, heartbeat=10)(many)
