"""Traces of what may happen to actions, on the model and on the database: the same is seen of both.

After each step everything is compared that a worker is told, and how each action stands. A run in
which a step, or an end, never came about has shown nothing of it, and fails.
"""

from __future__ import annotations

from collections import Counter
from functools import wraps
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from psycopg import DatabaseError

from tests.activities.model import KEEP, Activity, Failure, Limits, Policy, Reply
from tests.support import CASES, SOAK

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.activities.shop import Held, Shop

    Step = Callable[..., None]

TRACES = CASES // 2 if SOAK else CASES
STEPS = 30
#: So many actions at most go on at one time.
AT_ONCE = 3

#: The timeouts, and how many seconds each is at most.
KINDS = {"scheduleToStart": 12, "startToClose": 12, "scheduleToClose": 40, "heartbeat": 8}
LISTED = ("Rejected", "Timeout:StartToClose", "Timeout:Heartbeat")

#: What each run must have met: how actions end, with which error, and why.
ENDS = {
    ("done", None, None),
    ("cancelled", "cancelled", None),
    ("cancelled", "cancelled", "cancel_requested"),
    ("failed", "Busy", "cancel_requested"),
    ("failed", "Busy", "maximum_attempts_reached"),
    ("failed", "Busy", "timeout"),
    ("failed", "Rejected", "non_retryable"),
    ("failed", "Timeout:Heartbeat", "cancel_requested"),
    ("failed", "Timeout:Heartbeat", "maximum_attempts_reached"),
    ("failed", "Timeout:Heartbeat", "non_retryable"),
    ("failed", "Timeout:ScheduleToClose", "cancel_requested"),
    ("failed", "Timeout:ScheduleToClose", "timeout"),
    ("failed", "Timeout:ScheduleToStart", "timeout"),
    ("failed", "Timeout:StartToClose", "cancel_requested"),
    ("failed", "Timeout:StartToClose", "maximum_attempts_reached"),
    ("failed", "Timeout:StartToClose", "non_retryable"),
}

#: And what else a step may have shown.
ALSO = {"refused", "claimed", "claimed again"}


def draw_timeouts(seed: int) -> dict[str, int | None]:
    """Make timeouts of some kinds; null takes one away."""
    random = Random(seed)
    return {
        kind: None if random.random() < 0.2 else random.randint(1, longest)
        for kind, longest in KINDS.items()
        if random.random() < 0.4
    }


def draw_policy(seed: int) -> dict[str, Any]:
    """Make a retry policy that says something of some things."""
    random = Random(seed)
    policy = {
        "initialInterval": random.randint(1, 4),
        "backoffCoefficient": random.randint(1, 3),
        "maximumInterval": random.randint(4, 10),
        "maximumAttempts": random.choice([0, 1, 2, 2, 3]),
        "nonRetryableErrorTypes": [name for name in LISTED if random.random() < 0.3],
    }
    return {key: value for key, value in policy.items() if random.random() < 0.5}


# A seed for each, since Hypothesis ends a trace that draws too much.
seeds = st.integers(0, 2**32 - 1)
timeouts = seeds.map(draw_timeouts)
policies = seeds.map(draw_policy)
seconds = st.integers(1, 12)
details = st.sampled_from([KEEP, None, 0, {"done": 1}, {"done": 2}])
picks = st.integers(0, 11)
#: Whether the worker asks for more right after a step.
polls = st.sampled_from([True, True, False])


def counted(step: Step) -> Step:
    """Let a step count how often it was taken."""

    @wraps(step)
    def take(self: Machine, **drawn: Any) -> None:
        self.met[step.__name__] += 1
        step(self, **drawn)

    return take


