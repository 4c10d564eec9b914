"""Handlers without a database: run one, run it twice, run it until it ends.

Time is that of a `Clock`. It stands still while a handler computes and goes to the next timer when
there is nothing else to wait for, so that hours of `asyncio.sleep` take no time. While a socket is
waited for, or a call of `run_in_executor`, it passes as real time does: what is outside of the
process is given the time that it was promised. See docs/testing.md.
"""

from __future__ import annotations

import asyncio
import copy
import difflib
import inspect
import json
import math
import pprint
import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypedDict
from uuid import uuid4

from .batch import Batch
from .context import Config, Context, Result
from .errors import ActionError, Cancelled, KeyReused, UnfitError, Unknown, WrongResults
from .handlers import MARK
from .kept import json_text
from .outcome import leading, type_of
from .vault import filled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from typing_extensions import Unpack

    from .handlers import Handler

__all__ = ["Clock", "Given", "Outcome", "run", "run_batch", "run_twice", "run_until_done"]

#: Seconds that an attempt may run where its handler declares nothing.
START_TO_CLOSE = 300.0
#: The retry policy where neither it nor an error says otherwise.
INITIAL_INTERVAL = 10.0
MAXIMUM_ATTEMPTS = 4
#: Bytes of JSON that a result may have: the setting resultLimit, where nobody has changed it.
RESULT_LIMIT = 64 * 1024
#: Seconds that a handler whose time is over has to give way.
LAST_RESORT = 2.0
#: Attempts after which `run_until_done` takes it that there is no end.
ENDLESS = 1000

_MICROSECOND = 1e-6


class Clock:
    """Time for tests: it goes on by itself only where somebody waits for it."""

    def __init__(self, start: datetime = datetime(2030, 1, 1, tzinfo=timezone.utc)) -> None:
        self._start = start
        #: How many have passed since the start.
        self.seconds = 0.0

    def now(self) -> datetime:
        """Return the time of day."""
        return self._start + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        """Let so many *seconds* pass. A handler, or what it calls, may do so too."""
        if not seconds >= 0:
            raise ValueError(f"time does not go back: advance({seconds})")
        self.seconds = round(self.seconds + seconds, 6)


class Given(TypedDict, total=False):
    """What a test may say of the action and of what befalls it. All of it has a default."""

    #: Which of its types, where the function is declared for several.
    action_type: str
    #: 1.
    attempt: int
    #: U1.
    user_id: str
    line_oa_id: str
    organization_id: str
    #: None, as of an action made by hand.
    rule: int | None
    event: dict[str, Any] | None
    workflow_path: tuple[str, ...] | None
    #: A new one for each call; the same for all attempts of one call.
    idempotency_key: str
    #: What an earlier attempt is to have recorded.
    heartbeat_details: Any
    #: Whether an earlier attempt may have done it already, so that `check` is asked first.
    maybe_done: bool
    #: What `ctx.connection()` gives. It is handed over as it is, neither committed nor rolled back.
    connection: Any
    #: A cancel is asked for before the n-th heartbeat, which raises Cancelled.
    cancel_after: int | None
    #: The claim is lost before the n-th heartbeat, which raises Cancelled.
    lose_claim_after: int | None
    #: The values of the secrets that the config names.
    secrets: Mapping[str, str]
    #: A new one for each call.
    clock: Clock


@dataclass(frozen=True)
class _Case:
    """All that is given, with the defaults."""

    action_type: str = ""
    attempt: int = 1
    user_id: str = "U1"
    line_oa_id: str = "default"
    organization_id: str = "default"
    rule: int | None = None
    event: dict[str, Any] | None = None
    workflow_path: tuple[str, ...] | None = None
    idempotency_key: str = field(default_factory=lambda: str(uuid4()))
    heartbeat_details: Any = None
    maybe_done: bool = False
    connection: Any = None
    cancel_after: int | None = None
    lose_claim_after: int | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    #: The hashes of what has gone out, by key.
    bodies: dict[str, bytes] = field(default_factory=dict)
    #: When scheduleToClose is over, by the clock.
    close_at: float | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of one attempt."""

    #: `done`, `failed`, `cancelled`, or `lost`: the claim was no longer its own, nothing counts.
    status: str
    #: What was raised; None if it is done.
    error: BaseException | None
    #: The details that were in force after each heartbeat.
    heartbeats: tuple[Any, ...]
    #: What the next attempt would find.
    heartbeat_details: Any
    #: Of the last attempt of `run_until_done`: why there is no other. None if it is done.
    retry_state: str | None = None
    _value: Any = None

    @property
    def value(self) -> Any:
        """What the handler returned, as JSON keeps it. Raises the error if it is not done."""
        if self.error is not None:
            raise self.error
        return self._value

    @property
    def cancelled(self) -> bool:
        """Whether the handler gave way to a cancel request."""
        return self.status == "cancelled"

    @property
    def error_type(self) -> str | None:
        """The type that the action's row would have; retry policies go by it."""
        return None if self.error is None else type_of(self.error)


