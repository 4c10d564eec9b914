"""What a handler is given, and what a batch handler gives back."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .jsonb import loads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    Log = logging.LoggerAdapter[logging.Logger]

Config = dict[str, Any]


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
    def logger(self) -> Log:
        """A logger that names the action in every line."""
        return _logger(self.action_type, action=self.action_id, attempt=self.attempt)


@dataclass(frozen=True)
class Batch:
    """Actions of one type and account, for a handler that takes many: pairs of context and config.

    Iterate over it. The handler returns one `Result` for each, in the same order.
    """

    action_type: str
    line_oa_id: str
    items: tuple[tuple[Context, Config], ...]

    def __iter__(self) -> Iterator[tuple[Context, Config]]:
        """Go through the pairs."""
        return iter(self.items)

    def __len__(self) -> int:
        """Return the number of actions."""
        return len(self.items)

    @property
    def logger(self) -> Log:
        """A logger that names the account in every line."""
        return _logger(self.action_type, line_oa_id=self.line_oa_id)


@dataclass(frozen=True)
class Result:
    """How one action of a batch ended: done with *value* (any JSON), or failed with *error*."""

    value: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        """Refuse a text as error: it would have no type, and no say in whether to retry."""
        if self.error is not None and not isinstance(self.error, BaseException):
            raise TypeError(f"error must be an exception, as ActionError, not {self.error!r}")


def _logger(action_type: str, **fields: Any) -> Log:
    return logging.LoggerAdapter(
        logging.getLogger(f"pgwhen.action.{action_type}"), {"fields": fields}
    )
