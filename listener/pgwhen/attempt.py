"""Attempts: one call of a handler each, and the outcome of each action in it."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from .call import Raised, call_handler
from .context import Result
from .errors import Cancelled, UnfitError
from .kept import json_text
from .lifeline import NONE, Lifeline
from .outcome import STALE, Done, Failed, Released, error_text, leading, place, type_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from uuid import UUID

    from .claim import Claim
    from .errors import ActionError
    from .handlers import Handler
    from .lifeline import Tools
    from .outcome import Outcome

log = logging.getLogger(__name__)

#: What a heartbeat is told that comes after the handler has returned.
ENDED = "claim_lost"


class Attempt:
    """The claims of one call: one action, or a batch of one type and account."""

    def __init__(self, handler: Handler, claims: Sequence[Claim], tools: Tools) -> None:
        self.handler = handler
        self.claims = claims
        self._tools = tools
        self._line: Lifeline | None = None
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
        line = self._line = Lifeline(claims, self._tools, in_loop=not self.handler.threaded)
        lacking: list[tuple[Claim, ActionError]] = []
        try:
            claims, lacking = await self._tools.vault.opened(claims)
            if lacking and claims and claims[0].keeps_batch:
                claims, lacking = [], [(claim, lacking[0][1]) for claim in self.claims]
            results = await call_handler(self.handler, executor, claims) if claims else []
        except BaseException as exc:  # noqa: BLE001 -- SystemExit in a handler ends its action only
            results = [Raised(error=exc)] * len(claims)
        told = [(claim, Result(error=error)) for claim, error in lacking]
        told += zip(claims, results, strict=True)
        outcomes = [] if self.over else self._outcomes(told)
        return await self._committed(line, outcomes) if line.has_transaction else outcomes

    def failed(self, error: BaseException, reason: str = ENDED) -> list[Outcome]:
        """Return *error* as the outcome of all; *reason* is told to a handler that still runs."""
        return self._outcomes([(claim, Raised(error=error)) for claim in self.claims], reason)

    def released(self) -> list[Outcome]:
        """Return the outcomes of what never started."""
        return [Released(claim.context.action_id, claim.token) for claim in self.claims]

    def lost(self) -> None:
        """Hear that the claim is no longer this worker's: what the handler does is for nothing."""
        self.over = True
        self.close("claim_lost")

    def close(self, reason: str) -> Mapping[int, str]:
        """Let no heartbeat count from now on; return the details that are untold, by action."""
        return NONE if self._line is None else self._line.close(reason)

    @property
    def patience(self) -> float | None:
        """The seconds that it may be silent, if there is a limit. A batch is never silent."""
        return None if self.handler.batch else self.claims[0].context.heartbeat_timeout

    @property
    def alive_at(self) -> float:
        """When it was last known to live, by the monotonic clock."""
        return math.inf if self._line is None else self._line.alive_at

    def _outcomes(
        self, results: Sequence[tuple[Claim, Result]], reason: str = ENDED
    ) -> list[Outcome]:
        untold = self.close(reason)
        return [_outcome(claim, result, untold) for claim, result in results]

    async def _committed(self, line: Lifeline, outcomes: list[Outcome]) -> list[Outcome]:
        """End the transaction that the handler has, if any; return what is still to be told."""
        outcome = outcomes[0] if outcomes else None
        try:
            held = await line.end(outcome if isinstance(outcome, Done) else None)
        except BaseException as exc:  # noqa: BLE001 -- as in run
            return [] if self.over else self.failed(exc)
        if held is None or not isinstance(outcome, Done):
            return outcomes
        if not held:
            log.warning(STALE, extra={"fields": _fields(self.claims[0])})
        return []


def _outcome(claim: Claim, result: Result, untold: Mapping[int, str]) -> Outcome:
    context = claim.context
    error = result.error
    if error is None:
        try:
            value = None if result.value is None else json_text(result.value)
        except UnfitError as exc:
            error = exc
        else:
            if log.isEnabledFor(logging.DEBUG):
                log.debug("action done", extra={"fields": _fields(claim)})
            return Done(context.action_id, claim.token, value)
    named = leading(error)
    if isinstance(named, Cancelled):
        log.info("action stopped", extra={"fields": {**_fields(claim), "why": named.reason}})
    else:
        # No message here: it may hold what a customer wrote. It is in the action's row.
        log.warning(
            "action failed",
            extra={"fields": {**_fields(claim), "error": type_of(named), "at": place(named)}},
            exc_info=error if log.isEnabledFor(logging.DEBUG) else None,
        )
    details = untold.get(context.action_id)
    unknown = isinstance(result, Raised) and claim.batch_id is not None
    return Failed(context.action_id, claim.token, error_text(error, details, unknown=unknown))


def _fields(claim: Claim) -> dict[str, Any]:
    context = claim.context
    return {"action": context.action_id, "type": context.action_type, "attempt": context.attempt}


def attempts(
    handlers: Mapping[str, Handler], claims: Sequence[Claim], tools: Tools
) -> Iterator[Attempt]:
    """Share *claims* out among attempts: those of one batch_id together, what has none alone."""
    calls: dict[UUID | str, list[Claim]] = {}
    for claim in claims:
        batch_id = claim.batch_id if handlers[claim.context.action_type].batch else None
        calls.setdefault(batch_id or claim.token, []).append(claim)
    for members in calls.values():
        yield Attempt(handlers[members[0].context.action_type], members, tools)