def run(handler: Callable[..., Any], config: Config, **given: Unpack[Given]) -> Outcome:
    """Make one attempt at one action and return what became of it.

    *handler* is a function with `@action` above it, `async` or not; one that takes batches gets a
    batch of one. Of timeouts, those hold that it declares. Raises nothing that the handler raises:
    `Outcome.value` does.
    """
    declared = _declared(handler, given)
    return _attempt(declared, [config], _Case(**given))[0]


def run_batch(
    handler: Callable[..., Any], configs: Sequence[Config], **given: Unpack[Given]
) -> list[Outcome]:
    """Make one attempt at a batch: an action for each of *configs*, with a key of its own.

    The first has the `idempotency_key` that is given, if one is; all else is the same for all.
    """
    declared = _declared(handler, given)
    if len(configs) > (declared.batch or 1):
        most = f"batch={declared.batch}" if declared.batch else "single actions"
        raise ValueError(f"{declared.where} is declared for {most}, not for {len(configs)} at once")
    return _attempt(declared, configs, _Case(**given))


def run_twice(
    handler: Callable[..., Any],
    config: Config,
    *,
    state: Callable[[], Any] | None = None,
    **given: Unpack[Given],
) -> Outcome:
    """Run a handler a second time under the same key; assert that this changes nothing.

    The second attempt is the one that follows when the answer to the first was lost: its number is
    one higher, a `check` is asked first, and no heartbeat details have survived. It must be done,
    as the first must, and give the same value. *state* returns what else may not change, as any
    value that can be compared and copied: the rows of a table, the calls that a fake has counted.

    Returns the first outcome. Raises AssertionError that says what differed.
    """
    declared, case = _declared(handler, given), _Case(**given)
    again = replace(case, attempt=case.attempt + 1, maybe_done=True)
    first, before = _attempt(declared, [config], case)[0], _copy_of(state)
    second, after = _attempt(declared, [config], again)[0], _copy_of(state)
    for number, outcome in (("first", first), ("second", second)):
        if outcome.status != "done":
            raise AssertionError(
                f"the {number} call of {declared.where} ended as {outcome.status}:"
                f" {outcome.error_type}: {outcome.error}"
            ) from outcome.error
    _assert_same("returned something else", declared, first.value, second.value)
    _assert_same("changed the state", declared, before, after)
    return first


def run_until_done(
    handler: Callable[..., Any], config: Config, **given: Unpack[Given]
) -> list[Outcome]:
    """Make attempts, as the handler's retry policy says, until one succeeds or there is no other.

    Returns the outcomes, one for each attempt; the last says by `retry_state` why it was the last.
    Pauses pass on the clock, and heartbeat details go from attempt to attempt.

    Raises AssertionError where attempts without a limit come to no end.
    """
    declared, case = _declared(handler, given), _Case(**given)
    total = _limits(declared).get("scheduleToClose")
    case = replace(case, close_at=None if total is None else case.clock.seconds + total)
    outcomes: list[Outcome] = []
    while len(outcomes) < ENDLESS:
        outcome = _attempt(declared, [config], case)[0]
        pause = _pause(declared, case, outcome)
        ended = _ended(declared, case, outcome, pause)
        outcomes.append(_closed(outcome, ended))
        if ended or outcome.status == "done":
            return outcomes
        case.clock.advance(pause)
        case = _next(case, outcome)
    raise AssertionError(
        f"{declared.where} has failed {ENDLESS} times, and its policy has no limit"
    ) from outcomes[-1].error


def _declared(function: Callable[..., Any], given: Given) -> Handler:
    """Return what `@action` declared of *function*, for the type that is given, if one is."""
    handlers: dict[str, Handler] = {each.name: each for each in getattr(function, MARK, ())}
    wanted = given.get("action_type")
    if wanted is None and len(handlers) == 1:
        return next(iter(handlers.values()))
    if wanted in handlers:
        return handlers[wanted]
    if not handlers:
        raise TypeError(f'{function!r} is no handler: put @action("name") above it')
    raise TypeError(f"action_type is {wanted!r}: give one of {', '.join(map(repr, handlers))}")


