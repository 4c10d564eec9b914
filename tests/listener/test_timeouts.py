"""Timeouts: what a handler says of them, and what they do to it."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import action
from pgwhen.errors import HandlerError

if TYPE_CHECKING:
    from .conftest import Process, Shop

SLOW = """
import asyncio
from pgwhen import Retry, action

@action("slow", start_to_close=0.2, retry=Retry(maximum_attempts=1))
async def slow(ctx, config):
    await asyncio.Event().wait()
"""


def test_a_handler_tells_its_timeouts() -> None:
    """In seconds, and in the words of the database; what is not said is not told."""

    @action("pay", start_to_close=30, schedule_to_close=timedelta(days=1), schedule_to_start=0.5)
    async def pay(ctx: Any, config: Any) -> None: ...

    (handler,) = pay.__pgwhen_actions__  # type: ignore[attr-defined]
    assert handler.options == {
        "timeouts": {"startToClose": 30, "scheduleToClose": 86400.0, "scheduleToStart": 0.5}
    }


@pytest.mark.parametrize("name", ["start_to_close", "schedule_to_close", "schedule_to_start"])
@pytest.mark.parametrize(
    "value", [0, -1, 1e-9, 1e9, math.nan, math.inf, "30", True, timedelta(0), timedelta(days=-1)]
)
def test_what_is_no_time_is_refused(name: str, value: Any) -> None:
    """With the name of the argument, before anything is registered."""
    with pytest.raises(HandlerError, match=f"^{name} is "):
        action("pay", **{name: value})(print)


def test_an_attempt_ends_when_it_should(shop: Shop, listener: Process) -> None:
    """What the decorator says is in force in the database and in the listener."""
    listener.start(SLOW)
    shop.rule("slow")
    shop.submit("slow")
    [row] = shop.wait_ended()
    assert row["status"] == "failed"
    assert row["error_message"].startswith("Timeout:StartToClose: ")
    assert row["retry_state"] == "maximum_attempts_reached"
