"""How a handler is called, in the loop or in a thread, and what it may give back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .claim import batch_of
from .context import Result
from .errors import Unknown, WrongResults

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from .claim import Claim
    from .handlers import Handler


@dataclass(frozen=True)
class Raised(Result):
    """What a call raised, or was cut off by: of a batch nobody knows then what took effect."""


async def call_handler(
    handler: Handler, executor: Executor, claims: Sequence[Claim]
) -> Sequence[Result]:
    """Call *handler* and return a result for each claim. Raises what it raises."""
    first = claims[0].context
    given: tuple[Any, ...] = (first, claims[0].config)
    if handler.batch is not None:
        given = (batch_of(claims),)
    found = await _found(handler, executor, given) if first.maybe_done else None
    answer = found or await _call(handler, handler.function, executor, given)
    return _results(handler, answer, len(claims))


async def _found(handler: Handler, executor: Executor, given: tuple[Any, ...]) -> Result | None:
    """Ask the handler's check, if it has one, what became of an earlier attempt."""
    if handler.check is None:
        return None
    answer = await _call(handler, handler.check, executor, given)
    if isinstance(answer.value, Unknown):
        return Result(error=answer.value)
    return None if answer == Result() else answer


async def _call(
    handler: Handler, function: Callable[..., Any], executor: Executor, given: tuple[Any, ...]
) -> Result:
    if handler.threaded:
        return await _in_thread(executor, function, given)
    return Result(await function(*given))


def _results(handler: Handler, answer: Result, wanted: int) -> Sequence[Result]:
    """Return a result for each claim.

    A wrong answer is not retryable: the handler did its work, and would do it again.
    """
    value = answer.value
    if handler.batch is None or answer.error is not None:
        return [answer] * wanted
    if not isinstance(value, Sequence):
        got = type(value).__name__
    elif not all(isinstance(result, Result) for result in value):
        got = "a list of other things"
    elif len(value) != wanted:
        got = f"{len(value)} results"
    else:
        return value
    raise WrongResults(
        f"the handler returned {got}, not a list of {wanted} Result, one for each action"
    )


async def _in_thread(
    executor: Executor, function: Callable[..., Any], given: tuple[Any, ...]
) -> Result:
    """Call *function* in a thread. Carries over what it raises: a future refuses StopIteration."""

    def call() -> Result:
        try:
            return Result(function(*given))
        except BaseException as exc:  # noqa: BLE001 -- it ends its action only
            return Raised(error=exc)

    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, copy_context().run, call)