class _Watch:
    """The lifeline of one attempt: its heartbeats, and what ends it."""

    def __init__(self, handler: Handler, case: _Case) -> None:
        limits = _limits(handler)
        self.clock = case.clock
        self.details = case.heartbeat_details
        self.heartbeats: list[Any] = []
        #: The type of the timeout that has passed.
        self.timed_out: str | None = None
        self._case = case
        self._threaded = handler.threaded
        self._patience = limits.get("heartbeat")
        self._beaten_at = now = case.clock.seconds
        total = limits.get("scheduleToClose")
        close_at = now + total if case.close_at is None and total is not None else case.close_at
        start_to_close = limits.get("startToClose")
        if start_to_close is None and total is None:
            start_to_close = START_TO_CLOSE
        ends = {
            "Timeout:ScheduleToClose": close_at,
            "Timeout:StartToClose": None if start_to_close is None else now + start_to_close,
        }
        self._limits = {kind: at for kind, at in ends.items() if at is not None}

    @property
    def deadline(self) -> datetime:
        """Until when the attempt may run, however it beats."""
        return self.clock.now() + timedelta(seconds=min(self._limits.values()) - self.clock.seconds)

    def limit(self) -> tuple[float, str]:
        """Return when the next timeout passes, and its type."""
        limits = dict(self._limits)
        if self._patience is not None:
            limits["Timeout:Heartbeat"] = self._beaten_at + self._patience
        return min((at, kind) for kind, at in limits.items())

    def look(self) -> bool:
        """Look at the clock; return whether a timeout has passed by now."""
        at, kind = self.limit()
        if self.timed_out is None and self.clock.seconds >= at:
            self.timed_out = kind
        return self.timed_out is not None

    @property
    def verdict(self) -> str | None:
        """Why the handler should stop, as the answer to its latest heartbeat says."""
        beats = len(self.heartbeats)
        lost, cancel = self._case.lose_claim_after, self._case.cancel_after
        if lost is not None and beats >= lost:
            return "claim_lost"
        if cancel is not None and beats >= cancel:
            return "cancel_requested"
        return "timed_out" if self.timed_out else None

    def cancel_requested(self, _: Context) -> bool:
        """Whether the answer to a heartbeat has said so."""
        return self.verdict == "cancel_requested"

    def beat(self, _: Context, details: str | None) -> None:
        """Take a heartbeat. Raises Cancelled where the handler should stop."""
        self.look()
        if details is not None:
            self.details = json.loads(details)
        self.heartbeats.append(self.details)
        self._beaten_at = self.clock.seconds
        if self.verdict:
            raise Cancelled(self.verdict)

    def keep_body(self, key: str, body_hash: bytes) -> Any:
        """Return *key*. Raises KeyReused where it has gone out with another body."""
        if self._case.bodies.setdefault(key, body_hash) != body_hash:
            raise KeyReused("another body has gone out under this key")
        return self._answer(key)

    def connection(self) -> Any:
        """Return what the test gives."""
        if self._case.connection is None:
            raise RuntimeError("the handler asks for ctx.connection(): give connection=… too")
        return self._answer(self._case.connection)

    def _answer(self, value: Any) -> Any:
        async def awaited() -> Any:
            return value

        return value if self._threaded else awaited()


def _attempt(handler: Handler, configs: Sequence[Config], case: _Case) -> list[Outcome]:
    """Make one attempt at an action for each of *configs*; return what became of each."""
    if not handler.threaded:
        _refuse_running_loop()
    watches = [_Watch(handler, case) for _ in configs]
    pairs = tuple(
        (_context(handler, case, watch, number), _kept(_opened(config, case.secrets), "the config"))
        for number, (config, watch) in enumerate(zip(configs, watches, strict=True))
    )
    try:
        results = _results(handler, pairs, watches)
    except (Exception, SystemExit, asyncio.CancelledError) as exc:  # noqa: BLE001 -- it is told
        results = [Result(error=exc)] * len(pairs)
    return [_outcome(watch, result) for watch, result in zip(watches, results, strict=True)]


