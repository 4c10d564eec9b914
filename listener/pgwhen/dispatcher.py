"""Hand claims to handlers, within bounds of number and time.

Every claim that comes in leaves as one outcome: done, failed, or released if it never started.
At the deadline an attempt is failed, and an `async` handler cancelled. A thread cannot be stopped:
it keeps its place until it returns, and what it returns then is dropped. When nothing but such
threads is left, `room` raises StuckError rather than wait for ever.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from .attempt import Attempt
from .errors import ActionError, StuckError
from .settler import Settler
from .vault import Vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from .claim import Claim
    from .database import Database
    from .handlers import Handler
    from .outcome import Outcome
    from .settings import Settings

log = logging.getLogger(__name__)

#: Seconds that a cancelled handler has to give way before it counts as stuck.
LAST_RESORT = 2.0
#: The part of its time that an attempt may wait for a thread before it is given back.
PATIENCE = 0.5


class Dispatcher:
    """The attempts that run. *on_room* is called when there is room again after there was none."""

    def __init__(
        self,
        settings: Settings,
        handlers: Mapping[str, Handler],
        database: Database,
        on_room: Callable[[], None],
    ) -> None:
        self.settler = Settler(database, self)
        self.more_due = False
        self._settings = settings
        self._handlers = handlers
        self._vault = Vault(database, settings.secrets_dir)
        self._on_room = on_room
        self._executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="handler")
        self._threads = asyncio.Semaphore(settings.threads)
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        self._actions = 0
        self._full = False
        self._stuck: set[Attempt] = set()
        self._stopped = False

    def room(self) -> int:
        """Return how many more actions may be claimed. Raises StuckError if that can never be."""
        if self._stuck:
            self._check_stuck()
        self._full = self._full or self._room() == 0
        return self._room()

    def action_types(self) -> list[str]:
        """Return the types that could start now: those without `async` want a free thread."""
        if not self._threads.locked():
            return list(self._handlers)
        self._full = True
        return [name for name, handler in self._handlers.items() if not handler.threaded]

    def wanted(self) -> list[str]:
        """Return of which types there is more to claim in place of what has ended."""
        return self.action_types() if self.more_due and not self._stopped else []

    def start(self, claims: Sequence[Claim]) -> None:
        """Start an attempt at each claim, or release all if the dispatcher is stopped."""
        for attempt in self._attempts(claims):
            if self._stopped:
                self._end(attempt, attempt.released())
                continue
            self._actions += len(attempt.claims)
            task = asyncio.create_task(self._run(attempt))
            self._tasks[attempt] = task
            task.add_done_callback(partial(self._gone, attempt))

    async def drain(self, grace: float) -> bool:
        """End all: what has not started at once, the rest within *grace* seconds or as failed.

        Returns whether all handlers have ended. Only the first call waits.
        """
        if self._stopped:
            return not self._tasks
        self._stopped = True
        for attempt in list(self._tasks):
            if not attempt.started:
                self._give_back(attempt)
        await self._ended(grace)
        error = ActionError("the listener was stopped before the handler ended", type="Stopped")
        for attempt in list(self._tasks):
            self._cut(attempt, error)
        await self._ended(LAST_RESORT)
        self._executor.shutdown(wait=False)
        return not self._tasks

    async def _run(self, attempt: Attempt) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + attempt.seconds
        if not attempt.handler.threaded:
            await self._finish(attempt, deadline)
            return
        patience = loop.call_later(attempt.seconds * PATIENCE, self._give_back, attempt)
        try:
            await self._threads.acquire()
        finally:
            patience.cancel()
        try:
            await self._finish(attempt, deadline)
        finally:
            self._threads.release()

    async def _finish(self, attempt: Attempt, deadline: float) -> None:
        timer = asyncio.get_running_loop().call_at(deadline, self._time_out, attempt)
        outcomes = await attempt.run(self._executor)
        timer.cancel()
        self._end(attempt, outcomes)

    def _gone(self, attempt: Attempt, _: asyncio.Task[None]) -> None:
        del self._tasks[attempt]
        self._stuck.discard(attempt)
        self._actions -= len(attempt.claims)
        self.freed()

    def _room(self) -> int:
        return max(0, self._settings.max_in_flight - self._actions - len(self.settler))

    def freed(self) -> None:
        """Say so, if there is room again that somebody asked for."""
        if self._full and self._room():
            self._full = False
            self._on_room()

    def _give_back(self, attempt: Attempt) -> None:
        self._end(attempt, attempt.released())
        self._tasks[attempt].cancel()

    def _time_out(self, attempt: Attempt) -> None:
        self._cut(
            attempt, ActionError("the handler ran past its deadline", type="Timeout:StartToClose")
        )

    def _cut(self, attempt: Attempt, error: ActionError) -> None:
        """Fail what still runs, and stop it if it can be stopped."""
        if not attempt.over:
            self._end(attempt, attempt.failed(error))
        if not attempt.handler.threaded:
            self._tasks[attempt].cancel()
        asyncio.get_running_loop().call_later(LAST_RESORT, self._suspect, attempt)

    def _suspect(self, attempt: Attempt) -> None:
        if attempt in self._tasks:
            log.error(
                "a handler goes on after its deadline and keeps its place",
                extra={"fields": {"handler": attempt.handler.where}},
            )
            self._stuck.add(attempt)

    def _check_stuck(self) -> None:
        threads = sum(attempt.handler.threaded for attempt in self._stuck)
        actions = sum(len(attempt.claims) for attempt in self._stuck)
        if threads >= self._settings.threads or actions >= self._settings.max_in_flight:
            raise StuckError(
                f"{len(self._stuck)} handlers ran past their deadlines and leave no room",
                hint="Give what they wait for a timeout shorter than the deadline.",
            )

    def _end(self, attempt: Attempt, outcomes: Iterable[Outcome]) -> None:
        if not attempt.over:
            attempt.over = True
            for outcome in outcomes:
                self.settler.add(outcome)

    async def _ended(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    def _attempts(self, claims: Sequence[Claim]) -> Iterator[Attempt]:
        kind = attrgetter("context.action_type", "context.line_oa_id")
        for (name, _), group in groupby(sorted(claims, key=kind), key=kind):
            handler, members = self._handlers[name], list(group)
            size = handler.batch or 1
            for first in range(0, len(members), size):
                yield Attempt(handler, members[first : first + size], self._vault)
