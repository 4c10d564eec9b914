"""Connections: how to reach the database, and one statement with a time limit.

Whatever goes wrong comes out as SetupError (for ever) or as UnavailableError (it may pass), and
that as CallDiedError where the call may have been the cause, as RefusedError where its data was.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import conninfo

from .errors import CallDiedError, PgwhenError, RefusedError, SetupError, UnavailableError
from .settings import backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import TypeVar

    from .settings import Settings

    T = TypeVar("T")

log = logging.getLogger(__name__)

Row = tuple[Any, ...]
Connection = psycopg.AsyncConnection[Row]

#: Seconds in which a connection must be there.
CONNECT_TIMEOUT = 5
#: How the SQLSTATEs begin of what no repetition helps: not deployed, not allowed, called wrongly,
#: in a copy of the database.
FOR_EVER = ("3F", "42", "PW0", "PW202", "PW3", "PW801")
#: How those begin of data that cannot be taken. Looked at first.
REFUSED = ("22", "54", "PW303")


def parameters(settings: Settings, role: str, dsn: str) -> dict[str, Any]:
    """Return how to connect to *dsn* for *role*, the word behind pgwhen in pg_stat_activity.

    A standby is refused: libpq goes on to the next host of the dsn, or fails with words.
    Raises SetupError if *dsn* cannot be read.
    """
    try:
        given = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as exc:
        raise SetupError(
            f"the connection string cannot be read: {words(exc)}",
            hint="Write it as libpq does: postgresql://user@host/database or host=… dbname=….",
        ) from exc
    known: dict[str, Any] = {
        "fallback_application_name": f"pgwhen {role}",
        "connect_timeout": CONNECT_TIMEOUT,
        "keepalives_idle": 5,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 14_000,
    }
    ours: dict[str, Any] = {"target_session_attrs": "primary"}
    if not settings.pooler:
        milliseconds = round(settings.statement_timeout * 1000)
        ours["options"] = (
            f"{given.get('options', os.environ.get('PGOPTIONS', ''))}"
            f" -c statement_timeout={milliseconds}"
            r" -c default_transaction_isolation=read\ committed"
        )
    kept = {"prepare_threshold": None} if settings.pooler else {}
    return {**known, **given, **ours, **kept, "autocommit": True}


async def connect(how: Mapping[str, Any]) -> Connection:
    """Connect as `parameters` say."""
    try:
        return await psycopg.AsyncConnection.connect(**how)
    except psycopg.Error as exc:
        raise trouble(exc, lost=False) from exc


async def call(conn: Connection, query: str, values: Sequence[Any], limit: float) -> list[Row]:
    """Run one statement that has *limit* seconds to answer, else the connection is severed.

    A connection that gave an error is closed: what is prepared on it may be why.
    """
    try:
        with _TimeLimit(conn, limit):
            cursor = await conn.execute(query.encode(), values, binary=True)
            return await cursor.fetchall()
    except psycopg.Error as exc:
        lost = conn.broken
        await conn.close()
        raise trouble(exc, lost=lost) from exc


class _TimeLimit:
    """Cuts *conn*'s socket if the block takes longer: a half-open connection is silent for ever.

    Cancelling would not do: psycopg would first ask the server, over the same dead network.
    """

    def __init__(self, conn: Connection, seconds: float) -> None:
        self._conn = conn
        self._seconds = seconds

    def __enter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds, self._look_again)

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _look_again(self) -> None:
        # If it was this process that was busy, the answer is there and will be read now.
        self._timer = self._loop.call_later(1, self._sever)

    def _sever(self) -> None:
        log.warning("no answer within %.0f s; connection severed", self._seconds)
        sever(self._conn)


def sever(conn: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> None:
    """Cut the socket under *conn*: whoever waits at it gets an error at once."""
    with socket.fromfd(conn.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
        copy.shutdown(socket.SHUT_RDWR)


async def patiently(
    what: str, attempt: Callable[[], Awaitable[T]], *, but: tuple[type[Exception], ...] = ()
) -> T:
    """Call *attempt* until the database can do it, or raises one of *but*; return its result."""
    for pause in backoff():
        try:
            return await attempt()
        except but:
            raise
        except UnavailableError as exc:
            log.warning("cannot %s, trying again in %.1f s: %s", what, pause, exc)
            await asyncio.sleep(pause)
    raise AssertionError  # pragma: no cover


def words(exc: Exception) -> str:
    """Return what *exc* says, in one line: libpq writes several."""
    return " ".join(str(exc).split())


def trouble(exc: psycopg.Error, *, lost: bool) -> PgwhenError:
    """Return what *exc* means; *lost* says that the connection went with it."""
    state = exc.sqlstate or ""
    message = exc.diag.message_primary or words(exc)
    if state == "57P02":  # the server fell over something else than this call
        return UnavailableError(message)
    if lost or state in {"57014", "57P01"}:
        return CallDiedError(message)
    if state.startswith(REFUSED):
        if state == "PW303":
            return RefusedError(f"{message}. {exc.diag.message_hint}", too_large=True)
        return RefusedError(message)
    if state.startswith(FOR_EVER):
        hint = exc.diag.message_hint or (
            "Is pgwhen of this version deployed here (pgwhen deploy), and does the role have "
            "pgwhen_worker?"
        )
        return SetupError(f"{message} ({state})", hint=hint)
    return UnavailableError(message)


def log_warning(notice: psycopg.errors.Diagnostic) -> None:
    """Log what pgwhen warns of: an action type's timeouts that do not fit, say."""
    if notice.severity_nonlocalized == "WARNING":
        log.warning("%s", notice.message_primary)