def _context(handler: Handler, case: _Case, watch: _Watch, number: int) -> Context:
    context = Context(
        action_id=number + 1,
        action_type=handler.name,
        attempt=case.attempt,
        user_id=case.user_id,
        line_oa_id=case.line_oa_id,
        organization_id=case.organization_id,
        rule=case.rule,
        event_or_text=copy.deepcopy(case.event),
        workflow_path=case.workflow_path,
        deadline=watch.deadline,
        idempotency_key=case.idempotency_key if number == 0 else str(uuid4()),
        heartbeat_details=copy.deepcopy(case.heartbeat_details),
        maybe_done=case.maybe_done,
        heartbeat_timeout=_limits(handler).get("heartbeat"),
    )
    context.attach(watch)
    return context


def _limits(handler: Handler) -> dict[str, float]:
    return handler.timeouts.seconds if handler.timeouts else {}


def _results(
    handler: Handler, pairs: tuple[tuple[Context, Config], ...], watches: Sequence[_Watch]
) -> Sequence[Result]:
    """Call the handler, or what it wants asked first, and return a result for each pair."""
    context, config = pairs[0]
    if handler.batch is not None:
        batch = Batch(context.action_type, context.line_oa_id, pairs, uuid4())
        results = _call(handler.function, (batch,), watches)
        is_list = isinstance(results, Sequence) and all(isinstance(r, Result) for r in results)
        if not is_list or len(results) != len(pairs):
            raise WrongResults(
                f"the handler returned {results!r}, not a list of {len(pairs)} Result"
            )
        return list(results)
    if handler.check is not None and context.maybe_done:
        found = _call(handler.check, (context, config), watches)
        if isinstance(found, Unknown):
            raise found
        if found is not None:
            return [Result(found)]
    return [Result(_call(handler.function, (context, config), watches))]


def _call(function: Callable[..., Any], given: tuple[Any, ...], watches: Sequence[_Watch]) -> Any:
    """Call *function* here; what is `async`, in a loop that lives by the clock."""
    if not inspect.iscoroutinefunction(function):
        return function(*given)
    loop = _Loop(watches[0].clock)
    try:
        return loop.run_until_complete(_within_limits(function(*given), watches))
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("pgwhen.testing has a loop of its own: write this test without async")


def _opened(config: Config, secrets: Mapping[str, str]) -> Config:
    """Return *config* with its secrets, as the listener fills them in."""

    def reveal(given: dict[str, Any]) -> str:
        if given["$secret"] not in secrets:
            raise TypeError(
                f"the config names a secret: give secrets={{{given['$secret']!r}: …}} too"
            )
        return secrets[given["$secret"]]

    opened: Config = filled(config, reveal)
    return opened


async def _within_limits(work: Coroutine[Any, Any, Any], watches: Sequence[_Watch]) -> Any:
    """Await *work*, and cancel it when the first timeout has passed."""
    task = asyncio.ensure_future(work)
    clock = watches[0].clock
    while not task.done() and not any(watch.look() for watch in watches):
        first = min(watch.limit()[0] for watch in watches)
        await asyncio.wait({task}, timeout=first - clock.seconds)
    is_over = not task.done()
    await _cancel_all()
    if is_over:
        raise _over(next(watch.timed_out for watch in watches if watch.timed_out))
    return task.result()


async def _cancel_all() -> None:
    """Cancel what runs in this loop, and give it a while to clean up."""
    tasks = asyncio.all_tasks() - {asyncio.current_task(), None}
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_RESORT)


def _over(kind: str | None) -> ActionError:
    return ActionError("the time of the attempt was over", type=kind)


def _outcome(watch: _Watch, result: Result) -> Outcome:
    """Say what became of an attempt of which the handler says *result*."""
    error = None if result.error is None else leading(result.error)
    value, status = None, "failed"
    if watch.verdict == "claim_lost":
        error, status = Cancelled("claim_lost"), "lost"
    elif watch.look():
        error = _over(watch.timed_out)
    elif isinstance(error, Cancelled) and watch.verdict == "cancel_requested":
        status = "cancelled"
    elif error is None:
        try:
            value, status = _kept(result.value), "done"
        except UnfitError as exc:
            error = exc
    return Outcome(status, error, tuple(watch.heartbeats), watch.details, None, value)


def _pause(handler: Handler, case: _Case, outcome: Outcome) -> float:
    """Return how long to wait before the attempt after *outcome*."""
    wanted = getattr(outcome.error, "next_retry_delay", None)
    if isinstance(wanted, int | float) and 0 <= wanted < math.inf:  # others count for nothing
        return float(wanted)
    policy = handler.retry.policy if handler.retry else {}
    initial = float(policy.get("initialInterval", INITIAL_INTERVAL))
    longest = float(policy.get("maximumInterval", 100 * initial))
    coefficient = float(policy.get("backoffCoefficient", 2))
    try:
        return min(longest, initial * coefficient ** (case.attempt - 1))
    except OverflowError:
        return longest


