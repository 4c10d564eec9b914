"""`pgwhen.testing`: handlers without a database."""

# ruff: noqa: ARG001 -- a handler takes what it is called with

from __future__ import annotations

import asyncio
import dataclasses
import re
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import ActionError, Batch, Cancelled, Context, Result, Retry, Unknown, action
from pgwhen import testing as pgwhen_testing
from pgwhen.testing import Clock, Given, run, run_batch, run_twice, run_until_done
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Real seconds that no test here may come near.
LONG = 3600.0
KEY = "ed6f8b5e-1111-8111-8111-000000000001"


@action("echo")
async def echo(ctx: Context, config: dict[str, Any]) -> dict[str, Any]:
    """Say what it was given."""
    return {"user": ctx.user_id, "event": ctx.event, "attempt": ctx.attempt, **config}


@action("echo_plainly")
def echo_plainly(ctx: Context, config: dict[str, Any]) -> dict[str, Any]:
    """Do so without `async`."""
    return {"user": ctx.user_id, "event": ctx.event, "attempt": ctx.attempt, **config}


@pytest.mark.parametrize("handler", [echo, echo_plainly])
def test_a_handler_is_run(handler: Callable[..., Any]) -> None:
    """It gets what is given, and defaults for the rest; its value is what JSON keeps."""
    plain = run(handler, {"n": (1, 2)})
    told = run(handler, {}, user_id="ann", event={"type": "paid"}, attempt=3)

    assert plain.status == "done"
    assert plain.value == {"user": "U1", "event": None, "attempt": 1, "n": [1, 2]}
    assert told.value == {"user": "ann", "event": {"type": "paid"}, "attempt": 3}


def test_the_function_must_be_a_handler() -> None:
    """What has no declaration is refused, and what has two asks which."""

    async def bare(ctx: Context, config: dict[str, Any]) -> None: ...

    @action("one")
    @action("two")
    def two(ctx: Context, config: dict[str, Any]) -> str:
        return ctx.action_type

    with pytest.raises(TypeError, match=r"is no handler: put @action"):
        run(bare, {})
    with pytest.raises(TypeError, match="give one of 'two', 'one'"):
        run(two, {})
    assert run(two, {}, action_type="one").value == "one"
    with pytest.raises(TypeError, match="unexpected keyword argument 'usr_id'"):
        run(echo, {}, usr_id="typo")  # type: ignore[call-arg]


def test_given_is_what_a_case_takes() -> None:
    """The names for the type checker are the names that work."""
    fields = {field.name for field in dataclasses.fields(pgwhen_testing._Case)}

    assert fields - {"bodies", "close_at"} == Given.__annotations__.keys()


def test_failure_keeps_the_error_and_value_raises_it() -> None:
    """A test that looks at the value of what failed sees why, not None."""

    @action("refuse")
    async def refuse(ctx: Context, config: dict[str, Any]) -> None:
        raise ActionError("no such account", type="BankRejected", non_retryable=True)

    outcome = run(refuse, {})

    assert (outcome.status, outcome.error_type) == ("failed", "BankRejected")
    with pytest.raises(ActionError, match="no such account"):
        _ = outcome.value


def test_what_json_cannot_keep_is_a_failure() -> None:
    """As in a database: the result, and heartbeat details that are no JSON or too large."""

    @action("odd")
    async def odd(ctx: Any, config: dict[str, Any]) -> Any:
        if "beat" in config:
            await ctx.heartbeat("x" * config["beat"])
        return float("nan")

    assert run(odd, {}).error_type == "ResultNotJson"
    assert run(odd, {"beat": 65_534}).error_type == "ResultNotJson"
    assert run(odd, {"beat": 65_535}).error_type == "DetailsTooLarge"


def test_a_batch_has_a_result_for_each() -> None:
    """One bad one fails alone; a wrong number of results fails all; run() gives a batch of one."""

    @action("many", batch=3)
    async def many(batch: Batch) -> list[Result]:
        results = [
            Result(config["n"]) if config["n"] else Result(error=ActionError("none", type="Zero"))
            for _, config in batch
        ]
        return results[:2]

    outcomes = run_batch(many, [{"n": 1}, {"n": 0}])

    assert [outcome.status for outcome in outcomes] == ["done", "failed"]
    assert outcomes[0].value == 1
    assert outcomes[1].error_type == "Zero"
    assert {o.error_type for o in run_batch(many, [{"n": 1}] * 3)} == {"WrongResults"}
    assert run(many, {"n": 7}).value == 7
    with pytest.raises(ValueError, match="declared for batch=3, not for 4 at once"):
        run_batch(many, [{"n": 1}] * 4)
    with pytest.raises(ValueError, match="declared for single actions, not for 2 at once"):
        run_batch(echo, [{}, {}])


