"""Acknowledgements: how attempts ended, told to the database in batches.

While one batch is on its way the next one gathers, so a lone action is told at once and a flood
in calls of hundreds, each of which brings as many new claims back. In between, in a steady stream,
one call follows the other after a moment: each takes processor and disk from the starts of the
handlers to come. An outcome is kept until the database has it. One that the database cannot take (a
result beyond what jsonb holds) is told alone, and becomes a failure with words.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

from .connection import patiently
from .errors import RefusedError, UnavailableError
from .outcome import STALE, Done, Failed, Released, error_text, refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TypeVar

    from .claim import Claim
    from .database import Database
    from .outcome import Outcome

    T = TypeVar("T", Done, Failed, Released)
    Verb = Callable[[Sequence[T]], Awaitable[set[int]]]

log = logging.getLogger(__name__)

BATCH = 500
#: Calls at a time where there is much to tell: while one computes the other is on its way.
CALLS = 2
#: A batch of fewer is followed by the next one only after so many seconds.
SMALL = 50
MOMENT = 0.01


class Desk(Protocol):
    """Where the next actions are handed out."""

    #: Whether more is due than has been claimed, as far as the last claim can tell.
    more_due: bool

    def wanted(self) -> list[str]:
        """Return of which types there is more to claim in place of what has ended."""

    def start(self, claims: Sequence[Claim]) -> None:
        """Start an attempt at each claim."""

    def freed(self) -> None:
        """Hear that outcomes have been told."""


class Settler:
    """Gathers outcomes and tells them, with new claims for *desk* in return where it wants some."""

    def __init__(self, database: Database, desk: Desk) -> None:
        self._database = database
        self._desk = desk
        self._waiting: list[Outcome] = []
        self._on_the_way = 0
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def __len__(self) -> int:
        """Return the number of outcomes that the database does not have yet."""
        return len(self._waiting) + self._on_the_way

    def add(self, outcome: Outcome) -> None:
        """Tell *outcome* soon."""
        self._waiting.append(outcome)
        if len(self._waiting) in (1, SMALL):
            self._note_number()

    async def told(self) -> None:
        """Wait until the database has all outcomes."""
        await self._none.wait()

    async def run(self) -> None:
        """Tell outcomes as they come, many by several calls at a time. Runs until cancelled."""
        others = [self._tell_when(self._many) for _ in range(CALLS - 1)]
        await asyncio.gather(self._tell_when(self._some), *others)

    async def _tell_when(self, enough: asyncio.Event) -> None:
        while True:
            await enough.wait()
            if not enough.is_set():  # another call has taken them
                continue
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            self._on_the_way += len(batch)
            self._note_number()
            await self._tell_all(batch)
            self._on_the_way -= len(batch)
            self._note_number()
            self._desk.freed()
            if len(batch) < SMALL:
                await asyncio.sleep(MOMENT)

    def _note_number(self) -> None:
        number = len(self._waiting)
        numbers = {self._some: number > 0, self._many: number >= SMALL, self._none: not len(self)}
        for event, is_so in numbers.items():
            (event.set if is_so else event.clear)()

    async def _tell_all(self, batch: Sequence[Outcome]) -> None:
        database = self._database
        done = [o for o in batch if isinstance(o, Done)]
        types = self._desk.wanted() if len(done) >= SMALL else []
        if not types or not await self._exchange(done, types):
            await self._tell(database.complete_actions, done)
        await self._tell(database.fail_actions, [o for o in batch if isinstance(o, Failed)])
        await self._tell(database.release_actions, [o for o in batch if isinstance(o, Released)])

    async def _exchange(self, done: Sequence[Done], types: list[str]) -> bool:
        """Tell *done* and start as many more; return whether the database could do both."""
        try:
            settled, claims = await self._database.exchange_actions(done, types)
        except UnavailableError as exc:
            log.warning("cannot tell outcomes and claim at once, trying one by one: %s", exc)
            self._desk.more_due = False
            return False
        _note_stale(done, settled)
        self._desk.more_due = len(claims) == len(done)
        self._desk.start(claims)
        return True

    async def _tell(self, verb: Verb[T], outcomes: Sequence[T]) -> None:
        if not outcomes:
            return
        try:
            tell = partial(verb, outcomes)
            settled = await patiently("tell outcomes", tell, but=(RefusedError,))
        except RefusedError as exc:
            await self._tell_apart(verb, outcomes, exc)
        else:
            _note_stale(outcomes, settled)

    async def _tell_apart(self, verb: Verb[T], outcomes: Sequence[T], exc: RefusedError) -> None:
        """Tell one half and the other; the one that is refused alone becomes a failure."""
        outcome, middle = outcomes[0], len(outcomes) // 2
        if middle:
            await self._tell(verb, outcomes[:middle])
            await self._tell(verb, outcomes[middle:])
        elif isinstance(outcome, Done):
            failed = Failed(outcome.action_id, outcome.token, error_text(refusal(exc)))
            await self._tell(self._database.fail_actions, [failed])
        else:
            log.error("outcome refused: %s", exc, extra={"fields": {"action": outcome.action_id}})


def _note_stale(outcomes: Sequence[Outcome], settled: set[int]) -> None:
    for outcome in outcomes:
        if outcome.action_id not in settled:
            log.warning(
                STALE,
                extra={"fields": {"action": outcome.action_id, "outcome": type(outcome).__name__}},
            )