def _ended(handler: Handler, case: _Case, outcome: Outcome, pause: float) -> str | None:
    """Return why there is no attempt after *outcome*: the first reason that holds, if one does."""
    if outcome.status == "done":
        return None
    policy = handler.retry.policy if handler.retry else {}
    error, kind = outcome.error, outcome.error_type
    asked = case.cancel_after is not None and len(outcome.heartbeats) >= case.cancel_after
    refused = isinstance(error, Unknown) or getattr(error, "non_retryable", False)
    most = policy.get("maximumAttempts", MAXIMUM_ATTEMPTS)
    late = case.close_at is not None and case.clock.seconds + pause >= case.close_at
    reasons = {
        "cancel_requested": asked and outcome.status != "lost",
        "non_retryable": refused or kind in policy.get("nonRetryableErrorTypes", ()),
        "maximum_attempts_reached": most and case.attempt >= most,
        "timeout": late or kind == "Timeout:ScheduleToClose",
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _closed(outcome: Outcome, ended: str | None) -> Outcome:
    """Say why it was the last: a timeout for whose retry no time is left is scheduleToClose's."""
    error = outcome.error
    if ended == "timeout" and (outcome.error_type or "").startswith("Timeout:"):
        error = ActionError(f"no time is left: {error}", type="Timeout:ScheduleToClose")
        error.__cause__ = outcome.error
    return replace(outcome, error=error, retry_state=ended)


def _next(case: _Case, outcome: Outcome) -> _Case:
    """Return the attempt that follows: a claim is lost once, a cancel comes when it comes."""
    cancel_after = case.cancel_after
    if cancel_after is not None:
        cancel_after -= len(outcome.heartbeats)
    return replace(
        case,
        attempt=case.attempt + 1,
        heartbeat_details=outcome.heartbeat_details,
        maybe_done=True,
        cancel_after=cancel_after,
        lose_claim_after=None if outcome.status == "lost" else case.lose_claim_after,
    )


def _kept(value: Any, what: str = "the handler's result") -> Any:
    """Return *value* as it comes back from jsonb."""
    text = json_text(value, what)
    if len(text.encode()) > RESULT_LIMIT:
        raise UnfitError(f"{what} has more than {RESULT_LIMIT} bytes", type="ResultTooLarge")
    return json.loads(text)


def _copy_of(state: Callable[[], Any] | None) -> Any:
    """Take a copy: a list that a fake appends to would always be the same as itself."""
    return None if state is None else copy.deepcopy(state())


def _assert_same(what: str, handler: Handler, first: Any, second: Any) -> None:
    if first == second:
        return
    one, other = (pprint.pformat(value, width=100).splitlines() for value in (first, second))
    shown = "\n".join(difflib.unified_diff(one, other, "first", "second", n=1, lineterm=""))
    raise AssertionError(f"the second call of {handler.where} {what}:\n{shown}")


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that lives by a clock."""

    _clock_resolution: float

    def __init__(self, clock: Clock) -> None:
        #: Calls that run in threads.
        self.calls = 0
        self._clock = clock
        self._began = clock.seconds
        super().__init__(_Selector(self, clock))
        self._clock_resolution = _MICROSECOND

    def time(self) -> float:
        """Count from the loop's own beginning, so that a microsecond always counts."""
        return self._clock.seconds - self._began

    def run_in_executor(  # type: ignore[override]  # as theirs, without the type variables
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """As before, and count it while it runs."""
        future = super().run_in_executor(executor, func, *args)
        self.calls += 1
        future.add_done_callback(self._returned)
        return future

    def _returned(self, _: Awaitable[Any]) -> None:
        self.calls -= 1


class _Selector(selectors.DefaultSelector):
    """Waits for what is outside; without it, lets the clock pass instead."""

    def __init__(self, loop: _Loop, clock: Clock) -> None:
        super().__init__()
        self._loop = loop
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready, after *timeout* seconds of the clock at the latest."""
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._loop.calls or len(self.get_map()) > 1:  # one is the loop's own, to be woken by
            began = time.monotonic()
            ready = super().select(timeout)
            self._clock.advance(time.monotonic() - began)
            return ready
        assert timeout is not None, "an attempt always has a timer: that of its deadline"
        self._clock.advance(timeout)
        return []
