"""One call of a handler, and the outcome of each action in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from .context import Batch, Result
from .errors import ActionError
from .outcome import Done, Failed, Released, error_text, json_text, place

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from .claim import Claim
    from .handlers import Handler
    from .outcome import Outcome
    from .vault import Vault

log = logging.getLogger(__name__)


class Attempt:
    """The claims of one call: one action, or a batch of one type and account."""

    def __init__(self, handler: Handler, claims: Sequence[Claim], vault: Vault) -> None:
        self.handler = handler
        self.claims = claims
        self._vault = vault
        #: What is left until the first of their deadlines, from now.
        self.seconds = min(claim.seconds for claim in claims)
        self.started = False
        #: Whether its outcomes are out. What the handler does afterwards does not count.
        self.over = False

    async def run(self, executor: Executor) -> list[Outcome]:
        """Call the handler and return what became of each action, unless that is known already.

        Raises nothing.
        """
        self.started = True
        claims = self.claims
        lacking: list[tuple[Claim, ActionError]] = []
        try:
            claims, lacking = await self._vault.opened(claims)
            results = await self._call(executor, claims) if claims else []
        except BaseException as exc:  # noqa: BLE001 -- SystemExit in a handler ends its action only
            results = [Result(error=exc)] * len(claims)
        if self.over:
            return []
        return [
            *(_outcome(claim, Result(error=error)) for claim, error in lacking),
            *(_outcome(claim, result) for claim, result in zip(claims, results, strict=True)),
        ]

    def failed(self, error: BaseException) -> list[Outcome]:
        """Return *error* as the outcome of all."""
        return [_outcome(claim, Result(error=error)) for claim in self.claims]

    def released(self) -> list[Outcome]:
        """Return the outcomes of what never started."""
        return [Released(claim.context.action_id, claim.token) for claim in self.claims]

    async def _call(self, executor: Executor, claims: Sequence[Claim]) -> Sequence[Result]:
        pairs = tuple((claim.context, claim.config) for claim in claims)
        first = pairs[0][0]
        given: tuple[Any, ...] = pairs[0]
        if self.handler.batch is not None:
            given = (Batch(first.action_type, first.line_oa_id, pairs),)
        if self.handler.threaded:
            answer = await _in_thread(executor, self.handler.function, given)
        else:
            answer = Result(await self.handler.function(*given))
        return self._results(answer, len(claims))

    def _results(self, answer: Result, wanted: int) -> Sequence[Result]:
        """Return a result for each claim.

        A wrong answer is not retryable: the handler did its work, and would do it again.
        """
        value = answer.value
        if self.handler.batch is None or answer.error is not None:
            return [answer] * wanted
        if not isinstance(value, Sequence):
            got = type(value).__name__
        elif not all(isinstance(result, Result) for result in value):
            got = "a list of other things"
        elif len(value) != wanted:
            got = f"{len(value)} results"
        else:
            return value
        raise ActionError(
            f"the handler returned {got}, not a list of {wanted} Result, one for each action",
            type="WrongResults",
            non_retryable=True,
        )


async def _in_thread(
    executor: Executor, function: Callable[..., Any], given: tuple[Any, ...]
) -> Result:
    """Call *function* in a thread. Carries over what it raises: a future refuses StopIteration."""

    def call() -> Result:
        try:
            return Result(function(*given))
        except BaseException as exc:  # noqa: BLE001 -- as in Attempt.run
            return Result(error=exc)

    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(executor, copy_context().run, call)


def _outcome(claim: Claim, result: Result) -> Outcome:
    context = claim.context
    error = result.error
    if error is None:
        try:
            value = None if result.value is None else json_text(result.value)
        except ActionError as exc:
            error = exc
        else:
            if log.isEnabledFor(logging.DEBUG):
                log.debug("action done", extra={"fields": _fields(claim)})
            return Done(context.action_id, claim.token, value)
    # No message here: it may hold what a customer wrote. It is in the action's row.
    log.warning(
        "action failed",
        extra={"fields": {**_fields(claim), "error": type(error).__name__, "at": place(error)}},
        exc_info=error if log.isEnabledFor(logging.DEBUG) else None,
    )
    return Failed(context.action_id, claim.token, error_text(error))


def _fields(claim: Claim) -> dict[str, Any]:
    context = claim.context
    return {"action": context.action_id, "type": context.action_type, "attempt": context.attempt}
