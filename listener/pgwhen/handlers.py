"""Handlers: declared by a decorator, all called the same way.

A function becomes a handler by `@action("name")`. The decorator returns the function itself: it can
be called, and tested, as before.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import HandlerError
from .timeouts import Timeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import TypeVar

    from .retry import Retry

    F = TypeVar("F", bound=Callable[..., Any])

MARK = "__pgwhen_actions__"


@dataclass(frozen=True)
class Handler:
    """A function that does the actions of one type."""

    name: str
    function: Callable[..., Any]
    #: The most actions that one call takes; None for a handler of single actions.
    batch: int | None
    config_schema: Mapping[str, Any] | None
    #: Whether its actions reach the user only while they are a friend.
    send: bool = False
    retry: Retry | None = None
    timeouts: Timeouts | None = None
    threaded: bool = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what could not be called."""
        object.__setattr__(self, "threaded", not inspect.iscoroutinefunction(self.function))
        wanted = ("batch",) if self.batch else ("ctx", "config")
        if not self.name:
            raise HandlerError("an action type needs a name", hint='Write @action("some_name").')
        if self.batch is not None and self.batch < 1:
            raise HandlerError(
                f"@action({self.name!r}): batch is {self.batch}",
                hint="Give the most actions that one call takes, or leave batch out.",
            )
        try:
            inspect.signature(self.function).bind(*wanted)
        except TypeError as exc:
            raise HandlerError(
                f"@action({self.name!r}): {self.where} cannot be called: {exc}",
                hint=f"A handler declared like this is called with ({', '.join(wanted)}).",
            ) from exc

    @property
    def where(self) -> str:
        """The function's place, as people would look it up."""
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"{self.function.__module__}.{name}"

    @property
    def options(self) -> dict[str, Any]:
        """What the database is told of the handler."""
        batch = {"batch": self.batch} if self.batch else {}
        send = {"send": True} if self.send else {}
        retry = {"retryPolicy": self.retry.policy} if self.retry else {}
        seconds = self.timeouts.seconds if self.timeouts else {}
        return {**batch, **send, **retry, **({"timeouts": seconds} if seconds else {})}


def action(  # noqa: PLR0913 -- options, given by name
    name: str,
    *,
    batch: int | None = None,
    config_schema: Mapping[str, Any] | None = None,
    send: bool = False,
    retry: Retry | None = None,
    start_to_close: float | timedelta | None = None,
    schedule_to_close: float | timedelta | None = None,
    schedule_to_start: float | timedelta | None = None,
) -> Callable[[F], F]:
    """Declare a function as the handler of action type *name*.

    Without *batch* it is called as `function(ctx, config)` for each action and returns any JSON
    value or None. With *batch* it is called as `function(batch)` for up to so many actions of one
    account and returns a list of `Result`, one for each. It may be `async` or not; one that is not
    runs in a thread. *config_schema*, a JSON Schema, is what rules' action_config must fit.
    With *send*, pending actions for users who are no friends any more are cancelled. *retry* says
    how often, and when, a failed one is tried again, where the action's rule does not;
    *start_to_close*, *schedule_to_close* and *schedule_to_start*, in seconds or as a timedelta, how
    long an attempt may run, all attempts may take, and the action may wait for a worker.

    Raises HandlerError if the function cannot be called so.
    """

    def declare(function: F) -> F:
        timeouts = Timeouts(start_to_close, schedule_to_close, schedule_to_start)
        handler = Handler(name, function, batch, config_schema, send, retry, timeouts)
        setattr(function, MARK, (*getattr(function, MARK, ()), handler))
        return function

    return declare
