"""The timeouts of an action type, as its handler declares them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .durations import LONGEST, SHORTEST, fits, seconds
from .errors import HandlerError

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True)
class Timeouts:
    """How long an action may wait for a worker, and run, in seconds or as a timedelta.

    What is not given has none, but for *start_to_close*: see docs/timeouts.md. Rules may say
    otherwise. Raises HandlerError where the database would refuse it.
    """

    start_to_close: float | timedelta | None = None
    schedule_to_close: float | timedelta | None = None
    schedule_to_start: float | timedelta | None = None
    heartbeat: float | timedelta | None = None

    def __post_init__(self) -> None:
        """Refuse what is no time, with the name of the argument."""
        for name, value in vars(self).items():
            if not fits(seconds(value), SHORTEST, LONGEST):
                raise HandlerError(
                    f"{name} is {value!r}",
                    hint="Give seconds or a timedelta, from a millisecond to ten years.",
                )

    @property
    def seconds(self) -> dict[str, float]:
        """What the database is told."""
        told = {
            "startToClose": self.start_to_close,
            "scheduleToClose": self.schedule_to_close,
            "scheduleToStart": self.schedule_to_start,
            "heartbeat": self.heartbeat,
        }
        return {name: seconds(value) for name, value in told.items() if value is not None}
