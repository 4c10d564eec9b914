"""The doorbell: sleep until something may have happened, and tell writers that one sleeps.

A notification carries no work, only the hint that some may be due; a lost one costs at most a
second. Writers send it only while a listener holds the doorbell lock, and a listener takes that
lock only to sleep: `try_sleep`, then a scan, then `wait`, as often as need be, and `wake_up` when
there is so much that writers had better not ring. All calls but `keep_open` and `nudge` belong to
one task, that of the pump.

Owns the connection that only listens. While nobody waits for an answer on it, its socket is
watched by the event loop itself, so a notification wakes the pump with nothing in between.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import psycopg

from .connection import Connection, Row, call, parameters, words
from .errors import UnavailableError
from .settings import backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import TypeVar

    from .settings import Settings

    T = TypeVar("T")

log = logging.getLogger(__name__)

CHANNELS = (
    "attribute_changed",
    "form_submitted",
    "campaign_click",
    "friend_track_event_inserted",
    "booking_event",
    "pgwhen_due",
)
#: Seconds for an answer on the listening connection, and between two proofs that it still listens.
#: Together they bound how long a half-open connection can go unnoticed.
ANSWER = 4.0
PROBE_EVERY = 8.0

PROBE = "select pg_backend_pid(), array(select pg_listening_channels())"


class Doorbell:
    """What wakes the pump: the bell of the database, or a nudge from inside this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._conn: Connection | None = None
        self._lost = asyncio.Event()
        self._woken = asyncio.Event()
        self._probed_at = 0.0
        #: Whether this listener holds the doorbell lock, so that writers ring.
        self.asleep = False

    async def keep_open(self) -> None:
        """Listen, and listen again whenever the connection is lost. Runs until cancelled."""
        pauses = backoff()
        while True:
            self._lost.clear()
            try:
                await self._open()
            except (UnavailableError, psycopg.OperationalError) as exc:
                pause = next(pauses)
                log.warning("cannot listen, trying again in %.1f s: %s", pause, words(exc))
                await asyncio.sleep(pause)
            else:
                pauses = backoff()
                log.info("listening")
                self.nudge()  # what happened meanwhile rang for nobody
                await self._lost.wait()

    async def close(self) -> None:
        """Close the connection."""
        if self._conn is not None:
            await self._conn.close()

    async def try_sleep(self) -> str | None:
        """Ask to be rung for: `granted`, or refused by a `writer` or another `listener`.

        None without a listening connection, when the pump can only look now and then.
        """
        rows = await self._ask("select pgwhen.try_sleep()")
        verdict = rows[0][0] if rows else None
        self.asleep = verdict == "granted"
        return verdict

    async def wake_up(self) -> None:
        """Stop being rung for."""
        self.asleep = False
        await self._ask("select pgwhen.wake_up()")

    async def wait(self, seconds: float) -> None:
        """Wait for the bell, a nudge or *seconds*, whatever comes first."""
        if self._conn is not None and _now() - self._probed_at > PROBE_EVERY:
            await self._answer(self._probe(self._conn))
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, self._woken.set)
        conn = self._conn
        fd = None if conn is None else conn.fileno()
        if fd is not None:
            loop.add_reader(fd, self._woken.set)
        try:
            await self._woken.wait()
        finally:
            timer.cancel()
            if fd is not None:
                loop.remove_reader(fd)
        self._woken.clear()
        if conn is not None:
            await self._answer(_read(conn))

    def nudge(self) -> None:
        """Wake the pump from inside."""
        self._woken.set()

    async def _open(self) -> None:
        settings = self._settings
        conn = await psycopg.AsyncConnection.connect(
            **parameters(settings, "listen", settings.listen_dsn)
        )
        try:
            # The bell may also arrive together with the answer to a call.
            conn.add_notify_handler(lambda _: self.nudge())
            for channel in CHANNELS:
                await conn.execute(f"listen {channel}".encode())
            await self._probe(conn)
        except BaseException:
            await conn.close()
            raise
        self._conn = conn

    async def _probe(self, conn: Connection) -> None:
        """Prove that the server at the other end of *conn* still listens for this process."""
        [(pid, channels)] = await call(conn, PROBE, [], ANSWER)
        if pid != conn.info.backend_pid:
            raise UnavailableError(
                "a pooler stands between this listener and the server, and keeps notifications to "
                "itself; set PGWHEN_LISTEN_DSN to a way around it, or PGWHEN_POLL to do without"
            )
        if not set(CHANNELS) <= set(channels):
            raise UnavailableError("the server no longer listens for this connection")
        self._probed_at = _now()

    async def _ask(self, query: str) -> list[Row] | None:
        if self._conn is None:
            return None
        return await self._answer(call(self._conn, query, [], ANSWER))

    async def _answer(self, exchange: Awaitable[T]) -> T | None:
        """Await an exchange with the server; None if the connection was lost, and is let go."""
        try:
            return await exchange
        except (UnavailableError, psycopg.OperationalError) as exc:
            log.warning("listening connection lost: %s", words(exc))
            await self.close()
            self._conn = None
            self.asleep = False
            self._lost.set()
            return None


async def _read(conn: Connection) -> None:
    """Take what has arrived off the socket. Who rang, and with what payload, says nothing more."""
    conn.pgconn.consume_input()
    while conn.pgconn.notifies():
        pass


def _now() -> float:
    return asyncio.get_running_loop().time()
