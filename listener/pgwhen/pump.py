"""The main loop: scan, hand out, and when there is nothing to do, sleep without missing anything.

A scan is one call of process_events, so a woken listener starts a handler after one round trip.
Once the doorbell lock is held it scans once more: what committed before rang for nobody. While
events come one by one it keeps the lock, and that one call is all that an event costs; where a
scan finds more than one, writers are spared the ringing and the listener looks by itself, until
there is nothing left. It never sleeps longer than a second, whatever was lost on the way.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from .errors import CallDiedError, UnavailableError
from .settings import backoff

if TYPE_CHECKING:
    from .database import Database
    from .dispatcher import Dispatcher
    from .settings import Settings
    from .wakeup import Doorbell

log = logging.getLogger(__name__)

#: Seconds: the longest sleep, and the first and longest pause while a writer is about to commit.
SLEEP = 1.0
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.025
#: Actions claimed in one call: while some are claimed, others are handled, and others told.
CLAIMS = 500
#: Seconds after which a stream of events is interrupted to look when something will be due.
LOOK_EVERY = 0.05


class Pump:
    """Keeps events and claims flowing. *time_is_due* is set when a tick should not wait."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        doorbell: Doorbell,
        dispatcher: Dispatcher,
        time_is_due: asyncio.Event,
    ) -> None:
        self._database = database
        self._doorbell = doorbell
        self._dispatcher = dispatcher
        self._time_is_due = time_is_due
        self._sleep = settings.poll or SLEEP
        self._pause = FIRST_PAUSE
        self._suspect = False
        #: Events and due actions that the last scan met.
        self._found = 0
        self._looked_at = 0.0
        #: On the loop's clock; None if nothing is waiting.
        self._due_at: float | None = None
        self._fruitless = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Pump until *stop* is set. A database that is away is waited for."""
        pauses = backoff()
        while not stop.is_set():
            try:
                await self._turn()
                pauses = backoff()
            except UnavailableError as exc:
                pause = next(pauses)
                log.warning("cannot process events, trying again in %.1f s: %s", pause, exc)
                await self._doorbell.wait(pause)
        if self._doorbell.asleep:
            await self._doorbell.wake_up()

    async def _turn(self) -> None:
        again = await self._scan()
        if self._found > 1:  # there may be more in a moment, and to be refused the lock is dear
            if self._doorbell.asleep:
                await self._doorbell.wake_up()
            return
        if again:
            return
        if not self._doorbell.asleep:
            verdict = await self._doorbell.try_sleep()
            if verdict == "writer":
                await self._doorbell.wait(self._pause)
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
                return
            if verdict == "granted" or await self._scan():
                return
        self._pause = FIRST_PAUSE
        await self._doorbell.wait(min(self._sleep, self._until_due()))

    async def _scan(self) -> bool:
        """Process a batch of events, start what it caused and what is due; return whether to go on.

        While events come in a stream, what is due is looked for now and then, or when it is time.
        """
        types = self._dispatcher.action_types()
        looks = not self._found or self._is_due() or _now() > self._looked_at + LOOK_EVERY
        try:
            done = await self._database.process_events(
                types, claim_limit=self._dispatcher.room(), suspect=self._suspect, look_ahead=looks
            )
        except CallDiedError:
            self._suspect = True
            raise
        self._suspect = False
        self._found = done.events
        if done.events:
            self._pause = FIRST_PAUSE
        self._dispatcher.start(done.claims)
        if not looks:  # it may have been rung for something that is due: then look at once
            return done.more or not done.events
        self._looked_at = _now()
        self._due_at = None if done.due_in is None else self._looked_at + done.due_in
        claimed = self._is_due() and await self._claim(types)
        return done.more or claimed

    async def _claim(self, types: list[str]) -> bool:
        """Start what is due; return whether there was any."""
        self._time_is_due.set()
        room = self._dispatcher.room()
        if not types or not room:
            return False
        size = min(room, CLAIMS)
        claims = await self._database.claim_actions(types, size)
        self._dispatcher.more_due = len(claims) == size
        self._dispatcher.start(claims)
        self._found += len(claims)  # what is due keeps a listener awake as events do
        if claims:
            self._fruitless = 0.0
        return bool(claims)

    def _is_due(self) -> bool:
        return self._due_at is not None and self._due_at <= _now()

    def _until_due(self) -> float:
        """Return how long to sleep for what is due next.

        What is due already and could not be had (locked, paused, no room) is tried again soon, but
        less and less often.
        """
        if self._due_at is None:
            return SLEEP
        wait = self._due_at - _now()
        if wait > 0:
            self._fruitless = 0.0
            return wait
        self._fruitless = min(2 * self._fruitless or LONGEST_PAUSE, SLEEP)
        return self._fruitless


def _now() -> float:
    return asyncio.get_running_loop().time()
