"""What a handler is given, and what a batch handler gives back."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from .jsonb import loads
from .kept import details_text, hash_of

if TYPE_CHECKING:
    from collections.abc import Generator
    from datetime import datetime

    Log = logging.LoggerAdapter[logging.Logger]

Config = dict[str, Any]

#: Of heartbeat details: what was told before stays.
KEEP: Any = object()


class Lifeline(Protocol):
    """What ties an attempt to the worker that runs it, or to a test."""

    def cancel_requested(self, context: Context) -> bool:
        """Whether somebody is known to have asked for a cancel."""

    def beat(self, context: Context, details: str | None) -> None:
        """Say that the attempt lives. Raises Cancelled where it should stop."""

    def keep_body(self, key: str, body_hash: bytes) -> Any:
        """Return *key*, or an awaitable of it. Raises KeyReused."""

    def connection(self) -> Any:
        """Return a connection, or an awaitable of it."""


class Told:
    """What `ctx.heartbeat()` gives back: an `async` handler awaits it, which lets others run."""

    def __await__(self) -> Generator[None, None, None]:
        """Give way once."""
        yield


@dataclass(frozen=True)
class Context:
    """One attempt at one action."""

    action_id: int
    action_type: str
    #: The number of the try, from 1.
    attempt: int
    user_id: str
    line_oa_id: str
    organization_id: str
    #: The id of the rule that made the action; None if it was made by hand.
    rule: int | None
    #: The event, or the JSON text of it.
    event_or_text: dict[str, Any] | str | None
    #: Where in its workflow the action stands; None outside of workflows.
    workflow_path: tuple[str, ...] | None
    #: Until when this attempt may run, by the database's clock.
    deadline: datetime
    #: The same at every attempt. Hand it to whatever must not do the same thing twice.
    idempotency_key: str
    #: What earlier attempts recorded of their progress.
    heartbeat_details: Any = None
    #: Whether an earlier attempt may have carried the action out.
    maybe_done: bool = False
    #: How many seconds may pass between two heartbeats; None if none need come.
    heartbeat_timeout: float | None = None
    lifeline: Lifeline | None = field(default=None, repr=False, compare=False)

    def attach(self, lifeline: Lifeline) -> None:
        """Tie the attempt to who runs it. For workers and tests, not for handlers."""
        object.__setattr__(self, "lifeline", lifeline)

    @cached_property
    def event(self) -> dict[str, Any] | None:
        """The event that made it: type, key, old, new, data, at; those it has."""
        given = self.event_or_text
        event: dict[str, Any] | None = loads(given) if isinstance(given, str) else given
        return event

    @property
    def idempotency_uuid(self) -> UUID:
        """The key as the UUID that it is."""
        return UUID(self.idempotency_key)

    @property
    def tracking_id(self) -> str:
        """What a click carries that came from what this action sends; see docs/delays.md."""
        return self.idempotency_uuid.hex

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody has asked to cancel the action, as far as heartbeats have told."""
        return self.line.cancel_requested(self)

    def heartbeat(self, details: Any = KEEP) -> Told:
        """Say that the handler lives, and how far it is: `await` it, except in a thread.

        *details*, any JSON value up to 64 KiB, are the next attempt's `heartbeat_details` should
        this one end; without them the last ones stay. Cheap enough for every turn of a loop: it is
        told to the database now and then. Raises Cancelled where the handler should stop,
        UnfitError, which parks the action, for details that cannot be kept.
        """
        self.line.beat(self, None if details is KEEP else details_text(details))
        return Told()

    def key_for(self, body: bytes | str | Any) -> Any:
        """Return `idempotency_key` for a request with *body*: `await` it, except in a thread.

        The hash of *body* (bytes, a text, or any JSON value, whose keys may be in any order) is
        kept with the key. Raises KeyReused where the key has gone out with another body: the far
        side would take the one for the other, or refuse it.
        """
        return self.line.keep_body(self.idempotency_key, hash_of(body))

    def connection(self) -> Any:
        """Return a psycopg connection whose transaction commits together with the completion.

        An `async` handler awaits it and gets an AsyncConnection, a thread gets a Connection. What
        is written there and the end of the action are one: both are there, or neither. Where the
        handler raises, or its claim is lost, it is rolled back. It is closed with the attempt.
        `async` handlers wait for their turn at PGWHEN_POOL_SIZE of them, as long as the attempt
        may run. Raises Cancelled once the attempt is over, ActionError in a batch.
        """
        return self.line.connection()

    @property
    def line(self) -> Lifeline:
        """What ties it to who runs it: for `Batch`, not for handlers."""
        if self.lifeline is None:
            raise RuntimeError("no worker runs this attempt: in tests, use pgwhen.testing.run()")
        return self.lifeline

    @property
    def logger(self) -> Log:
        """A logger that names the action, its rule, user and account in every line."""
        return logger_of(
            self.action_type, action=self.action_id, attempt=self.attempt, rule=self.rule,
            user=self.user_id, line_oa_id=self.line_oa_id, key=self.idempotency_key,
        )  # fmt: skip


@dataclass(frozen=True)
class Result:
    """How one action of a batch ended: done with *value* (any JSON), or failed with *error*."""

    value: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        """Refuse a text as error: it would have no type, and no say in whether to retry."""
        if self.error is not None and not isinstance(self.error, BaseException):
            raise TypeError(f"error must be an exception, as ActionError, not {self.error!r}")


def logger_of(action_type: str, **fields: Any) -> Log:
    """Return the logger of *action_type*, which adds *fields* to every line."""
    return logging.LoggerAdapter(
        logging.getLogger(f"pgwhen.action.{action_type}"), {"fields": fields}
    )
