"""`ctx.connection()`: what a handler writes and the end of its action are one."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgwhen import Cancelled, Context, Retry, action
from tests.support import PATIENCE, wait_until

from .conftest import declared, running
from .test_heartbeats import TAKE_AWAY, ended, seen

if TYPE_CHECKING:
    from pgwhen.settings import Settings
    from tests.support import Database

    from .conftest import Process, Shop

SOON = Retry(initial_interval=0.01)
ONCE = Retry(maximum_attempts=1)
WRITE = "insert into public.ledger (key, attempt) values (%s, %s)"

ways = pytest.mark.parametrize("way", ["async", "thread"])


@pytest.fixture(autouse=True)
def ledger(shop: Shop) -> None:
    """Make a table that takes each key once."""
    shop.conn.execute("create table public.ledger (key text unique, attempt int)")


def entries(shop: Shop) -> list[int]:
    """Return by which attempts there are entries."""
    rows = shop.conn.execute("select attempt from public.ledger order by 1").fetchall()
    return [attempt for (attempt,) in rows]


def writer(way: str, then: Any) -> Any:
    """Return a handler that writes, and then does what it is told."""

    async def write(ctx: Context, _config: Any) -> Any:
        conn = await ctx.connection()
        assert conn is await ctx.connection()
        await conn.execute(WRITE, [ctx.idempotency_key, ctx.attempt])
        answer = then(ctx)
        return await answer if asyncio.iscoroutine(answer) else answer

    def write_in_thread(ctx: Context, _config: Any) -> Any:
        conn = ctx.connection()
        assert conn is ctx.connection()
        conn.execute(WRITE, [ctx.idempotency_key, ctx.attempt])
        return then(ctx)

    return action("write", retry=SOON)(write if way == "async" else write_in_thread)


async def outcome(settings: Settings, shop: Shop, handler: Any) -> dict[str, Any]:
    """Return the row of one action, ended."""
    async with running(settings, declared(handler)):
        shop.rule("write")
        shop.submit("write")
        [row] = await ended(shop)
    return row


@ways
async def test_it_commits_with_the_completion(settings: Settings, shop: Shop, way: str) -> None:
    """In one transaction: the entry and the row have the same xmin."""
    row = await outcome(settings, shop, writer(way, lambda _: {"ok": True}))
    assert (row["status"], row["result"]) == ("done", {"ok": True})
    [(is_one,)] = shop.conn.execute(
        "select l.xmin = a.xmin from public.ledger as l, pgwhen.scheduled_action as a"
    ).fetchall()
    assert is_one


@ways
async def test_a_failure_rolls_it_back(settings: Settings, shop: Shop, way: str) -> None:
    """And the next attempt writes anew."""

    def fail_once(ctx: Context) -> None:
        if ctx.attempt == 1:
            raise OSError("down")

    row = await outcome(settings, shop, writer(way, fail_once))
    assert row["status"] == "done"
    assert entries(shop) == [2]


@ways
async def test_a_result_that_cannot_be_kept_rolls_it_back(
    settings: Settings, shop: Shop, way: str
) -> None:
    """It is refused for good, whoever refuses it: the listener or the database."""
    row = await outcome(settings, shop, writer(way, lambda _: {1, 2}))
    assert row["error_message"].startswith("ResultNotJson: ")
    assert entries(shop) == []


@ways
async def test_a_result_that_is_too_large_rolls_it_back(
    settings: Settings, shop: Shop, way: str
) -> None:
    """The database's own limit."""
    row = await outcome(settings, shop, writer(way, lambda _: "x" * 70_000))
    assert row["error_message"].startswith("ResultTooLarge: ")
    assert row["retry_state"] == "non_retryable"
    assert entries(shop) == []


@ways
async def test_what_the_commit_refuses_is_a_failure(
    settings: Settings, shop: Shop, way: str
) -> None:
    """A deferred constraint speaks last; the action is tried again like any other."""
    shop.conn.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'not yet' using errcode = 'check_violation'; end; $$"
    )
    shop.conn.execute(
        "create constraint trigger refuse after insert on public.ledger"
        " deferrable initially deferred for each row when (new.attempt = 1)"
        " execute function refuse()"
    )
    row = await outcome(settings, shop, writer(way, lambda ctx: ctx.attempt))
    assert (row["status"], row["retry_count"], row["result"]) == ("done", 1, 2)
    assert entries(shop) == [2]


@ways
async def test_nobody_else_ends_the_transaction(settings: Settings, shop: Shop, way: str) -> None:
    """A commit of the handler's own is refused; a block of its own is a savepoint."""

    async def end(conn: Any) -> None:
        async with conn.transaction():
            await conn.execute(WRITE, ["inner", 0])
        await conn.commit()

    def end_in_thread(conn: Any) -> None:
        with conn.transaction():
            conn.execute(WRITE, ["inner", 0])
        conn.commit()

    async def then(ctx: Context) -> None:
        await end(await ctx.connection())

    handler = writer(way, then if way == "async" else lambda ctx: end_in_thread(ctx.connection()))
    row = await outcome(settings, shop, handler)
    assert row["error_message"].startswith("ProgrammingError: Explicit commit() forbidden")
    assert entries(shop) == []


