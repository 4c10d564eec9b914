"""What one attempt has told by its heartbeats, and when the next one is to be told."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .claim import Claim

#: The part of its timeout after which a heartbeat is told; seconds without one, and at most.
PART = 0.8
WITHOUT = 30.0
MOST = 60.0
#: The part of that time by which a heartbeat may be early, to be told together with others.
EARLY = 0.1
#: The part of a timeout after which to look again whether the loop is busy, and its bounds.
LOOK = 0.05
LOOKS = (0.05, 5.0)


class Pulse:
    """One attempt at one action: what it has told, and what it was told back."""

    __slots__ = (
        "beaten_at", "beats", "claim", "details", "in_loop", "is_excused", "told", "told_at",
        "verdict",
    )  # fmt: skip

    def __init__(self, claim: Claim, *, in_loop: bool) -> None:
        self.claim = claim
        #: Whether it runs as a task of the event loop.
        self.in_loop = in_loop
        #: Whether it waits for what its handler cannot help.
        self.is_excused = False
        self.beaten_at = time.monotonic()
        #: JSON text; None to keep what was told before.
        self.details: str | None = None
        #: The number of heartbeats, and up to which one they have been told.
        self.beats = 0
        self.told = 0
        self.told_at = -math.inf
        #: Why the handler should stop; empty while it need not.
        self.verdict = ""

    @property
    def alive_at(self) -> float:
        """When it was last known to live, by the monotonic clock."""
        return max(self.beaten_at, self.told_at)

    def beat(self, details: str | None) -> None:
        """Note that it lives, and how far it is."""
        self.beaten_at = time.monotonic()
        self.beats += 1
        if details is not None:
            self.details = details

    def looks_at(self, now: float) -> float:
        """When to look again whether the loop is too busy for its heartbeats."""
        if not self.in_loop or self.timeout == math.inf:
            return math.inf
        shortest, longest = LOOKS
        return now + min(max(LOOK * self.timeout, shortest), longest)

    def due_at(self, *, loop_is_busy: bool) -> float:
        """When its next heartbeat is to be told; never, if there is none to tell."""
        if self.beats > self.told:
            return self.told_at + self._interval
        needs_help = self.is_excused or (loop_is_busy and self.in_loop)
        return (
            self.alive_at + self._interval if needs_help and self.timeout < math.inf else math.inf
        )

    @property
    def timeout(self) -> float:
        """Seconds that may pass between two heartbeats."""
        return self.claim.context.heartbeat_timeout or math.inf

    @property
    def slack(self) -> float:
        """Seconds by which a heartbeat may be early."""
        return EARLY * self._interval

    @property
    def _interval(self) -> float:
        return WITHOUT if self.timeout == math.inf else min(PART * self.timeout, MOST)
