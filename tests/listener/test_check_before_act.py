"""`check=`: before an attempt that may do it again, the far side is asked what it has."""

from __future__ import annotations

import asyncio
import builtins
import gc
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import ActionError, Context, KeyReused, Retry, Unknown, action
from pgwhen.errors import HandlerError

from .conftest import declared, running
from .test_heartbeats import ended, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from pgwhen.settings import Settings

    from .conftest import Shop

SOON = Retry(initial_interval=0.01)


class Bank:
    """Books what it is told; the answer to the first call is lost. What it says, *find* says."""

    def __init__(self, find: Callable[[Context], Any]) -> None:
        self.booked: list[str] = []
        self.asked: list[int] = []
        self._find = find

    def pay(self, ctx: Context) -> dict[str, Any]:
        """Book, and lose the first answer."""
        self.booked.append(ctx.idempotency_key)
        if len(self.booked) == 1:
            raise ConnectionError("no answer")
        return {"receipt": len(self.booked)}

    def find(self, ctx: Context) -> Any:
        """Say what there is."""
        self.asked.append(ctx.attempt)
        return self._find(ctx)


def handler(bank: Bank, way: str) -> Any:
    """Return a handler that pays, and asks before it pays again."""

    async def check(ctx: Context, _config: Any) -> Any:
        return bank.find(ctx)

    async def pay(ctx: Context, _config: Any) -> Any:
        return bank.pay(ctx)

    def check_in_thread(ctx: Context, _config: Any) -> Any:
        return bank.find(ctx)

    def pay_in_thread(ctx: Context, _config: Any) -> Any:
        return bank.pay(ctx)

    if way == "async":
        return action("pay", retry=SOON, check=check)(pay)
    return action("pay", retry=SOON, check=check_in_thread)(pay_in_thread)


async def outcome(settings: Settings, shop: Shop, bank: Bank, way: str) -> dict[str, Any]:
    """Return the row of the action, ended."""
    async with running(settings, declared(handler(bank, way))):
        shop.rule("pay")
        shop.submit("pay")
        [row] = await ended(shop)
    return row


ways = pytest.mark.parametrize("way", ["async", "thread"])


@ways
async def test_what_is_found_is_the_result(settings: Settings, shop: Shop, way: str) -> None:
    """Nothing is sent a second time, and before the first attempt nobody is asked."""
    bank = Bank(lambda _: {"receipt": "found"})
    row = await outcome(settings, shop, bank, way)
    assert (row["status"], row["result"]) == ("done", {"receipt": "found"})
    assert (len(bank.booked), bank.asked) == (1, [2])


@ways
async def test_where_there_is_nothing_it_is_sent(settings: Settings, shop: Shop, way: str) -> None:
    """None says so; False, 0 and {} are findings."""
    bank = Bank(lambda _: None)
    row = await outcome(settings, shop, bank, way)
    assert (row["status"], row["result"]) == ("done", {"receipt": 2})
    assert (len(bank.booked), bank.asked) == (2, [2])


@pytest.mark.parametrize("finding", [False, 0, {}, "", []])
async def test_a_finding_may_be_empty(settings: Settings, shop: Shop, finding: Any) -> None:
    """It is a finding."""
    bank = Bank(lambda _: finding)
    row = await outcome(settings, shop, bank, "async")
    assert (row["status"], row["result"], len(bank.booked)) == ("done", finding, 1)


def _raise(exc: Exception) -> Any:
    raise exc


@ways
@pytest.mark.parametrize("how", ["returned", "raised"])
async def test_who_does_not_know_parks_it(
    settings: Settings, shop: Shop, way: str, how: str
) -> None:
    """Failed for good, in the words of the check, and a person may retry it by hand."""
    unknown = Unknown("the bank is closed until Monday")
    bank = Bank((lambda _: unknown) if how == "returned" else lambda _: _raise(unknown))
    row = await outcome(settings, shop, bank, way)
    assert (row["status"], row["retry_state"]) == ("failed", "non_retryable")
    assert row["error_message"] == "OutcomeUnknown: the bank is closed until Monday"
    assert len(bank.booked) == 1


@ways
async def test_a_check_that_fails_is_tried_again(settings: Settings, shop: Shop, way: str) -> None:
    """Without an answer nothing is sent."""
    bank = Bank(lambda ctx: _raise(OSError("down")) if ctx.attempt == 2 else {"receipt": "found"})
    row = await outcome(settings, shop, bank, way)
    assert (row["status"], row["result"]) == ("done", {"receipt": "found"})
    assert (len(bank.booked), bank.asked) == (1, [2, 3])