@ways
async def test_a_lost_claim_rolls_it_back(
    settings: Settings, shop: Shop, db: Database, way: str
) -> None:
    """What is written by an attempt that does not count does not count."""
    other = db.connect()
    async with running(
        settings, declared(writer(way, lambda _: other.execute(TAKE_AWAY) and None))
    ):
        shop.rule("write")
        shop.submit("write")
        await seen(
            shop,
            "select count(*) = 1 from pg_stat_activity where datname = current_database()"
            " and application_name = 'pgwhen handler' and state = 'idle'"
            " and query like 'ROLLBACK%%'",
        )
    assert entries(shop) == []
    assert shop.count("processing") == 1


async def test_a_thread_that_is_too_late_rolls_back(settings: Settings, shop: Shop) -> None:
    """After its deadline it gets no connection, and what it has written is gone."""
    hang, over = threading.Event(), threading.Event()
    reasons = []

    @action("write", start_to_close=0.4, retry=ONCE)
    def write(ctx: Context, _config: Any) -> None:
        ctx.connection().execute(WRITE, [ctx.idempotency_key, ctx.attempt])
        hang.wait(PATIENCE)
        try:
            ctx.connection()
        except Cancelled as exc:
            reasons.append(exc.reason)
        over.set()

    async with running(settings, declared(write)):
        shop.rule("write")
        shop.submit("write")
        [row] = await ended(shop)
        hang.set()
        await asyncio.to_thread(over.wait, PATIENCE)
    assert row["error_message"].startswith("Timeout:StartToClose: ")
    assert reasons == ["timed_out"]
    assert entries(shop) == []


async def test_who_is_cancelled_rolls_back(settings: Settings, shop: Shop) -> None:
    """An async handler past its deadline leaves neither an entry nor an open transaction."""

    @action("write", start_to_close=0.4, retry=ONCE)
    async def write(ctx: Context, _config: Any) -> None:
        conn = await ctx.connection()
        await conn.execute(WRITE, [ctx.idempotency_key, ctx.attempt])
        await conn.execute("select pg_sleep(60)")

    row = await outcome(settings, shop, write)
    assert row["error_message"].startswith("Timeout:StartToClose: ")
    assert entries(shop) == []
    wait_until(
        shop.conn,
        "select count(*) = 0 from pg_stat_activity where datname = current_database()"
        " and application_name = 'pgwhen handler' and state <> 'idle'",
    )


@ways
async def test_an_error_that_was_swallowed_is_not_committed(
    settings: Settings, shop: Shop, way: str
) -> None:
    """The transaction has failed, whatever the handler says."""

    async def swallow(ctx: Context) -> str:
        conn = await ctx.connection()
        try:
            await conn.execute("select 1 / 0")
        except psycopg.Error:
            return "fine"
        return "finer"

    def swallow_in_thread(ctx: Context) -> str:
        try:
            ctx.connection().execute("select 1 / 0")
        except psycopg.Error:
            return "fine"
        return "finer"

    handler = writer(way, swallow if way == "async" else swallow_in_thread)
    declaration = replace(declared(handler), retry=ONCE)
    async with running(settings, declaration):
        shop.rule("write")
        shop.submit("write")
        [row] = await ended(shop)
    assert row["error_message"].startswith("InFailedSqlTransaction: ")
    assert entries(shop) == []


@ways
async def test_no_more_connections_than_settings_say(
    settings: Settings, shop: Shop, way: str
) -> None:
    """Thirty attempts share two, and all end."""

    def count(_ctx: Context) -> int:
        return 1

    few = replace(settings, pool_size=2, threads=2)
    async with running(few, declared(writer(way, count))):
        shop.rule("write")
        shop.submit("write", 30)
        await ended(shop, 30)
        [(most,)] = shop.conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name = 'pgwhen handler'"
        ).fetchall()
    assert 1 <= most <= 2
    assert len(entries(shop)) == 30


def test_kills_leave_each_entry_once(shop: Shop, listener: Process) -> None:
    """Killed between the write and the completion, again and again: one entry for each action."""
    listener.start(KILLED)
    shop.rule("write")
    shop.submit("write", 3)
    for _ in range(3):
        wait_until(
            shop.conn,
            "select count(*) > 0 from pg_stat_activity where datname = current_database()"
            " and application_name = 'pgwhen handler' and state = 'idle in transaction'",
        )
        listener.kill()
        listener.start(KILLED)
    shop.conn.execute("create table public.go_on ()")
    rows = shop.wait_ended(3, patience=3 * PATIENCE)
    assert {row["status"] for row in rows} == {"done"}
    assert max(row["retry_count"] for row in rows) > 0
    assert len(entries(shop)) == 3


KILLED = """
import asyncio
from pgwhen import Retry, action

WRITE = "insert into public.ledger (key, attempt) values (%s, %s)"

@action("write", heartbeat=0.5, retry=Retry(initial_interval=0.01, maximum_attempts=0))
async def write(ctx, config):
    conn = await ctx.connection()
    await conn.execute(WRITE, [ctx.idempotency_key, ctx.attempt])
    while True:
        await ctx.heartbeat()
        cursor = await conn.execute("select to_regclass('public.go_on') is not null")
        if (await cursor.fetchone())[0]:
            return ctx.attempt
        await asyncio.sleep(0.02)
"""
