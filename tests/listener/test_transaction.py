"""`ctx.connection()`: what a handler writes and the end of its action are one."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgwhen import Batch, Cancelled, Context, Result, Retry, action
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

#: The connections of handlers.
THEIRS = " where datname = current_database() and application_name = 'pgwhen handler'"

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
        await seen(shop, "select worker = 'thief' from pgwhen.scheduled_action")
        await seen(shop, "select count(*) = 0 from pg_stat_activity" + THEIRS)
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
    wait_until(shop.conn, "select count(*) = 0 from pg_stat_activity" + THEIRS)


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
    settings: Settings, shop: Shop, db: Database, way: str
) -> None:
    """Thirty attempts take turns at two, and all end, in their first attempt."""
    other = db.connect()

    def count(_ctx: Context) -> int:
        row = other.execute("select count(*) from pg_stat_activity" + THEIRS).fetchone()
        return int(row[0]) if row else 0

    few = replace(settings, pool_size=2, threads=2)
    async with running(few, declared(writer(way, count))):
        shop.rule("write")
        shop.submit("write", 30)
        rows = await ended(shop, 30)
    assert {row["retry_count"] for row in rows} == {0}
    # a closed one may be seen for a moment longer
    assert 1 <= min(row["result"] for row in rows) <= 2
    assert entries(shop) == [1] * 30


async def test_a_batch_has_no_connection(settings: Settings, shop: Shop) -> None:
    """It says so to each of its actions, and leaves none without an end."""

    @action("write", batch=5)
    async def write(batch: Batch) -> list[Result]:
        for ctx, _ in batch:
            await ctx.connection()
        return [Result()] * len(batch)

    async with running(settings, declared(write)):
        shop.rule("write")
        shop.submit("write", 3)
        rows = await ended(shop, 3)
    assert {row["status"] for row in rows} == {"failed"}
    assert all(row["error_message"].startswith("BatchConnection: ") for row in rows)


async def test_who_waits_for_a_turn_is_not_silent(settings: Settings, shop: Shop) -> None:
    """The database hears that it lives, though its handler cannot say so."""
    go_on = asyncio.Event()

    @action("write", heartbeat=4, retry=SOON)
    async def write(ctx: Context, _config: Any) -> None:
        await ctx.connection()
        while not go_on.is_set():
            await ctx.heartbeat()
            await asyncio.sleep(0.05)

    async with running(replace(settings, pool_size=1), declared(write)):
        shop.rule("write")
        shop.submit("write", 3)
        await seen(shop, "select count(*) = 3 from _pgwhen.heartbeat where beat_at is not null")
        go_on.set()
        rows = await ended(shop, 3)
    assert {row["status"] for row in rows} == {"done"}


async def test_what_is_left_behind_has_no_connection(settings: Settings, shop: Shop) -> None:
    """A task that outlives its attempt writes into nobody's transaction, nor gets another one."""
    go_on = asyncio.Event()
    left: list[asyncio.Task[Any]] = []

    @action("write", retry=Retry(maximum_attempts=1))
    async def write(ctx: Context, _config: Any) -> None:
        conn = await ctx.connection()

        async def later() -> None:
            await go_on.wait()
            await conn.execute(WRITE, ["later", 0])

        async def anew() -> None:
            await go_on.wait()
            await ctx.connection()

        left.extend(asyncio.create_task(work()) for work in (later, anew))
        await conn.execute(WRITE, [ctx.idempotency_key, ctx.attempt])
        raise OSError("down")

    async with running(replace(settings, pool_size=1), declared(write)):
        shop.rule("write")
        shop.submit("write")
        await ended(shop)
        go_on.set()
        done, _ = await asyncio.wait(left)
    errors = {type(task.exception()) for task in done}
    assert errors == {psycopg.OperationalError, Cancelled}
    assert entries(shop) == []