def test_actions_of_a_batch_have_keys_of_their_own() -> None:
    """The first has the one that is given."""

    @action("keys", batch=2)
    def keys(batch: Batch) -> list[Result]:
        return [Result(ctx.idempotency_key) for ctx, _ in batch]

    first, second = run_batch(keys, [{}, {}], idempotency_key=KEY)

    assert first.value == KEY != second.value


# Time


def test_sleep_takes_no_time_but_the_clocks() -> None:
    """A day passes at once, in order, and to the microsecond."""
    clock = Clock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, clock.seconds))

    @action("sleeps", start_to_close=timedelta(days=2))
    async def sleeps(ctx: Context, config: dict[str, Any]) -> float:
        await asyncio.gather(sleeper("late", 86_400), sleeper("soon", 0.1), sleeper("mid", 3.3))
        return (clock.now() - ctx.deadline).total_seconds()

    began = time.monotonic()
    outcome = run(sleeps, {}, clock=clock)

    assert outcome.value == -86_400
    assert woken == [("soon", 0.1), ("mid", 3.3), ("late", 86_400)]
    assert time.monotonic() - began < 60


def test_time_passes_far_out() -> None:
    """After ten years of the clock a millisecond still ends a sleep."""
    clock = Clock()
    clock.advance(315_360_000)

    @action("naps")
    async def naps(ctx: Context, config: dict[str, Any]) -> None:
        for _ in range(100):
            await asyncio.sleep(0.001)

    assert run(naps, {}, clock=clock).status == "done"
    assert clock.seconds == pytest.approx(315_360_000.1)
    with pytest.raises(ValueError, match="time does not go back"):
        clock.advance(-1)


def test_a_socket_is_given_its_time() -> None:
    """While somebody outside may answer, no timeout fires that would not have fired."""
    near, far = socket.socketpair()
    near.setblocking(False)

    @action("asks")
    async def asks(ctx: Context, config: dict[str, Any]) -> str:
        loop = asyncio.get_running_loop()
        answer = asyncio.ensure_future(loop.sock_recv(near, 10))
        await asyncio.sleep(0)  # it listens from here on
        threading.Thread(target=far.sendall, args=[b"yes"]).start()
        return (await asyncio.wait_for(answer, LONG)).decode()

    clock = Clock()
    with near, far:
        assert run(asks, {}, clock=clock).value == "yes"
    assert clock.seconds < LONG / 2


def test_a_thread_is_given_its_time() -> None:
    """So is a call that a handler has handed to a thread."""
    gate = threading.Event()

    def wait() -> str:
        return "came" if gate.wait(LONG) else "missed"

    @action("threads")
    async def threads(ctx: Context, config: dict[str, Any]) -> str:
        call = asyncio.ensure_future(asyncio.to_thread(wait))
        await asyncio.sleep(0)
        threading.Thread(target=gate.set).start()
        return await asyncio.wait_for(call, 200)

    clock = Clock()
    assert run(threads, {}, clock=clock).value == "came"
    assert clock.seconds < 100


def test_a_test_that_is_async_is_told_to_be_plain() -> None:
    """A loop cannot run inside of another one."""

    async def within() -> None:
        run(echo, {})

    with pytest.raises(RuntimeError, match="write this test without async"):
        asyncio.run(within())


# Timeouts


def test_start_to_close_ends_an_attempt() -> None:
    """The handler is cancelled and may clean up; what it says then does not count."""
    clock, cleaned = Clock(), []

    @action("hangs", start_to_close=30)
    async def hangs(ctx: Context, config: dict[str, Any]) -> str:
        try:
            await asyncio.sleep(LONG)
        except asyncio.CancelledError:
            cleaned.append(clock.seconds)
        return "too late"

    outcome = run(hangs, {}, clock=clock)

    assert (outcome.status, outcome.error_type) == ("failed", "Timeout:StartToClose")
    assert cleaned == [30]