async def test_after_a_certain_failure_it_is_asked_too(settings: Settings, shop: Shop) -> None:
    """An ActionError says that it failed, not that nothing arrived: asking costs little."""
    asked = []

    async def check(ctx: Context, _config: Any) -> None:
        asked.append(ctx.maybe_done)

    @action("pay", retry=SOON, check=check)
    async def pay(ctx: Context, _config: Any) -> None:
        if ctx.attempt == 1:
            raise ActionError("busy")

    async with running(settings, declared(pay)):
        shop.rule("pay")
        shop.submit("pay")
        await ended(shop)
    assert asked == [True]


def test_a_check_that_cannot_be_called_is_refused() -> None:
    """When it is declared, with what to write instead."""

    async def pay(ctx: Any, config: Any) -> None: ...
    async def many(batch: Any) -> None: ...
    async def check(ctx: Any, config: Any) -> None: ...
    def in_thread(ctx: Any, config: Any) -> None: ...
    async def odd(ctx: Any) -> None: ...

    for function, options, words in (
        (pay, {"check": in_thread}, "not of one kind"),
        (pay, {"check": odd}, "odd cannot be called: too many positional arguments"),
        (many, {"check": check, "batch": 5}, "check goes with handlers of single actions"),
    ):
        with pytest.raises(HandlerError, match=words):
            action("pay", **options)(function)
    assert declared(action("pay", check=check)(pay)).options["check"] is True


@ways
async def test_a_key_goes_out_with_one_body(settings: Settings, shop: Shop, way: str) -> None:
    """The same body again is fine, in whatever order; another one is refused, and parked."""
    sent: list[Any] = []

    def body(attempt: int) -> dict[str, Any]:
        amount = 5 if attempt < 3 else 6
        items = [("amount", amount), ("to", "4711")]
        return dict(items if attempt == 1 else reversed(items))

    async def pay(ctx: Context, _config: Any) -> None:
        key = await ctx.key_for(body(ctx.attempt))
        sent.append((ctx.attempt, key == ctx.idempotency_key))
        raise ConnectionError("no answer")

    def pay_in_thread(ctx: Context, _config: Any) -> None:
        key = ctx.key_for(body(ctx.attempt))
        sent.append((ctx.attempt, key == ctx.idempotency_key))
        raise ConnectionError("no answer")

    function = pay if way == "async" else pay_in_thread
    action("pay", retry=SOON)(function)
    async with running(settings, declared(function)):
        shop.rule("pay")
        shop.submit("pay")
        [row] = await ended(shop)
    assert sent == [(1, True), (2, True)]
    assert (row["status"], row["retry_state"]) == ("failed", "non_retryable")
    assert row["error_message"].startswith("KeyReused: another body has gone out under this key")
    assert issubclass(KeyReused, Unknown)


async def test_causes_are_kept(settings: Settings, shop: Shop) -> None:
    """`raise … from` reaches the row, the nearest first; a circle of them ends."""

    @action("pay", retry=Retry(maximum_attempts=1))
    async def pay(_ctx: Context, _config: Any) -> None:
        unreachable = ActionError("cannot reach it", type="Unreachable")
        unreachable.__cause__ = OSError("no route to host")
        raise RuntimeError("payment failed") from unreachable

    @action("circle", retry=Retry(maximum_attempts=1))
    async def circle(_ctx: Context, _config: Any) -> None:
        first, second = RuntimeError("chicken"), RuntimeError("egg")
        first.__cause__, second.__cause__ = second, first
        raise first

    async with running(settings, declared(pay), declared(circle)):
        for name in ("pay", "circle"):
            shop.rule(name)
            shop.submit(name)
        rows = await ended(shop, 2)
    errors = {row["action_type"]: row["error_message"] for row in rows}
    assert errors["pay"] == (
        "RuntimeError: payment failed; caused by Unreachable: cannot reach it"
        "; caused by OSError: no route to host"
    )
    assert errors["circle"] == "RuntimeError: chicken; caused by RuntimeError: egg"


async def test_a_context_is_of_no_use_elsewhere() -> None:
    """Without a worker it says what to use instead."""
    ctx = Context(
        1, "pay", 1, "u", "oa", "org", None, None, None, None, "key"  # type: ignore[arg-type]
    )  # fmt: skip
    for use in (ctx.heartbeat, ctx.connection, lambda: ctx.key_for("x")):
        with pytest.raises(RuntimeError, match=r"pgwhen\.testing\.run"):
            use()
    await asyncio.sleep(0)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no groups")