async def test_what_waits_for_a_turn_when_its_attempt_ends_gets_none(
    settings: Settings, shop: Shop
) -> None:
    """The turn goes to the next one."""
    left: list[asyncio.Task[Any]] = []
    first_is_in, go_on = asyncio.Event(), asyncio.Event()

    @action("write", retry=ONCE)
    async def write(ctx: Context, _config: Any) -> str:
        if ctx.user_id == "u1":
            await ctx.connection()
            first_is_in.set()
            await go_on.wait()
            return "first"
        if ctx.user_id == "u2":
            await first_is_in.wait()
            left.append(asyncio.create_task(ctx.connection()))
            await asyncio.sleep(0)
            return "left"
        await asyncio.wait(left)
        await ctx.connection()
        return "third"

    async with running(replace(settings, pool_size=1), declared(write)):
        shop.rule("write")
        shop.submit("write", 2)
        await seen(shop, "select count(*) = 1 from pgwhen.scheduled_action where status = 'done'")
        go_on.set()
        await ended(shop, 2)
        shop.submit("write", 1, user="w")
        rows = await ended(shop, 3)
    assert {row["result"] for row in rows} == {"first", "left", "third"}
    assert isinstance(left[0].exception(), Cancelled)


async def test_nothing_of_a_session_is_left_to_others(settings: Settings, shop: Shop) -> None:
    """Settings, locks and temporary tables end with the attempt."""
    found = []

    @action("write", retry=ONCE)
    async def write(ctx: Context, _config: Any) -> None:
        conn = await ctx.connection()
        cursor = await conn.execute(
            "select current_setting('search_path'), to_regclass('pg_temp.mine'),"
            " (select count(*) from pg_locks where locktype = 'advisory' and objid = 77)"
        )
        found.append(await cursor.fetchone())
        await conn.execute("set search_path = nowhere")
        await conn.execute("create temporary table pg_temp.mine ()")
        await conn.execute("select pg_advisory_lock(77)")

    async with running(replace(settings, pool_size=1), declared(write)):
        shop.rule("write")
        shop.submit("write")
        await ended(shop)
        shop.submit("write")
        await ended(shop, 2)
    assert found == [('"$user", public', None, 0)] * 2


@pytest.mark.parametrize("how", ["commit", "rollback", "commit and chain", "rollback and chain"])
@ways
async def test_a_transaction_that_the_handler_ends_is_parked(
    settings: Settings, shop: Shop, way: str, how: str
) -> None:
    """By a statement, which nothing refuses: whether what it wrote is there, a person must look."""

    async def end(ctx: Context) -> None:
        await (await ctx.connection()).execute(how)

    handler = writer(
        way, end if way == "async" else lambda ctx: ctx.connection().execute(how) and 1
    )
    row = await outcome(settings, shop, handler)
    assert (row["status"], row["retry_state"]) == ("failed", "non_retryable")
    assert row["error_message"].startswith("TransactionEnded: the handler ended the transaction")
    assert entries(shop) == ([1] if how.startswith("commit") else [])


@ways
async def test_a_block_that_is_left_open_keeps_nothing(
    settings: Settings, shop: Shop, way: str
) -> None:
    """However late somebody leaves it."""
    blocks: list[Any] = []

    async def enter(ctx: Context) -> None:
        blocks.append((await ctx.connection()).transaction())
        await blocks[0].__aenter__()

    def enter_in_thread(ctx: Context) -> None:
        blocks.append(ctx.connection().transaction())
        blocks[0].__enter__()

    handler = writer(way, enter if way == "async" else enter_in_thread)
    row = await outcome(settings, shop, handler)
    assert row["error_message"].startswith("TransactionOpen: the handler returned from within")
    assert (row["status"], row["retry_state"]) == ("failed", "non_retryable")
    assert entries(shop) == []


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

@action("write", heartbeat=1.5, retry=Retry(initial_interval=0.01, maximum_attempts=0))
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