def test_an_attempt_that_declares_nothing_has_five_minutes() -> None:
    """As in a database with its own settings; one that ignores its end is left behind."""

    @action("stubborn")
    async def stubborn(ctx: Context, config: dict[str, Any]) -> None:
        for _ in range(20):
            try:
                await asyncio.sleep(LONG)
            except asyncio.CancelledError:
                continue

    clock = Clock()

    assert run(stubborn, {}, clock=clock).error_type == "Timeout:StartToClose"
    assert clock.seconds == 302


def test_a_heartbeat_that_does_not_come_ends_an_attempt() -> None:
    """Each one gives it as much time again, but no more than start_to_close."""

    @action("beats", start_to_close=100, heartbeat=20)
    async def beats(ctx: Any, config: dict[str, Any]) -> None:
        for pause in config["pauses"]:
            await asyncio.sleep(pause)
            await ctx.heartbeat()

    def ends(*pauses: float) -> tuple[str | None, float]:
        clock = Clock()
        return run(beats, {"pauses": pauses}, clock=clock).error_type, clock.seconds

    assert ends(19, 19, 19) == (None, 57)
    assert ends(19, 21, 1) == ("Timeout:Heartbeat", 39)
    assert ends(*[19] * 6) == ("Timeout:StartToClose", 100)


def test_timeouts_hold_for_plain_handlers_by_the_clock() -> None:
    """A thread cannot be cancelled: what it returns is dropped, and its next heartbeat tells it."""
    clock = Clock()
    told: list[str] = []

    @action("plainly", start_to_close=30, heartbeat=10)
    def plainly(ctx: Any, config: dict[str, Any]) -> str:
        clock.advance(config["seconds"])
        try:
            ctx.heartbeat()
        except Cancelled as exc:
            told.append(exc.reason)
        return "done all the same"

    assert run(plainly, {"seconds": 9}, clock=clock).status == "done"
    assert run(plainly, {"seconds": 11}, clock=clock).error_type == "Timeout:Heartbeat"
    assert told == ["timed_out"]


# Heartbeats, cancellation


