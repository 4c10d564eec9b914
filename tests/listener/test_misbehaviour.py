"""Handlers that misbehave: each harms its own action, says so in its row, and nobody else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Process, Shop

BAD = """
import _thread, asyncio, math, sys
from pgwhen import ActionError, Batch, Result, action

class Custom(Exception): ...

def raises(ctx, config): raise Custom("no\\0 such \\ud800 thing")
def refuses(ctx, config):
    raise ActionError("no such account", type="BankRejected", non_retryable=True)
def exits(ctx, config): sys.exit("bye")
def ends_its_thread(ctx, config): _thread.exit()
def stops_iteration(ctx, config): next(iter(()))
def gives_nan(ctx, config): return {"rate": math.nan}
def gives_infinity(ctx, config): return -math.inf
def gives_object(ctx, config): return object()
def gives_nul(ctx, config): return ["a\\0b"]
def gives_surrogate(ctx, config): return "\\ud83d"
def gives_bytes(ctx, config): return b"x"
def gives_loop(ctx, config): x = []; x.append(x); return x
def gives_depth(ctx, config):
    x = []
    for _ in range(100_000): x = [x]
    return x
def gives_too_much(ctx, config): return "x" * 3_000_000
def gives_long_number(ctx, config): return 10 ** 5000
def gives_coroutine(ctx, config): return awaited()
async def awaited(): ...
def cancels(ctx, config): raise asyncio.CancelledError
def interrupts(ctx, config): raise KeyboardInterrupt

for function in list(vars().values()):
    if getattr(function, "__code__", None) and function.__code__.co_varnames[:1] == ("ctx",):
        def threaded(ctx, config, function=function): return function(ctx, config)
        async def awaiting(ctx, config, function=function): return function(ctx, config)
        vars()[function.__name__ + "_t"] = action(function.__name__ + "_threaded")(threaded)
        vars()[function.__name__ + "_a"] = action(function.__name__ + "_async")(awaiting)

@action("wrong_number", batch=10)
async def wrong_number(batch): return [Result()]
@action("wrong_things", batch=10)
async def wrong_things(batch): return list(batch)
@action("wrong_shape", batch=10)
async def wrong_shape(batch): return None
@action("batch_raises", batch=10)
async def batch_raises(batch): raise Custom("all of them")

@action("good")
async def good(ctx, config): return "good"
"""

NOT_JSON = "ResultNotJson: the handler's result cannot be kept as JSON: "


@pytest.mark.parametrize("way", ["threaded", "async"])
def test_bad_handlers_harm_only_themselves(listener: Process, shop: Shop, way: str) -> None:
    """Each bad one ends as failed with words, those after it are done, the process goes on."""
    expected = {
        "raises": r"Custom: no\0 such \ud800 thing",
        "refuses": "BankRejected: no such account",
        "exits": "SystemExit: bye",
        "ends_its_thread": "SystemExit: SystemExit()",
        "stops_iteration": "StopIteration: StopIteration()"
        if way == "threaded"
        else "RuntimeError: coroutine raised StopIteration",
        "gives_nan": NOT_JSON + "ValueError: Out of range float values are not JSON compliant",
        "gives_infinity": NOT_JSON + "ValueError: Out of range float values",
        "gives_object": NOT_JSON + "TypeError: Object of type object is not JSON serializable",
        "gives_nul": NOT_JSON + "it has a NUL character",
        "gives_surrogate": NOT_JSON + "UnicodeEncodeError: ",
        "gives_bytes": NOT_JSON + "TypeError: Object of type bytes is not JSON serializable",
        "gives_loop": NOT_JSON + "ValueError: Circular reference detected",
        "gives_depth": NOT_JSON + "RecursionError: ",
        "gives_too_much": "ResultTooLarge: the handler's result has 3000002 bytes, more ",
        "gives_long_number": NOT_JSON + "ValueError: Exceeds the limit",
        "gives_coroutine": NOT_JSON + "TypeError: Object of type coroutine",
        "cancels": "CancelledError: CancelledError()",
        "interrupts": "KeyboardInterrupt: KeyboardInterrupt()",
    }
    shop.set("maxRetries", 0)
    shop.rule("good")
    for name in expected:
        shop.rule(f"{name}_{way}")
    listener.start(BAD)
    for name in expected:
        shop.submit(f"{name}_{way}")
        shop.submit("good")

    rows = shop.wait_ended(2 * len(expected))
    failed = {r["action_type"]: r["error_message"] for r in rows if r["status"] == "failed"}

    assert failed.keys() == {f"{name}_{way}" for name in expected}
    for name, message in expected.items():
        assert failed[f"{name}_{way}"].startswith(message)
    assert [r["result"] for r in rows if r["status"] == "done"] == ["good"] * len(expected)
    assert listener.stop() == 0


def test_bad_batches_fail_whole(listener: Process, shop: Shop) -> None:
    """Without one Result for each action nobody knows which was done, so all have failed."""
    expected = {
        "wrong_number": "WrongResults: the handler returned 1 results, not a list of 2 Result",
        "wrong_things": "WrongResults: the handler returned a list of other things, not",
        "wrong_shape": "WrongResults: the handler returned NoneType, not a list",
        "batch_raises": "Custom: all of them",
    }
    shop.set("maxRetries", 0)
    for name in expected:
        shop.rule(name)
        shop.submit(name, 2)
    listener.start(BAD)

    rows = shop.wait_ended(8)

    for name, message in expected.items():
        messages = [row["error_message"] for row in rows if row["action_type"] == name]
        assert len(messages) == 2
        assert all(text.startswith(message) for text in messages)


def test_failed_action_is_tried_again_when_its_handler_says(listener: Process, shop: Shop) -> None:
    """The error's own delay replaces the backoff; the key stays, the attempt counts."""
    shop.rule("twice")
    listener.start(
        """
from pgwhen import ActionError, action
keys = []
@action("twice")
async def twice(ctx, config):
    keys.append(ctx.idempotency_key)
    if ctx.attempt < 3:
        raise ActionError("busy", next_retry_delay=0)
    return keys
"""
    )
    shop.submit("twice")

    row = shop.wait_ended()[0]

    assert (row["status"], row["retry_count"]) == ("done", 2)
    assert row["result"] == [row["key"]] * 3


