"""Heartbeats: what running attempts tell of their progress, told by a thread of its own.

The thread has an event loop and a connection of its own, so that a handler that blocks the loop of
the others, or a pool that is busy, delays no heartbeat. The first heartbeat of an attempt goes out
at once, later ones as the latest, after 0.8 of the heartbeat timeout, or half a minute where there
is none. One call tells all that are due, and those that soon will be.

While the others' loop does not turn, its handlers cannot say that they live: the thread says so for
them. A handler that hangs alone gets no such help.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from .connection import call, connect, parameters
from .errors import Cancelled, PgwhenError, RefusedError
from .pulse import WITHOUT
from .settings import backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .claim import Claim
    from .connection import Connection
    from .pulse import Pulse
    from .settings import Settings

log = logging.getLogger(__name__)

#: Seconds after which a loop that has not answered is busy.
BUSY = 0.05
#: Seconds for one call: whatever it waits for, the next one must be in time.
LIMIT = 5.0
#: Heartbeats in one call.
ALL = 10_000
#: Seconds between two tries while the database is away.
PAUSE = 1.0

BEAT = (
    "select held, cancel_requested from pgwhen.heartbeat_actions(%s, %s, %s::uuid[], %s::jsonb[])"
)


class Heart:
    """Beats for all attempts of this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pulses: set[Pulse] = set()
        self._lock = threading.Lock()
        #: When the thread looks again, if nobody wakes it.
        self._looks_at = math.inf
        #: Since when the others' loop owes an answer.
        self._asked_at: float | None = None
        self._at_once = ALL
        self._conn: Connection | None = None
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)

    def start(self, on_lost: Callable[[Claim], None]) -> None:
        """Begin to beat, for handlers of the running loop and of threads.

        *on_lost* hears, in the loop, whose claim is lost.
        """
        self._on_lost = on_lost
        self._others = asyncio.get_running_loop()
        self._own = asyncio.new_event_loop()
        self._bell = asyncio.Event()
        self._thread.start()

    async def stop(self) -> None:
        """Beat no more; what is untold has gone with the failures of the attempts."""
        if not self._thread.is_alive():
            return
        self._stopped = True
        self._own.call_soon_threadsafe(self._bell.set)
        await asyncio.to_thread(self._thread.join)

    def watch(self, pulse: Pulse) -> None:
        """Look after an attempt from now on."""
        with self._lock:
            self._pulses.add(pulse)
            self._look_by(pulse.looks_at(time.monotonic()))

    def forget(self, pulse: Pulse, reason: str) -> str | None:
        """Hear that an attempt is over, and why; return the details that have not been told."""
        with self._lock:
            self._pulses.discard(pulse)
            pulse.verdict = pulse.verdict or reason
            return pulse.details if pulse.beats > pulse.told else None

    def beat(self, pulse: Pulse, details: str | None) -> None:
        """Tell that an attempt lives, soon. Raises Cancelled where it should stop."""
        with self._lock:
            if pulse.verdict:
                raise Cancelled(pulse.verdict)
            pulse.beat(details)
            self._pulses.add(pulse)
            self._look_by(pulse.due_at(loop_is_busy=False))

    def _look_by(self, moment: float) -> None:
        if moment < self._looks_at and not self._stopped:
            self._looks_at = moment
            self._own.call_soon_threadsafe(self._bell.set)

    def _run(self) -> None:
        self._own.run_until_complete(self._beat_on())
        self._own.close()

    async def _beat_on(self) -> None:
        pauses = backoff(most=PAUSE)
        while not self._stopped:
            self._bell.clear()
            try:
                await self._tell(self._due())
            except Exception as exc:
                is_bug = not isinstance(exc, PgwhenError)
                log.warning("cannot tell heartbeats, trying again: %s", exc, exc_info=is_bug)
                await asyncio.sleep(next(pauses))
                continue
            pauses = backoff(most=PAUSE)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._bell.wait(), self._looks_at - time.monotonic())
        if self._conn is not None:
            await self._conn.close()

    def _due(self) -> list[Pulse]:
        """Return whose heartbeats are to be told now, and set the time of the next look."""
        with self._lock:
            now = time.monotonic()
            busy = self._is_busy(now)
            times = {pulse: pulse.due_at(loop_is_busy=busy) for pulse in self._pulses}
            looks = (pulse.looks_at(now) for pulse in times)
            self._looks_at = min([*times.values(), *looks, now + WITHOUT])
            if self._looks_at > now:
                self._at_once = ALL
                return []
            due = [pulse for pulse, moment in times.items() if moment - pulse.slack <= now]
            return due[: self._at_once]

    def _part(self, due: Sequence[Pulse]) -> None:
        """Tell those whom the database refuses together one by one; one alone without details."""
        self._at_once = 1
        if len(due) == 1:
            due[0].details = None

    def _is_busy(self, now: float) -> bool:
        """Whether the others' loop has left a question unanswered; asks the next one."""
        if self._asked_at is None and not self._others.is_closed():
            self._asked_at = now
            self._others.call_soon_threadsafe(self._answer)
        return self._asked_at is not None and now - self._asked_at >= BUSY

    def _answer(self) -> None:
        self._asked_at = None

    async def _tell(self, due: Sequence[Pulse]) -> None:
        if not due:
            return
        with self._lock:
            beats = [pulse.beats for pulse in due]
            details = [pulse.details for pulse in due]
        ids = [pulse.claim.context.action_id for pulse in due]
        tokens = [pulse.claim.token for pulse in due]
        if self._conn is None or self._conn.closed:
            self._conn = await connect(parameters(self._settings, "heart", self._settings.dsn))
        values = [self._settings.worker, ids, tokens, details]
        try:
            rows = await call(self._conn, BEAT, values, LIMIT)
        except RefusedError:
            self._part(due)
            raise
        with self._lock:
            now = time.monotonic()
            for pulse, told, (held, cancel_requested) in zip(due, beats, rows, strict=True):
                pulse.told, pulse.told_at = told, now
                if not held and pulse in self._pulses:
                    pulse.verdict = "claim_lost"
                    self._pulses.discard(pulse)
                    self._others.call_soon_threadsafe(self._on_lost, pulse.claim)
                elif cancel_requested:
                    pulse.verdict = pulse.verdict or "cancel_requested"
