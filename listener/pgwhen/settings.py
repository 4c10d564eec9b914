"""What can be set, from the environment: libpq's PG* variables, and PGWHEN_… for the rest."""

from __future__ import annotations

import os
import random
import secrets
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    T = TypeVar("T")
    N = TypeVar("N", int, float)

LEVELS = ("debug", "info", "warning", "error")


def _worker_name() -> str:
    """Return a name that no other process has, now or after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


@dataclass(frozen=True)
class Settings:
    """The listener's settings; times in seconds."""

    #: PGWHEN_DSN, a libpq connection string; what it leaves out comes from the PG* variables.
    dsn: str = ""
    #: PGWHEN_LISTEN_DSN, where `dsn` leads to a pooler: a way around it, for LISTEN.
    listen_dsn: str = ""
    #: PGWHEN_POOLER: `dsn` leads to a transaction pooler, so nothing may be kept in a session.
    pooler: bool = False
    #: PGWHEN_POLL: look every so many seconds instead of listening.
    poll: float | None = None
    #: PGWHEN_WORKER, the name under which this process claims.
    worker: str = field(default_factory=_worker_name)
    #: PGWHEN_POOL_SIZE, connections for work; one more listens.
    pool_size: int = 4
    #: PGWHEN_MAX_IN_FLIGHT, actions that are claimed and not yet acknowledged.
    max_in_flight: int = 500
    #: PGWHEN_THREADS, handlers declared without `async` that run at one time.
    threads: int = 32
    #: PGWHEN_GRACE, how long running handlers may go on after SIGTERM.
    grace: float = 30.0
    #: PGWHEN_STATEMENT_TIMEOUT, for one call to the database. Above 11, a half-open connection may
    #: go unnoticed for more than 15.
    statement_timeout: float = 10.0
    #: PGWHEN_LOG_LEVEL: debug, info, warning or error.
    log_level: str = "INFO"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings. Raises SettingsError, naming the variable and what it may hold."""
        default = cls()
        dsn = environment.get("PGWHEN_DSN", "")

        def read(name: str, otherwise: T, parse: Callable[[str], T], wanted: str) -> T:
            text = environment.get(name, "")
            try:
                return parse(text) if text else otherwise
            except ValueError:
                raise SettingsError(
                    f"{name}={text} cannot be used", hint=f"Give it {wanted}, or unset it."
                ) from None

        return cls(
            dsn=dsn,
            listen_dsn=environment.get("PGWHEN_LISTEN_DSN", dsn),
            pooler=read("PGWHEN_POOLER", default.pooler, _switch, "on or off"),
            poll=read("PGWHEN_POLL", default.poll, _seconds, "a number of seconds, as 0.5"),
            worker=environment.get("PGWHEN_WORKER") or default.worker,
            pool_size=read("PGWHEN_POOL_SIZE", default.pool_size, _count, "a number from 1"),
            max_in_flight=read(
                "PGWHEN_MAX_IN_FLIGHT", default.max_in_flight, _count, "a number from 1"
            ),
            threads=read("PGWHEN_THREADS", default.threads, _count, "a number from 1"),
            grace=read("PGWHEN_GRACE", default.grace, _seconds, "a number of seconds, as 30"),
            statement_timeout=read(
                "PGWHEN_STATEMENT_TIMEOUT",
                default.statement_timeout,
                _seconds,
                "a number of seconds, as 10",
            ),
            log_level=read(
                "PGWHEN_LOG_LEVEL", default.log_level, _level, "debug, info, warning or error"
            ),
        )


def backoff(first: float = 0.1, most: float = 10.0) -> Iterator[float]:
    """Yield the seconds to wait before each next try: doubling, capped, half of it random.

    Random, so that a hundred listeners do not come back to a restarted server in one instant.
    """
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 -- spreads load, keeps no secret
        pause = min(2 * pause, most)


def _switch(text: str) -> bool:
    return _known(text.lower(), {"on": True, "off": False})


def _level(text: str) -> str:
    return _known(text.lower(), {name: name.upper() for name in LEVELS})


def _known(text: str, values: Mapping[str, T]) -> T:
    if text not in values:
        raise ValueError(text)
    return values[text]


def _seconds(text: str) -> float:
    return _sensible(float(text))


def _count(text: str) -> int:
    return _sensible(int(text))


def _sensible(number: N) -> N:
    if not 0 < number < 1e9:  # noqa: PLR2004 -- thirty years; refuses nan and inf too
        raise ValueError(number)
    return number
