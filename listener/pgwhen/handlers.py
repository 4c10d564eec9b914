"""Handlers: declared by a decorator, all called the same way.

A function becomes a handler by `@action("name")`. The decorator returns the function itself: it can
be called, and tested, as before.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import HandlerError
from .retry import Retry
from .timeouts import Timeouts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta
    from typing import TypeVar

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
    #: Asks the far side what became of an earlier attempt.
    check: Callable[..., Any] | None = None
    threaded: bool = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what could not be called."""
        object.__setattr__(self, "threaded", not inspect.iscoroutinefunction(self.function))
        wanted = ("batch",) if self.batch else ("ctx", "config")
        if not self.name or not isinstance(self.name, str):
            raise HandlerError("an action type needs a name", hint='Write @action("some_name").')
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise HandlerError(
                f"@action({self.name!r}): {self.where} is a generator, and would never run",
                hint="Return what it yields.",
            )
        if self.batch is not None and not (isinstance(self.batch, int) and self.batch > 0):
            raise HandlerError(
                f"@action({self.name!r}): batch is {self.batch!r}",
                hint="Give the most actions that one call takes, or leave batch out.",
            )
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise HandlerError(
                f"@action({self.name!r}): retry is {self.retry!r}",
                hint="Write retry=Retry(maximum_attempts=5), say.",
            )
        self._refuse_uncallable(self.function, wanted)
        if self.check is not None:
            self._refuse_check(self.check)
            self._refuse_uncallable(self.check, wanted)
        if self.batch and self.timeouts and self.timeouts.heartbeat is not None:
            raise HandlerError(
                f"@action({self.name!r}): heartbeat goes with handlers of single actions",
                hint="Leave heartbeat out, or batch.",
            )

    @property
    def where(self) -> str:
        """The function's place, as people would look it up."""
        return _place(self.function)

    @property
    def options(self) -> dict[str, Any]:
        """What the database is told of the handler."""
        batch = {"batch": self.batch} if self.batch else {}
        send = {"send": True} if self.send else {}
        retry = {"retryPolicy": self.retry.policy} if self.retry else {}
        seconds = self.timeouts.seconds if self.timeouts else {}
        check = {"check": True} if self.check else {}
        timeouts = {"timeouts": seconds} if seconds else {}
        return {**batch, **send, **retry, **timeouts, **check}

    def _refuse_check(self, check: Callable[..., Any]) -> None:
        if self.batch:
            raise HandlerError(
                f"@action({self.name!r}): check goes with handlers of single actions",
                hint="Leave batch out, or ask the far side in the handler itself.",
            )
        if inspect.iscoroutinefunction(check) == self.threaded:
            raise HandlerError(
                f"@action({self.name!r}): the handler and its check are not of one kind",
                hint="Declare both with async, or both without.",
            )

    def _refuse_uncallable(self, function: Callable[..., Any], wanted: Sequence[str]) -> None:
        try:
            inspect.signature(function).bind(*wanted)
        except TypeError as exc:
            raise HandlerError(
                f"@action({self.name!r}): {_place(function)} cannot be called: {exc}",
                hint=f"What is declared like this is called with ({', '.join(wanted)}).",
            ) from exc


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
    heartbeat: float | timedelta | None = None,
    check: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Declare a function as the handler of action type *name*.

    Without *batch* it is called as `function(ctx, config)` for each action and returns any JSON
    value or None. With *batch* it is called as `function(batch)` for up to so many actions of one
    account and returns a list of `Result`, one for each. It may be `async` or not; one that is not
    runs in a thread. *config_schema*, a JSON Schema, is what rules' action_config must fit.
    With *send*, pending actions for users who are no friends any more are cancelled. *retry* says
    how often, and when, a failed one is tried again, where the action's rule does not;
    *start_to_close*, *schedule_to_close* and *schedule_to_start*, in seconds or as a timedelta, how
    long an attempt may run, all attempts may take, and the action may wait for a worker;
    *heartbeat* how long it may be silent: it must call `ctx.heartbeat()` more often.

    *check* is called as `check(ctx, config)` before an attempt that follows one of unknown outcome.
    What it finds, any JSON value, is the action's result, and the function is not called; None
    says that there is nothing, `Unknown`, raised or returned, that a person must look.

    Raises HandlerError if the function, or *check*, cannot be called so.
    """
    if callable(name):
        raise HandlerError(
            f"@action above {_place(name)} has no name", hint='Write @action("some_name").'
        )

    def declare(function: F) -> F:
        timeouts = Timeouts(start_to_close, schedule_to_close, schedule_to_start, heartbeat)
        handler = Handler(name, function, batch, config_schema, send, retry, timeouts, check)
        setattr(function, MARK, (*getattr(function, MARK, ()), handler))
        return function

    return declare


def _place(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", repr(function))
    return f"{function.__module__}.{name}"
