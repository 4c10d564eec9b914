"""Connections that know how many blocks of `conn.transaction()` are open on them."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


class AsyncCounting(psycopg.AsyncConnection[Any]):
    """For `async` handlers."""

    #: Those that were entered and not left.
    blocks = 0

    @asynccontextmanager
    async def transaction(
        self, *args: Any, **named: Any
    ) -> AsyncIterator[psycopg.AsyncTransaction]:
        """Do as before, and count."""
        self.blocks += 1
        try:
            async with super().transaction(*args, **named) as block:
                yield block
        finally:
            self.blocks -= 1


class Counting(psycopg.Connection[Any]):
    """For threads."""

    blocks = 0

    @contextmanager
    def transaction(self, *args: Any, **named: Any) -> Iterator[psycopg.Transaction]:
        """Do as before, and count."""
        self.blocks += 1
        try:
            with super().transaction(*args, **named) as block:
                yield block
        finally:
            self.blocks -= 1
