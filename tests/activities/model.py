"""One action, from its schedule to its end, as Temporal's activities mean it: a page of Python.

Written from what is promised (docs/timeouts.md, docs/retries.md), and knows nothing of the SQL.
Time is whole seconds since some beginning; whoever drives it says what time it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The settings staleProcessingMinute, retrySeconds and maxRetries, as they are by default.
START_TO_CLOSE = 300
RETRY_SECONDS = 10
MAX_RETRIES = 3

#: The last details of an attempt are left as they are.
KEEP: Any = object()


@dataclass(frozen=True)
class Limits:
    """The four timeouts of an action, in force."""

    start_to_close: int
    schedule_to_close: int | None
    schedule_to_start: int | None
    heartbeat: int | None

    @classmethod
    def of(cls, *said: Mapping[str, int | None]) -> Limits | None:
        """Put together what the type and then the action say; None where no attempt would end."""
        last = {key: value for layer in said for key, value in layer.items()}
        whole = last.get("scheduleToClose")
        if whole is None:
            last.setdefault("startToClose", START_TO_CLOSE)
        attempt = least(last.get("startToClose"), whole)
        if attempt is None:
            return None
        beat = last.get("heartbeat")
        return cls(
            start_to_close=attempt,
            schedule_to_close=whole,
            schedule_to_start=least(last.get("scheduleToStart"), whole),
            heartbeat=None if beat is None else min(beat, attempt),
        )


@dataclass(frozen=True)
class Policy:
    """When a failed attempt is followed by another one."""

    initial_interval: int
    coefficient: int
    maximum_interval: int
    maximum_attempts: int
    non_retryable: frozenset[str]

    @classmethod
    def of(cls, *said: Mapping[str, Any]) -> Policy:
        """Put together what the type and then the action say."""
        last = {key: value for layer in said for key, value in layer.items()}
        initial = last.get("initialInterval", RETRY_SECONDS)
        return cls(
            initial_interval=initial,
            coefficient=last.get("backoffCoefficient", 2),
            maximum_interval=last.get("maximumInterval", 100 * initial),
            maximum_attempts=last.get("maximumAttempts", MAX_RETRIES + 1),
            non_retryable=frozenset(last.get("nonRetryableErrorTypes", ())),
        )

    def interval(self, attempt: int) -> int:
        """Return how long to wait after that attempt, which has failed."""
        exponential: int = self.initial_interval * self.coefficient ** (attempt - 1)
        return min(self.maximum_interval, exponential)


@dataclass(frozen=True)
class Failure:
    """How an attempt failed."""

    type: str
    non_retryable: bool = False
    next_retry_delay: int | None = None
    details: Any = KEEP
    gave_way: bool = False


class Claim(NamedTuple):
    """What a worker is told of the attempt that it begins."""

    attempt: int
    deadline: int
    heartbeat_timeout: int | None
    heartbeat_details: Any
    maybe_done: bool


class Reply(NamedTuple):
    """What a heartbeat is told."""

    held: bool
    cancel_requested: bool


class State(NamedTuple):
    """What can be seen of an action: `error` is the type, or that it was cancelled."""

    status: str
    retry_count: int
    execute_at: int
    retry_state: str | None
    error: str | None
    details: Any
    log_rows: int


class Timer(NamedTuple):
    """A moment, and what it means if nothing has happened until then."""

    at: int
    type: str


@dataclass
class Activity:
    """One action, told only what concerns it: a late report, say, does not."""

    limits: Limits
    policy: Policy
    due: int
    paused_at: int | None = None

    def __post_init__(self) -> None:
        """Begin to wait."""
        self.seen = State("pending", 0, self.due, None, None, None, 0)
        whole = self.limits.schedule_to_close
        self.close_by = None if whole is None else self.due + whole
        self.started_at = self.beat_at = self.due
        self.stood_still = 0
        self.cancel_requested = False

    @property
    def is_pending(self) -> bool:
        """Whether it waits for a worker, or for its time."""
        return self.seen.status == "pending"

    @property
    def is_running(self) -> bool:
        """Whether a worker has it."""
        return self.seen.status == "processing"

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return not self.is_pending and not self.is_running

    def can_start(self, now: int) -> bool:
        """Tell whether a worker that asks now gets it."""
        return self.is_pending and self.paused_at is None and self.seen.execute_at <= now

    def claim(self, now: int) -> Claim:
        """Begin an attempt."""
        self.started_at = self.beat_at = now
        self._see(status="processing")
        ends = [timer.at for timer in self.timers() if timer.type != "Timeout:Heartbeat"]
        count, details = self.seen.retry_count, self.seen.details
        return Claim(count + 1, min(ends), self.limits.heartbeat, details, count > 0)

    def heartbeat(self, now: int, details: Any = KEEP) -> Reply:
        """Hear from the attempt that runs."""
        self.beat_at = now
        self._keep(details)
        return Reply(held=True, cancel_requested=self.cancel_requested)

    def complete(self) -> None:
        """End well, whatever has been asked for meanwhile."""
        self._see(status="done", error=None, details=None, log_rows=1)

    def fail(self, now: int, failure: Failure) -> None:
        """Count the failed attempt; wait for another one, or end."""
        self._keep(failure.details)
        self._see(retry_count=self.seen.retry_count + 1)
        wait = failure.next_retry_delay
        if wait is None:
            wait = self.policy.interval(self.seen.retry_count)
        if self.cancel_requested and failure.gave_way:
            self._end("cancelled", "cancelled", "cancel_requested")
        elif why := self._why_last(failure, now + wait):
            is_late = why == "timeout" and failure.type.startswith("Timeout:")
            self._end("failed", "Timeout:ScheduleToClose" if is_late else failure.type, why)
        else:
            self._see(status="pending", execute_at=now + wait, error=failure.type)
            self.stood_still = 0

    def cancel(self) -> None:
        """End at once where nobody runs it, else ask."""
        if self.is_pending:
            self._end("cancelled", "cancelled", None)
        self.cancel_requested = True

    def pause(self, now: int) -> None:
        """Start no more attempts; scheduleToStart stands still."""
        self.paused_at = now

    def resume(self, now: int) -> None:
        """Let attempts start again."""
        if self.paused_at is not None:
            self.stood_still += max(0, now - max(self.paused_at, self.seen.execute_at))
        self.paused_at = None

    def timers(self) -> Iterator[Timer]:
        """Yield the timers that run, the one that ends the most first.

        Who looks late finds several over, and that one counts; Temporal, whose timers do not wait
        for anybody to look, would take the earliest.
        """
        if not self.is_over and self.close_by is not None:
            yield Timer(self.close_by, "Timeout:ScheduleToClose")
        to_start = self.limits.schedule_to_start
        if self.is_pending and to_start is not None and self.paused_at is None:
            start_by = self.seen.execute_at + self.stood_still + to_start
            yield Timer(start_by, "Timeout:ScheduleToStart")
        if self.is_running:
            yield Timer(self.started_at + self.limits.start_to_close, "Timeout:StartToClose")
            if self.limits.heartbeat is not None:
                yield Timer(self.beat_at + self.limits.heartbeat, "Timeout:Heartbeat")

    def elapse(self, now: int) -> None:
        """Let a timer whose moment has passed have its effect."""
        fired = next((timer.type for timer in self.timers() if timer.at < now), None)
        if fired in {"Timeout:StartToClose", "Timeout:Heartbeat"}:
            self.fail(now, Failure(fired))
        elif fired is not None:
            self._see(retry_count=self.seen.retry_count + self.is_running)
            self._end("failed", fired, "cancel_requested" if self.cancel_requested else "timeout")

    def _why_last(self, failure: Failure, next_at: int) -> str | None:
        """Return why there is no other attempt at that time; None if there is."""
        if self.cancel_requested:
            return "cancel_requested"
        if failure.non_retryable or failure.type in self.policy.non_retryable:
            return "non_retryable"
        if 0 < self.policy.maximum_attempts <= self.seen.retry_count:
            return "maximum_attempts_reached"
        if self.close_by is not None and next_at >= self.close_by:
            return "timeout"
        return None

    def _end(self, status: str, error: str, why: str | None) -> None:
        self._see(status=status, error=error, retry_state=why, log_rows=1)

    def _keep(self, details: Any) -> None:
        if details is not KEEP:
            self._see(details=details)

    def _see(self, **changes: Any) -> None:
        self.seen = self.seen._replace(**changes)


def least(*values: int | None) -> int | None:
    """Return the least of the values that there are."""
    return min((value for value in values if value is not None), default=None)
