"""The retry policy of an action type, as its handler declares it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .durations import LONGEST, SHORTEST, fits, seconds
from .errors import HandlerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta


@dataclass(frozen=True)
class Retry:
    """How often, and when, a failed action is tried again. What is not given, settings say.

    The interval after the first attempt is *initial_interval*, in seconds or as a timedelta, each
    further one *backoff_coefficient* times as long, *maximum_interval* at most. *maximum_attempts*
    counts the first one too; 0 is without a limit. An error whose type is in *non_retryable*,
    letter for letter, ends its action. Rules may say otherwise: see docs/retries.md.

    Raises HandlerError where the database would refuse it.
    """

    initial_interval: float | timedelta | None = None
    backoff_coefficient: float | None = None
    maximum_interval: float | timedelta | None = None
    maximum_attempts: int | None = None
    non_retryable: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse what could be no policy, with the name of the argument."""
        for name, good, hint in self._demands():
            if not good:
                raise HandlerError(f"Retry: {name} is {getattr(self, name)!r}", hint=hint)

    @property
    def policy(self) -> dict[str, Any]:
        """What the database is told."""
        policy = {
            "initialInterval": seconds(self.initial_interval),
            "backoffCoefficient": self.backoff_coefficient,
            "maximumInterval": seconds(self.maximum_interval),
            "maximumAttempts": self.maximum_attempts,
            "nonRetryableErrorTypes": list(self.non_retryable) or None,
        }
        return {name: value for name, value in policy.items() if value is not None}

    def _demands(self) -> Iterator[tuple[str, bool, str]]:
        """Yield each argument's name, whether it is right, and what to write; stop at the first."""
        first, longest = seconds(self.initial_interval), seconds(self.maximum_interval)
        hint = "Give seconds or a timedelta, from {} to ten years."
        is_good = fits(first, SHORTEST, LONGEST)
        yield "initial_interval", is_good, hint.format("a millisecond")
        is_good = fits(longest, first or SHORTEST, LONGEST)
        yield "maximum_interval", is_good, hint.format("initial_interval")
        hint = "Give a number from 1, for the same interval each time, to 1e10."
        yield "backoff_coefficient", fits(self.backoff_coefficient, 1, 1e10), hint
        hint = "Give a whole number to 1000000, the first attempt included; 0 is without a limit."
        is_good = fits(self.maximum_attempts, 0, 1_000_000)
        yield "maximum_attempts", is_good and not isinstance(self.maximum_attempts, float), hint
        hint = 'Give a list of types of errors, for example ["BankRejected"].'
        yield "non_retryable", isinstance(self.non_retryable, (list, tuple)), hint
        yield "non_retryable", all(isinstance(t, str) and t for t in self.non_retryable), hint