@pytest.mark.parametrize(
    ("errors", "error", "retry_state"),
    [
        ([OSError("a"), KeyError("b")], "OSError: a; caused by KeyError: 'b'", "maximum"),
        ([OSError("a"), ActionError("b")], "ActionError: b; caused by OSError: a", "maximum"),
        (
            [OSError("a"), ActionError("b", type="Rejected", non_retryable=True)],
            "Rejected: b; caused by OSError: a",
            "non_retryable",
        ),
        ([ActionError("a"), Unknown("b")], "OutcomeUnknown: b; caused by ActionError: a", "non_"),
    ],
)
async def test_of_a_group_that_counts_which_decides(
    settings: Settings, shop: Shop, errors: list[Exception], error: str, retry_state: str
) -> None:
    """What a TaskGroup raises is told as the error in it that says most; the others beside it."""

    @action("pay", retry=Retry(maximum_attempts=1))
    async def pay(_ctx: Context, _config: Any) -> None:
        group = vars(builtins)["ExceptionGroup"]
        raise group("of tasks", [group("inner", errors)])

    async with running(settings, declared(pay)):
        shop.rule("pay")
        shop.submit("pay")
        [row] = await ended(shop)
    assert row["error_message"] == error
    assert row["retry_state"].startswith(retry_state)


@pytest.mark.parametrize("way", ["result", "size", "details", "number of results"])
async def test_what_cannot_be_kept_keeps_its_slot(settings: Settings, shop: Shop, way: str) -> None:
    """The handler did its work: the rule may not do it again because of what it told."""
    calls = []

    @action("send")
    async def send(ctx: Context, _config: Any) -> Any:
        calls.append(1)
        if way == "details":
            await ctx.heartbeat(object())
        return object() if way == "result" else "x" * 70_000

    @action("many", batch=5)
    async def many(_batch: Any) -> list[Any]:
        calls.append(1)
        return []

    name = "many" if way == "number of results" else "send"
    async with running(settings, declared(send), declared(many)):
        shop.rule(name)
        shop.conn.execute("update pgwhen.trigger_rule set frequency = 'once_per_day'")
        for count in (1, 2):
            shop.submit(name)
            await ended(shop)
            await seen(
                shop,
                "select count(*) = %s from pgwhen.trigger_log where status <> 'pending'",
                count,
            )
    assert len(calls) == 1


async def test_what_a_handler_leaves_behind_is_logged_without_words(
    settings: Settings, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """A task that raises when nobody awaits it: its type and place, not what a customer wrote."""

    @action("pay")
    async def pay(_ctx: Context, _config: Any) -> None:
        async def later() -> None:
            raise ValueError("Ann's salary")

        task = asyncio.create_task(later())
        await asyncio.wait([task])
        del task

    async with running(settings, declared(pay)):
        shop.rule("pay")
        shop.submit("pay")
        await ended(shop)
        gc.collect()
    [record] = [r for r in caplog.records if r.message == "left behind in the event loop"]
    assert record.fields["error"] == "ValueError"  # type: ignore[attr-defined]
    assert "Ann" not in caplog.text


async def test_warnings_of_the_database_are_logged(
    settings: Settings, shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """A heartbeat that is hardly shorter than the attempt, say."""

    @action("pay", start_to_close=10, heartbeat=8)
    async def pay(_ctx: Context, _config: Any) -> None: ...

    async with running(settings, declared(pay)):
        shop.rule("pay")
        shop.submit("pay")
        await ended(shop)
    assert "heartbeat" in caplog.text


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: action(print), "has no name"),  # type: ignore[arg-type]
        (lambda: action("many", batch="5")(print), "batch is '5'"),  # type: ignore[arg-type]
        (lambda: action("odd")(_generator), "is a generator, and would never run"),
        (lambda: action("odd")(_async_generator), "is a generator, and would never run"),
    ],
)
def test_odd_declarations_are_refused(declare: Callable[[], Any], words: str) -> None:
    """With words, when they are made."""
    with pytest.raises(HandlerError, match=words):
        declare()


def _generator(_ctx: Any, _config: Any) -> Any:
    yield 1


async def _async_generator(_ctx: Any, _config: Any) -> Any:
    yield 1
