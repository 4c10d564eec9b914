"""Connections for handlers: what they write commits together with the completion, or not at all."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from .connection import CONNECT_TIMEOUT, Connection, Row, parameters, trouble
from .database import COMPLETE
from .errors import RefusedError
from .outcome import refusal

if TYPE_CHECKING:
    from .outcome import Done
    from .settings import Settings


class Connections:
    """A pool for `async` handlers and one for threads. Each connects when it is first asked."""

    def __init__(self, settings: Settings) -> None:
        self._worker = settings.worker
        how = {**parameters(settings, "handler", settings.dsn), "autocommit": False}
        both: dict[str, Any] = {
            "kwargs": how,
            "min_size": 0,
            "timeout": CONNECT_TIMEOUT,
            "open": False,
        }
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            max_size=settings.pool_size, name="handler", **both
        )
        self._threads: ConnectionPool[psycopg.Connection[Row]] = ConnectionPool(
            max_size=settings.threads, name="handler threads", **both
        )

    def transaction(self, *, in_loop: bool) -> Transaction | ThreadTransaction:
        """Return what will be the transaction of one attempt."""
        if in_loop:
            return Transaction(self._pool, self._worker)
        return ThreadTransaction(self._threads, self._worker)

    async def aclose(self) -> None:
        """Close what is open."""
        await self._pool.close()
        await asyncio.to_thread(self._threads.close)


class Transaction:
    """Of an `async` handler."""

    def __init__(self, pool: AsyncConnectionPool[Connection], worker: str) -> None:
        self._pool = pool
        self._worker = worker
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._conn: Connection | None = None

    async def connection(self) -> Connection:
        """Return its connection, in a transaction that only `end` can end."""
        async with self._opening:
            if self._conn is None:
                await self._pool.open()
                conn = await self._stack.enter_async_context(self._pool.connection())
                await self._stack.enter_async_context(conn.transaction())
                self._conn = conn
            return self._conn

    async def end(self, done: Done | None) -> bool | None:
        """Commit with the completion; return whether the claim still held, else roll back.

        Rolls back too where there is nothing *done*. Without a connection, it returns None.
        """
        if self._conn is None:
            await self._stack.aclose()
            return None
        async with self._stack:
            if done is None:
                raise psycopg.Rollback
            try:
                cursor = await self._conn.execute(COMPLETE, _arguments(self._worker, done))
            except psycopg.Error as exc:
                raise _said(exc) from exc
            if not await cursor.fetchall():
                raise psycopg.Rollback
            return True
        return False


class ThreadTransaction:
    """Of a handler in a thread."""

    def __init__(self, pool: ConnectionPool[psycopg.Connection[Row]], worker: str) -> None:
        self._pool = pool
        self._worker = worker
        self._stack = ExitStack()
        self._conn: psycopg.Connection[Row] | None = None

    def connection(self) -> psycopg.Connection[Row]:
        """Return its connection, in a transaction that only `end` can end."""
        if self._conn is None:
            self._pool.open()
            conn = self._stack.enter_context(self._pool.connection())
            self._stack.enter_context(conn.transaction())
            self._conn = conn
        return self._conn

    async def end(self, done: Done | None) -> bool | None:
        """Do as `Transaction.end`."""
        return await asyncio.to_thread(self._end, done)

    def _end(self, done: Done | None) -> bool | None:
        if self._conn is None:
            self._stack.close()
            return None
        with self._stack:
            if done is None:
                raise psycopg.Rollback
            try:
                cursor = self._conn.execute(COMPLETE, _arguments(self._worker, done))
            except psycopg.Error as exc:
                raise _said(exc) from exc
            if not cursor.fetchall():
                raise psycopg.Rollback
            return True
        return False


def _arguments(worker: str, done: Done) -> list[Any]:
    return [worker, [done.action_id], [done.token], [done.value]]


def _said(exc: psycopg.Error) -> Exception:
    """Return what the refusal of a completion means: for ever, where it is the result's fault."""
    meaning = trouble(exc, lost=False)
    return refusal(meaning) if isinstance(meaning, RefusedError) else exc
