"""Hand claims to handlers, within bounds of number and time.

Every claim that comes in leaves as one outcome: done, failed, or released if it never started.
At the deadline an attempt is failed, and an `async` handler cancelled. A thread cannot be stopped:
it keeps its place until it returns, and what it returns then is dropped. When nothing but such
threads is left, `room` raises StuckError rather than wait for ever.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from .attempt import attempts
from .errors import ActionError
from .settler import Settler
from .stuck import Stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .attempt import Attempt
    from .claim import Claim
    from .handlers import Handler
    from .lifeline import Tools
    from .outcome import Outcome
    from .settings import Settings

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
        tools: Tools,
        on_room: Callable[[], None],
    ) -> None:
        self.settler = Settler(tools.database, self)
        self.more_due = False
        self._settings = settings
        self._handlers = handlers
        self._tools = tools
        self._on_room = on_room
        self._executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="handler")
        self._threads = asyncio.Semaphore(settings.threads)
        self._tasks: dict[Attempt, asyncio.Task[None]] = {}
        self._actions = 0
        self._full = False
        self._stuck = Stuck(settings)
        self._stopped = False

    def room(self) -> int:
        """Return how many more actions may be claimed. Raises StuckError if that can never be."""
        self._stuck.check()
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
        for attempt in attempts(self._handlers, claims, self._tools):
            if self._stopped:
                self._end(attempt, attempt.released())
                continue
            self._actions += len(attempt.claims)
            task = asyncio.create_task(self._run(attempt))
            self._tasks[attempt] = task
            task.add_done_callback(partial(self._gone, attempt))

    def lost(self, claim: Claim) -> None:
        """Stop the attempt at *claim*, which is no longer this worker's; of a batch all go on."""
        for attempt in self._tasks:
            if attempt.claims == [claim] and attempt.handler.batch is None and not attempt.over:
                attempt.lost()
                self._stop(attempt)
                break

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
            self._cut(attempt, error, "worker_shutdown")
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
        listening = None
        if attempt.patience is not None:
            listening = asyncio.create_task(self._listen(attempt, attempt.patience))
        outcomes = await attempt.run(self._executor)
        timer.cancel()
        if listening is not None:
            listening.cancel()
        self._end(attempt, outcomes)

    async def _listen(self, attempt: Attempt, patience: float) -> None:
        """Time the attempt out when it has been silent for so many seconds."""
        left = patience
        while left > 0:
            await asyncio.sleep(left)
            left = attempt.alive_at + patience - time.monotonic()
        error = ActionError(f"no heartbeat for {patience:g} s", type="Timeout:Heartbeat")
        self._cut(attempt, error, "timed_out")

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
        error = ActionError("the handler ran past its deadline", type="Timeout:StartToClose")
        self._cut(attempt, error, "timed_out")

    def _cut(self, attempt: Attempt, error: ActionError, reason: str) -> None:
        """Fail what still runs, and stop it if it can be stopped."""
        if not attempt.over:
            self._end(attempt, attempt.failed(error, reason))
        self._stop(attempt)

    def _stop(self, attempt: Attempt) -> None:
        if not attempt.handler.threaded:
            self._tasks[attempt].cancel()
        asyncio.get_running_loop().call_later(LAST_RESORT, self._suspect, attempt)

    def _suspect(self, attempt: Attempt) -> None:
        if attempt in self._tasks:
            self._stuck.add(attempt)

    def _end(self, attempt: Attempt, outcomes: Iterable[Outcome]) -> None:
        if not attempt.over:
            attempt.over = True
            for outcome in outcomes:
                self.settler.add(outcome)

    async def _ended(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)