@action("payout", start_to_close=7200, heartbeat=120)
async def payout(ctx: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Pay one after the other, from where an earlier attempt came to."""
    start = 0 if ctx.heartbeat_details is None else ctx.heartbeat_details + 1
    paid = []
    for index in range(start, config["items"]):
        if index == config.get("fails_at") and ctx.attempt == 1:
            raise ConnectionError("the bank does not answer")
        paid.append(index)
        await ctx.heartbeat(index)
    return {"from": start, "paid": len(paid)}


def test_heartbeats_are_recorded() -> None:
    """With their details, and those of an earlier attempt are there to go on from."""
    outcome = run(payout, {"items": 4}, heartbeat_details=1, attempt=2)

    assert outcome.value == {"from": 2, "paid": 2}
    assert outcome.heartbeats == (2, 3)
    assert outcome.heartbeat_details == 3


def test_a_heartbeat_without_details_keeps_them() -> None:
    """None is a value; nothing is none."""

    @action("keeps")
    def keeps(ctx: Any, config: dict[str, Any]) -> None:
        ctx.heartbeat({"at": 1})
        ctx.heartbeat()
        ctx.heartbeat(None)

    assert run(keeps, {}).heartbeats == ({"at": 1}, {"at": 1}, None)


def test_cancel_comes_with_the_nth_heartbeat() -> None:
    """It is an exception with a reason; let out, it ends the action as cancelled."""
    outcome = run(payout, {"items": 9}, cancel_after=3)

    assert outcome.cancelled
    assert isinstance(outcome.error, Cancelled)
    assert outcome.error.reason == "cancel_requested"
    assert outcome.heartbeats == (0, 1, 2)


def test_completion_may_win_over_a_cancel() -> None:
    """A handler that catches it and returns is done; one that raises something else has failed."""

    @action("decides")
    async def decides(ctx: Any, config: dict[str, Any]) -> Any:
        try:
            await ctx.heartbeat()
        except Cancelled:
            if config["raises"]:
                raise ValueError from None
        return ctx.cancel_requested

    assert run(decides, {"raises": False}, cancel_after=1).value is True
    assert run(decides, {"raises": True}, cancel_after=1).error_type == "ValueError"
    assert run(decides, {"raises": False}).value is False


def test_cancelled_without_a_request_is_a_failure() -> None:
    """Nobody asked: a handler cannot cancel its action."""

    @action("quits")
    async def quits(ctx: Context, config: dict[str, Any]) -> None:
        raise Cancelled

    assert run(quits, {}).status == "failed"


def test_what_is_done_after_a_lost_claim_does_not_count() -> None:
    """Whether or not the handler lets the exception out."""

    @action("goes_on")
    async def goes_on(ctx: Any, config: dict[str, Any]) -> str:
        try:
            await ctx.heartbeat()
        except Cancelled as exc:
            return exc.reason
        return "kept"

    outcome = run(goes_on, {}, lose_claim_after=1)

    assert outcome.status == "lost"
    with pytest.raises(Cancelled, match="claim_lost"):
        _ = outcome.value
    assert run(goes_on, {}).value == "kept"


# What may have been done before


def test_check_is_asked_first_where_it_may_be_done() -> None:
    """What it finds is the result; None lets the handler act; Unknown parks the action."""
    calls: list[str] = []

    async def look(ctx: Context, config: dict[str, Any]) -> Any:
        if config["far"] == "raises":
            raise Unknown
        return Unknown() if config["far"] == "returns" else config["far"]

    @action("checked", check=look)
    async def checked(ctx: Context, config: dict[str, Any]) -> str:
        calls.append(ctx.idempotency_key)
        return "acted"

    assert run(checked, {"far": "found"}).value == "acted"
    assert run(checked, {"far": "found"}, maybe_done=True).value == "found"
    assert run(checked, {"far": None}, maybe_done=True).value == "acted"
    assert len(calls) == 2
    for answer in ("raises", "returns"):
        outcomes = run_until_done(checked, {"far": answer}, maybe_done=True)
        assert [(o.error_type, o.retry_state) for o in outcomes] == [
            ("OutcomeUnknown", "non_retryable")
        ]


def test_connection_is_handed_over() -> None:
    """Awaited in `async`, plain in a thread; without one, an error says what to give."""

    @action("ledger_async")
    async def ledger_async(ctx: Any, config: dict[str, Any]) -> bool:
        return (await ctx.connection()) is conn

    @action("ledger")
    def ledger(ctx: Any, config: dict[str, Any]) -> bool:
        return ctx.connection() is conn

    conn = object()

    assert run(ledger_async, {}, connection=conn).value is True
    assert run(ledger, {}, connection=conn).value is True
    assert "give connection=" in str(run(ledger, {}).error)


# Twice


class Bank:
    """A far side that books by key, or does not look at keys."""

    def __init__(self, *, has_keys: bool) -> None:
        self.has_keys = has_keys
        self.booked: list[tuple[str, int]] = []

    def charge(self, key: str, amount: int) -> str:
        """Book, and return a reference."""
        entry = (key, amount)
        if not self.has_keys or entry not in self.booked:
            self.booked.append(entry)
        return f"receipt {self.booked.index(entry)}"


def charging(bank: Bank) -> Callable[..., Any]:
    """Return a handler that charges at *bank*."""

    @action("charge")
    async def charge(ctx: Context, config: dict[str, Any]) -> str:
        return bank.charge(ctx.idempotency_key, config["amount"])

    return charge


def test_run_twice_passes_where_the_key_is_heeded() -> None:
    """The outcome is that of the first call."""
    bank = Bank(has_keys=True)

    outcome = run_twice(charging(bank), {"amount": 5}, state=lambda: bank.booked)

    assert outcome.value == "receipt 0"
    assert len(bank.booked) == 1


def test_run_twice_says_what_changed() -> None:
    """A live list is compared with what it was, not with itself."""
    bank = Bank(has_keys=False)

    with pytest.raises(AssertionError, match=r"second call of .*charge changed the state") as told:
        run_twice(charging(bank), {"amount": 5}, state=lambda: bank.booked, idempotency_key=KEY)

    assert f"-[('{KEY}', 5)]\n+[('{KEY}', 5), ('{KEY}', 5)]" in str(told.value)


def test_run_twice_says_what_was_returned() -> None:
    """Another result under the same key is another effect for whoever reads it."""

    @action("counts")
    def counts(ctx: Context, config: dict[str, Any]) -> dict[str, int]:
        return {"attempt": ctx.attempt}

    with pytest.raises(AssertionError, match="returned something else") as told:
        run_twice(counts, {})

    assert "-{'attempt': 1}\n+{'attempt': 2}" in str(told.value)


def test_run_twice_demands_that_both_succeed() -> None:
    """What fails both times has shown nothing; what fails the second time is not repeatable."""

    @action("fails_from")
    def fails_from(ctx: Context, config: dict[str, Any]) -> None:
        if ctx.attempt >= config["attempt"]:
            raise ValueError("duplicate reference")

    for attempt, number in [(1, "first"), (2, "second")]:
        with pytest.raises(AssertionError, match=f"{number} call .* failed: ValueError: dupl"):
            run_twice(fails_from, {"attempt": attempt})


def test_run_twice_gives_the_second_call_a_config_of_its_own() -> None:
    """A handler that spoils its config spoils nothing, as with a database."""

    @action("spoils")
    def spoils(ctx: Context, config: dict[str, Any]) -> Any:
        return config.pop("once")

    config = {"once": 1}

    assert run_twice(spoils, config).value == 1
    assert config == {"once": 1}


def test_run_twice_asks_check_the_second_time() -> None:
    """A bank without keys is safe with a check before the act."""
    bank = Bank(has_keys=False)

    def look(ctx: Context, config: dict[str, Any]) -> str | None:
        return "receipt 0" if bank.booked else None

    @action("charge_checked", check=look)
    def charge_checked(ctx: Context, config: dict[str, Any]) -> str:
        return bank.charge(ctx.idempotency_key, config["amount"])

    run_twice(charge_checked, {"amount": 5}, state=lambda: bank.booked)


# Until it ends


def failing(times: int, error: BaseException, **declared: Any) -> Callable[..., Any]:
    """Return a handler that fails so many times, then says which attempt it is."""

    @action("fails", **declared)
    async def fails(ctx: Context, config: dict[str, Any]) -> int:
        if ctx.attempt <= times:
            raise error
        return ctx.attempt

    return fails


def test_retries_follow_the_default_policy() -> None:
    """Four attempts, 10, 20 and 40 seconds apart."""
    clock = Clock()
    outcomes = run_until_done(failing(9, ValueError("no")), {}, clock=clock)

    assert [outcome.error_type for outcome in outcomes] == ["ValueError"] * 4
    assert [o.retry_state for o in outcomes] == [None, None, None, "maximum_attempts_reached"]
    assert clock.seconds == 70


def test_retries_follow_the_declared_policy() -> None:
    """The interval grows to its longest; an error's own delay replaces one of them."""
    retry = Retry(
        initial_interval=1, backoff_coefficient=3, maximum_interval=10, maximum_attempts=0
    )
    clock = Clock()
    last = run_until_done(failing(4, ValueError("no"), retry=retry), {}, clock=clock)[-1]
    assert (last.value, clock.seconds) == (5, 1 + 3 + 9 + 10)

    clock = Clock()
    late = ActionError("busy", next_retry_delay=500)
    run_until_done(failing(1, late, retry=retry), {}, clock=clock)
    assert clock.seconds == 500


@pytest.mark.parametrize(
    "error",
    [ActionError("x", non_retryable=True), ActionError("x", type="BankRejected"), Unknown("x")],
)
def test_non_retryable_ends_at_once(error: Exception) -> None:
    """By the error itself, by its type in the policy, and where nobody knows."""
    handler = failing(9, error, retry=Retry(non_retryable=["BankRejected"]))

    assert [o.retry_state for o in run_until_done(handler, {})] == ["non_retryable"]


def test_no_retry_is_waited_for_that_could_not_begin() -> None:
    """The failure is reported as itself, a timeout as that of scheduleToClose."""
    clock = Clock()
    plain = run_until_done(failing(9, ValueError(), schedule_to_close=30), {}, clock=clock)

    assert [(o.error_type, o.retry_state) for o in plain] == [
        ("ValueError", None),
        ("ValueError", "timeout"),
    ]
    assert clock.seconds == 10

    @action("hangs_short", start_to_close=5, schedule_to_close=15)
    async def hangs_short(ctx: Context, config: dict[str, Any]) -> None:
        await asyncio.sleep(LONG)

    hung = run_until_done(hangs_short, {})
    assert [o.error_type for o in hung] == ["Timeout:ScheduleToClose"]
    assert hung[0].error
    assert "the time of the attempt was over" in str(hung[0].error.__cause__)


def test_details_go_from_attempt_to_attempt() -> None:
    """The second attempt goes on where the first came to, under the same key."""
    first, second = run_until_done(payout, {"items": 10, "fails_at": 6})

    assert first.heartbeat_details == 5
    assert second.value == {"from": 6, "paid": 4}


def test_a_cancel_comes_in_the_attempt_where_it_falls() -> None:
    """Counted over all attempts; a failure after it is not tried again."""
    outcomes = run_until_done(payout, {"items": 10, "fails_at": 6}, cancel_after=8)

    assert [(o.status, o.retry_state) for o in outcomes] == [
        ("failed", None),
        ("cancelled", "cancel_requested"),
    ]
    assert outcomes[1].heartbeats == (6, 7)


def test_a_lost_claim_is_followed_by_another_attempt() -> None:
    """Lost once, not for ever."""
    outcomes = run_until_done(payout, {"items": 9}, lose_claim_after=2)

    assert [o.status for o in outcomes] == ["lost", "done"]
    assert outcomes[1].value == {"from": 2, "paid": 7}


def test_attempts_without_an_end_are_told() -> None:
    """Rather than go on for ever."""
    retry = Retry(maximum_attempts=0, backoff_coefficient=1e10)

    with pytest.raises(AssertionError, match="has failed 1000 times, and its policy has no limit"):
        run_until_done(failing(10**9, ValueError("no"), retry=retry), {})


# Documentation


def test_readme_says_what_works(tmp_path: Path) -> None:
    """Its handler passes its test, and misses nothing that it claims; one without a key fails."""
    section = (ROOT / "README.md").read_text().split("## Handlers")[1]
    handler, test = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[:2]
    (tmp_path / "bank.py").write_text("class Refused(Exception): ...\ndef debit(): ...\n")
    (tmp_path / "handlers.py").write_text(handler)
    (tmp_path / "test_handlers.py").write_text(test)

    def tested() -> int:
        arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_handlers.py"]
        return subprocess.run([sys.executable, *arguments], cwd=tmp_path, check=False).returncode

    checked = subprocess.run(
        [sys.executable, "-m", "pgwhen", "check", "handlers.py", "--tests", ".", "--strict"],
        cwd=tmp_path, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert tested() == 0
    assert "\n6 ok, 0 missing, 1 that somebody must look at\n" in checked.stdout, checked
    assert checked.returncode == 0
    (tmp_path / "handlers.py").write_text(handler.replace("ctx.idempotency_key", "ctx.attempt"))
    assert tested() == 1


def test_a_key_goes_out_with_one_body() -> None:
    """Within one call of run_twice or run_until_done, as in the database; in threads too."""

    @action("pay")
    async def pay(ctx: Context, config: dict[str, Any]) -> str:
        return str(await ctx.key_for({"satang": config["satang"], "at": config.get("at")}))

    @action("wobbles")
    def wobbles(ctx: Context, _config: dict[str, Any]) -> str:
        return str(ctx.key_for(f"attempt {ctx.attempt}"))

    assert run_twice(pay, {"satang": 5}, idempotency_key="k").value == "k"
    with pytest.raises(AssertionError, match=r"second call of .* ended as failed: KeyReused"):
        run_twice(wobbles, {})
    assert run(wobbles, {}).status == "done"


def test_results_have_the_limit_that_they_have_in_the_database() -> None:
    """64 KiB."""

    @action("large")
    async def large(_ctx: Context, config: dict[str, Any]) -> str:
        return "x" * int(config["size"])

    assert run(large, {"size": 65_534}).status == "done"
    outcome = run(large, {"size": 65_535})
    assert (outcome.status, outcome.error_type) == ("failed", "ResultTooLarge")


@pytest.mark.parametrize("delay", ["soon", -5, float("nan"), float("inf")])
def test_a_delay_that_is_none_counts_for_nothing(delay: Any) -> None:
    """The policy's interval holds, as in the database."""
    clock = Clock()

    @action("busy", retry=Retry(initial_interval=7, maximum_attempts=2))
    async def busy(_ctx: Context, _config: dict[str, Any]) -> None:
        raise ActionError("busy", next_retry_delay=delay)

    assert len(run_until_done(busy, {}, clock=clock)) == 2
    assert clock.seconds == 7


def test_secrets_are_filled_in() -> None:
    """What the test gives for them; one that it does not give is named."""

    @action("push")
    async def push(_ctx: Context, config: dict[str, Any]) -> str:
        return str(config["token"])

    config = {"token": {"$secret": "line-token"}}
    assert run(push, config, secrets={"line-token": "s3cret"}).value == "s3cret"
    with pytest.raises(TypeError, match=r"give secrets=\{'line-token': …\} too"):
        run(push, config)