class Machine(RuleBasedStateMachine):
    """An operator, the clock, and a worker that may forget what it has claimed."""

    def __init__(self, shop: Shop, met: Counter[Any]) -> None:
        """Drive *shop*, and count in *met* what came about."""
        super().__init__()
        self.shop = shop
        self.met = met
        self.now = 0
        self.paused = False
        self.activities: dict[int, Activity] = {}
        self.claims: list[Held] = []
        self.current: dict[int, Held] = {}
        self.killed: set[Held] = set()

    def _live(self) -> list[int]:
        return [action for action, activity in self.activities.items() if not activity.is_over]

    def _hands(self) -> list[Held]:
        return [held for held in self.current.values() if held not in self.killed]

    def _late(self) -> list[Held]:
        return [held for held in self.claims if self.current.get(held.action) != held]

    @initialize(of_type=timeouts.filter(Limits.of), policy=policies)
    def register(self, of_type: dict[str, int | None], policy: dict[str, Any]) -> None:
        """Declare the action type."""
        self.of_type, self.policy = of_type, policy
        self.shop.reset(of_type, policy)

    @rule(own=timeouts, policy=policies, delay=st.sampled_from([0, 0, 0, 3]), polls=polls)
    @precondition(lambda self: len(self._live()) < AT_ONCE)
    @counted
    def schedule(
        self, own: dict[str, int | None], policy: dict[str, Any], delay: int, *, polls: bool
    ) -> None:
        """Schedule an action; it is refused where no attempt at it would end."""
        limits = Limits.of(self.of_type, own)
        if limits is None:
            with pytest.raises(DatabaseError) as refusal:
                self.shop.schedule(own, policy, delay)
            assert refusal.value.sqlstate == "PW007"
            self.met["refused"] += 1
            return
        self.activities[self.shop.schedule(own, policy, delay)] = Activity(
            limits,
            Policy.of(self.policy, policy),
            due=self.now + delay,
            paused_at=self.now if self.paused else None,
        )
        if polls:
            self._poll()

    @rule()
    @precondition(lambda self: any(a.is_pending for a in self.activities.values()))
    @counted
    def claim(self) -> None:
        """Claim what can be started."""
        self._poll()

    @rule(pick=picks, details=details)
    @precondition(lambda self: self._hands())
    @counted
    def heartbeat(self, pick: int, details: Any) -> None:
        """Say that an attempt goes on, and perhaps how far it is."""
        held = self._one(self._hands(), pick)
        expected = self.activities[held.action].heartbeat(self.now, details)
        assert self.shop.heartbeat(held, details) == expected

    @rule(pick=picks)
    @precondition(lambda self: self._hands())
    @counted
    def complete(self, pick: int) -> None:
        """Report success."""
        held = self._one(self._hands(), pick)
        self.activities[held.action].complete()
        assert self.shop.complete(held)

    @rule(
        pick=picks,
        kind=st.sampled_from(["Busy", "Rejected"]),
        delay=st.none() | st.integers(0, 15),
        to_the_last=st.booleans(),
        details=details,
    )
    @precondition(lambda self: self._hands())
    @counted
    def fail(
        self, pick: int, kind: str, delay: int | None, details: Any, *, to_the_last: bool
    ) -> None:
        """Report a failure after which another attempt may do better, or comes just too late."""
        held = self._one(self._hands(), pick)
        activity = self.activities[held.action]
        if delay is not None and to_the_last and activity.close_by is not None:
            delay = max(0, activity.close_by - self.now - delay % 2)
        told = {} if delay is None else {"nextRetryDelay": delay}
        if details is not KEEP:
            told["heartbeatDetails"] = details
        activity.fail(self.now, Failure(kind, next_retry_delay=delay, details=details))
        assert self.shop.fail(held, type=kind, **told)

    @rule(pick=picks)
    @precondition(lambda self: self._hands())
    @counted
    def reject(self, pick: int) -> None:
        """Report a failure that no other attempt would mend."""
        held = self._one(self._hands(), pick)
        self.activities[held.action].fail(self.now, Failure("Rejected", non_retryable=True))
        assert self.shop.fail(held, type="Rejected", nonRetryable=True)

    @rule(pick=picks)
    @precondition(lambda self: self._hands())
    @counted
    def give_way(self, pick: int) -> None:
        """Report that the attempt gave way to a cancellation, whether one was asked for or not."""
        held = self._one(self._hands(), pick)
        self.activities[held.action].fail(self.now, Failure("Cancelled", gave_way=True))
        assert self.shop.fail(held, type="Cancelled", cancelled=True)

    @rule(pick=picks)
    @precondition(lambda self: self._hands())
    @counted
    def kill(self, pick: int) -> None:
        """Let the worker forget a claim: nothing will be heard of it."""
        self.killed.add(self._one(self._hands(), pick))

    @rule(pick=picks, verb=st.sampled_from(["complete", "fail", "give way", "heartbeat"]))
    @precondition(lambda self: self._late())
    @counted
    def report_late(self, pick: int, verb: str) -> None:
        """Report with the token of an attempt that is over: it changes nothing."""
        held = self._one(self._late(), pick)
        if verb == "heartbeat":
            reply = self.shop.heartbeat(held, {"done": 99})
            assert reply == Reply(held=False, cancel_requested=False)
        elif verb == "complete":
            assert not self.shop.complete(held)
        else:
            assert not self.shop.fail(
                held, type="Late", heartbeatDetails={"done": 99}, cancelled=verb == "give way"
            )

    @rule(seconds=seconds, polls=polls)
    @precondition(lambda self: self._live())
    @counted
    def clock_passes(self, seconds: int, *, polls: bool) -> None:
        """Let time pass."""
        self._let_pass(seconds)
        if polls:
            self._poll()

    @rule(pick=picks, late=st.integers(0, 1), polls=polls)
    @precondition(lambda self: self._moments())
    @counted
    def clock_reaches_a_timer(self, pick: int, late: int, *, polls: bool) -> None:
        """Let time pass to the moment of a timer, which is not over yet, or past it."""
        self._let_pass(self._one(self._moments(), pick) + late - self.now)
        if polls:
            self._poll()

    @rule(pick=picks)
    @precondition(lambda self: self.current)
    @counted
    def cancel(self, pick: int) -> None:
        """Ask for an action to be cancelled."""
        action = self._one(self._live(), pick)
        self.activities[action].cancel()
        self.shop.cancel(action)

    @rule(pick=picks)
    @precondition(lambda self: self.activities and not self._live())
    @counted
    def cancel_late(self, pick: int) -> None:
        """Ask for an action to be cancelled that has ended; it is refused."""
        with pytest.raises(DatabaseError) as refusal:
            self.shop.cancel(self._one([*self.activities], pick))
        assert refusal.value.sqlstate == "PW602"

    @rule()
    @precondition(lambda self: not self.paused and self._live())
    @counted
    def pause(self) -> None:
        """Pause the type."""
        self.paused = True
        self.shop.pause()
        for activity in self.activities.values():
            activity.pause(self.now)

    @rule()
    @precondition(lambda self: self.paused)
    @counted
    def resume(self) -> None:
        """End the pause."""
        self.paused = False
        self.shop.resume()
        for activity in self.activities.values():
            activity.resume(self.now)

    @invariant()
    def all_stand_as_the_model_says(self) -> None:
        """Compare, and count what has ended."""
        assert self.shop.states() == {
            action: activity.seen for action, activity in self.activities.items()
        }
        for action in [*self.current]:
            if not self.activities[action].is_running:
                del self.current[action]

    def teardown(self) -> None:
        """Count how everything ended."""
        self.met["trace"] += 1
        for activity in self.activities.values():
            if activity.is_over:
                seen = activity.seen
                self.met[seen.status, seen.error, seen.retry_state] += 1

    def _moments(self) -> list[int]:
        timers = (timer for activity in self.activities.values() for timer in activity.timers())
        return sorted(timer.at for timer in timers if timer.at > self.now)

    def _let_pass(self, seconds: int) -> None:
        self.now += seconds
        for activity in self.activities.values():
            activity.elapse(self.now)
        self.shop.let_pass(seconds)

    def _poll(self) -> None:
        claims = self.shop.claim()
        told = {held.action: claim for held, claim in claims.items()}
        assert told == {
            action: activity.claim(self.now)
            for action, activity in self.activities.items()
            if activity.can_start(self.now)
        }
        self.claims += claims
        self.current |= {held.action: held for held in claims}
        self.met["claimed"] += len(claims)
        self.met["claimed again"] += any(claim.attempt > 1 for claim in told.values())

    @staticmethod
    def _one(choices: list[Any], pick: int) -> Any:
        return choices[pick % len(choices)]


@pytest.mark.timeout(0 if SOAK else 600)  # Hypothesis shortens a trace that fails for minutes
def test_traces(the_shop: Shop) -> None:
    """The database does with every trace what the model does, and every step is met."""
    met: Counter[Any] = Counter()

    class Here(Machine):
        """The machine, with this shop."""

        def __init__(self) -> None:
            super().__init__(the_shop, met)

    run_state_machine_as_test(
        Here, settings=settings(max_examples=TRACES, stateful_step_count=STEPS)
    )
    steps = {step.function.__name__ for step in Machine.setup_state().rules}
    missing = sorted(map(str, (steps | ENDS | ALSO) - met.keys()))
    assert not missing, f"never met: {missing}; met: {met.most_common()}"
    assert met["trace"] >= TRACES