HANGING = """
import asyncio, threading
from pgwhen import action

@action("hangs_async")
async def hangs_async(ctx, config):
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        ctx.logger.info("was cancelled")
        raise

@action("hangs_in_thread")
def hangs_in_thread(ctx, config):
    threading.Event().wait()

@action("will_not_go")
async def will_not_go(ctx, config):
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ctx.logger.info("was cancelled")

@action("plain")
async def plain(ctx, config): ...
"""


@pytest.mark.parametrize("kind", ["hangs_async", "hangs_in_thread", "will_not_go"])
def test_hanging_handler_fails_at_its_deadline(listener: Process, shop: Shop, kind: str) -> None:
    """The row says so at once, and others are served meanwhile."""
    shop.set("maxRetries", 0)
    shop.set("staleProcessingMinute", 0.01)
    shop.rule(kind)
    shop.rule("plain")
    listener.start(HANGING)
    shop.submit(kind)
    shop.submit("plain")

    rows = {row["action_type"]: row for row in shop.wait_ended(2)}

    assert rows["plain"]["status"] == "done"
    assert rows[kind]["status"] == "failed"
    assert rows[kind]["error_message"].startswith("Timeout:StartToClose: ")
    if kind != "hangs_in_thread":
        listener.wait_log("was cancelled")
    assert listener.running


def test_late_result_of_a_thread_is_dropped(listener: Process, shop: Shop) -> None:
    """It timed out, so it failed; what the thread returns afterwards changes nothing."""
    shop.set("maxRetries", 0)
    shop.set("staleProcessingMinute", 0.01)
    shop.rule("gated")
    shop.close_gate()
    listener.start()
    shop.submit("gated")
    assert shop.wait_ended()[0]["status"] == "failed"
    shop.open_gate()
    shop.rule("plain")
    shop.submit("plain")

    assert [row["status"] for row in shop.wait_ended(2)] == ["failed", "done"]
    assert listener.stop() == 0
    assert "outcome=Done" not in listener.log


def test_process_ends_when_stuck_threads_leave_no_room(listener: Process, shop: Shop) -> None:
    """A process that can do nothing any more does not stand there as if it were well."""
    shop.set("maxRetries", 0)
    shop.set("staleProcessingMinute", 0.01)
    shop.rule("hangs_in_thread")
    listener.start(HANGING, PGWHEN_THREADS="2")
    shop.submit("hangs_in_thread", 2)

    assert listener.wait() == 1
    assert "2 handlers ran past their deadlines and leave no room" in listener.log


def test_log_holds_no_words_of_customers(listener: Process, shop: Shop) -> None:
    """Neither configs nor events nor errors' messages are logged at the normal level."""
    shop.set("maxRetries", 0)
    shop.rule("raises_async", {"text": "SECRET-config"})
    listener.start(BAD.replace('Custom("no\\0 such', 'Custom(str(config) + "SECRET-error'))
    shop.conn.execute(
        "insert into pgwhen.form_submission (user_id, form_id, data)"
        " values ('u', 'raises_async', '{\"a\": \"SECRET-data\"}')"
    )
    listener.wait_log("action failed action=.*error=Custom at=handlers.py:.* in raises")

    assert "SECRET" not in listener.log
    assert "SECRET-config" in shop.wait_ended()[0]["error_message"]
