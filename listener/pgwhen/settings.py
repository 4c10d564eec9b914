"""What can be set, from the environment: libpq's PG* variables, and PGWHEN_… for the rest."""

from __future__ import annotations

import os
import random
import secrets
import socket
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeVar

    N = TypeVar("N", int, float)


def _one_of(text: str, values: Mapping[str, Any]) -> Any:
    if text not in values:
        raise ValueError(text)
    return values[text]


def _sensible(number: N) -> N:
    if not 0 < number < 1e9:  # noqa: PLR2004 -- thirty years; refuses nan and inf too
        raise ValueError(number)
    return number


class _Kind(NamedTuple):
    """How a setting is read, raising ValueError, and what it may hold, in words."""

    read: Callable[[str], Any]
    wanted: str


TEXT = _Kind(str, "a text")
SECONDS = _Kind(lambda text: _sensible(float(text)), "a number of seconds, as 0.5")
COUNT = _Kind(lambda text: _sensible(int(text)), "a number from 1")
SWITCH = _Kind(partial(_one_of, values={"on": True, "off": False}), "on or off")
LEVELS = {level.lower(): level for level in ("DEBUG", "INFO", "WARNING", "ERROR")}
LEVEL = _Kind(partial(_one_of, values=LEVELS), "debug, info, warning or error")


def _worker_name() -> str:
    """Return a name that no other process has, now or after a restart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def _set_by(kind: _Kind, default: Any) -> Any:
    return field(default=default, metadata={"kind": kind})


@dataclass(frozen=True)
class Settings:
    """The listener's settings, each read from PGWHEN_ and its name in capitals.

    Times are in seconds.
    """

    #: A libpq connection string; what it leaves out comes from the PG* variables.
    dsn: str = _set_by(TEXT, "")
    #: Where `dsn` leads to a pooler: a way around it, for LISTEN. Without it, `dsn` serves.
    listen_dsn: str = _set_by(TEXT, "")
    #: `dsn` leads to a transaction pooler, so nothing may be kept in a session.
    pooler: bool = _set_by(SWITCH, default=False)
    #: Look every so many seconds instead of listening.
    poll: float | None = _set_by(SECONDS, None)
    #: The name under which this process claims.
    worker: str = field(default_factory=_worker_name, metadata={"kind": TEXT})
    #: Connections for work, two at least: one is for events alone. One more listens.
    pool_size: int = _set_by(COUNT, 4)
    #: Actions that are claimed and not yet acknowledged.
    max_in_flight: int = _set_by(COUNT, 1000)
    #: Handlers declared without `async` that run at one time.
    threads: int = _set_by(COUNT, 32)
    #: How long running handlers may go on after SIGTERM.
    grace: float = _set_by(SECONDS, 30.0)
    #: For one call to the database. With more, a half-open connection may go unnoticed for longer.
    statement_timeout: float = _set_by(SECONDS, 10.0)
    log_level: str = _set_by(LEVEL, "INFO")
    #: A directory with a file for each secret, named like it; see docs/secrets.md.
    secrets_dir: str = _set_by(TEXT, "")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings. Raises SettingsError, naming the variable and what it may hold."""
        values: dict[str, Any] = {"listen_dsn": environment.get("PGWHEN_DSN", "")}
        for setting in fields(cls):
            name, kind = f"PGWHEN_{setting.name.upper()}", setting.metadata["kind"]
            if text := environment.get(name):
                try:
                    values[setting.name] = kind.read(text)
                except ValueError:
                    hint = f"Give it {kind.wanted}, or unset it."
                    raise SettingsError(f"{name}={text} cannot be used", hint=hint) from None
        return cls(**values)


def backoff(first: float = 0.1, most: float = 10.0) -> Iterator[float]:
    """Yield the seconds to wait before each next try: doubling, capped, half of it random.

    Random, so that a hundred listeners do not come back to a restarted server in one instant.
    """
    pause = first
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 -- spreads load, keeps no secret
        pause = min(2 * pause, most)
