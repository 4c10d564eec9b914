"""Transactions of handlers: what they write commits together with the completion, or not at all.

Each attempt that asks has a connection of its own, closed when the attempt is over: a task or a
thread that it leaves behind finds it closed, and what it has set there is set for nobody else.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from .blocks import AsyncCounting, Counting
from .connection import parameters, sever, trouble
from .errors import ActionError, Cancelled, RefusedError, TransactionEnded
from .outcome import refusal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from .outcome import Done
    from .settings import Settings

#: A mark that lasts as long as the transaction, and not beyond a COMMIT or ROLLBACK of others.
BEGIN = "select set_config('pgwhen.attempt', %s, true)"
END = (
    "select coalesce(current_setting('pgwhen.attempt', true) = %s, false),"
    " array(select pgwhen.complete_actions(%s, %s, %s::uuid[], %s::jsonb[])) <> '{}'"
)


class Connections:
    """How they are opened: so many at a time for `async` handlers, and one for each thread."""

    def __init__(self, settings: Settings) -> None:
        self._worker = settings.worker
        self.how = {**parameters(settings, "handler", settings.dsn), "autocommit": False}
        self.turns = asyncio.Semaphore(settings.pool_size)

    def transaction(self, *, in_loop: bool) -> Transaction | ThreadTransaction:
        """Return what will be the transaction of one attempt."""
        return Transaction(self) if in_loop else ThreadTransaction(self)

    def arguments(self, done: Done) -> list[Any]:
        """Return those of END."""
        return [done.token, self._worker, [done.action_id], [done.token], [done.value]]


class Transaction:
    """Of an `async` handler."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._opening = asyncio.Lock()
        self._has_turn = False
        self._is_over = False
        self._conn: AsyncCounting | None = None
        self._block: AbstractAsyncContextManager[Any] | None = None

    async def connection(self, token: str) -> psycopg.AsyncConnection[Any]:
        """Return its connection, in a transaction that only `end` can end.

        *token*, of the claim, is what marks it.
        """
        async with self._opening:
            if not self._has_turn:
                self._has_turn = await self._connections.turns.acquire()
            if self._conn is None:
                self._conn = await AsyncCounting.connect(**self._connections.how)
            if self._is_over:  # while a task that was left behind waited
                await self._close()
                raise Cancelled("claim_lost")
            if self._block is None:
                block = self._conn.transaction()
                await block.__aenter__()
                await self._conn.execute(BEGIN, [token])
                self._block = block
            return self._conn

    async def end(self, done: Done | None) -> bool | None:
        """Commit with the completion; return whether the claim still held, else roll back.

        Rolls back too where there is nothing *done*. Without a connection, it returns None.
        """
        self._is_over = True
        try:
            if self._conn is None or self._block is None:
                return None
            if done is None:
                return False
            _check_blocks(self._conn)
            with _meaning():
                cursor = await self._conn.execute(END, self._connections.arguments(done))
            held = _held(await cursor.fetchone())
            if held:
                await self._block.__aexit__(None, None, None)
            return held
        finally:
            await self._close()

    async def _close(self) -> None:
        """Close it, also under a statement of somebody whom the handler has left behind."""
        try:
            if self._conn is not None:
                if self._conn.lock.locked():
                    sever(self._conn)
                async with self._conn.lock:
                    await self._conn.close()
        finally:
            if self._has_turn:
                self._has_turn = False
                self._connections.turns.release()


class ThreadTransaction:
    """Of a handler in a thread."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._conn: Counting | None = None
        self._block: AbstractContextManager[Any] | None = None

    def connection(self, token: str) -> psycopg.Connection[Any]:
        """Return its connection, in a transaction that only `end` can end; see `Transaction`."""
        if self._conn is None:
            self._conn = Counting.connect(**self._connections.how)
        if self._block is None:
            block = self._conn.transaction()
            block.__enter__()
            self._conn.execute(BEGIN, [token])
            self._block = block
        return self._conn

    async def end(self, done: Done | None) -> bool | None:
        """Do as `Transaction.end`."""
        return await asyncio.to_thread(self._end, done)

    def _end(self, done: Done | None) -> bool | None:
        try:
            if self._conn is None or self._block is None:
                return None
            if done is None:
                return False
            _check_blocks(self._conn)
            with _meaning():
                cursor = self._conn.execute(END, self._connections.arguments(done))
            held = _held(cursor.fetchone())
            if held:
                self._block.__exit__(None, None, None)
            return held
        finally:
            self._close()

    def _close(self) -> None:
        if self._conn is not None:
            if self._conn.lock.locked():
                sever(self._conn)
            with self._conn.lock:
                self._conn.close()


def _check_blocks(conn: AsyncCounting | Counting) -> None:
    if conn.blocks > 1:
        raise ActionError(
            "the handler returned from within a conn.transaction() block, so nothing of it is kept:"
            " leave the block first",
            type="TransactionOpen",
            non_retryable=True,
        )


def _held(row: tuple[bool, bool] | None) -> bool:
    """Read the answer to END. Raises TransactionEnded."""
    is_ours, held = row or (False, False)
    if not is_ours:
        raise TransactionEnded(
            "the handler ended the transaction of ctx.connection() itself: what it wrote is"
            " committed or gone, and a person must look which"
        )
    return held


@contextmanager
def _meaning() -> Iterator[None]:
    """Say what it means that a completion is refused."""
    try:
        yield
    except psycopg.Error as exc:
        meaning = trouble(exc, lost=False)
        if isinstance(meaning, RefusedError):
            raise refusal(meaning) from exc
        raise ActionError(
            f"what was written through ctx.connection() cannot be committed: {meaning}",
            type=type(exc).__name__,
        ) from exc
