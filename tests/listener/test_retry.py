"""Retry: what a handler says of its retries, and what the database is told."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from pgwhen import Retry, action
from pgwhen.errors import HandlerError

if TYPE_CHECKING:
    from tests.support import Database

    from .conftest import Process, Shop

EVERYTHING = Retry(
    initial_interval=timedelta(minutes=1),
    backoff_coefficient=1.5,
    maximum_interval=3600,
    maximum_attempts=0,
    non_retryable=["BankRejected"],
)


def test_policy_has_the_words_of_the_database() -> None:
    """Intervals are seconds; what is not said is not told, and 0 attempts are said."""
    assert EVERYTHING.policy == {
        "initialInterval": 60,
        "backoffCoefficient": 1.5,
        "maximumInterval": 3600,
        "maximumAttempts": 0,
        "nonRetryableErrorTypes": ["BankRejected"],
    }
    assert Retry().policy == {}
    assert Retry(non_retryable=[]).policy == {}


def test_handler_tells_its_policy() -> None:
    """@action hands it on, beside the other options."""

    @action("charge_bank", retry=Retry(maximum_attempts=7), send=True)
    async def charge_bank(ctx: Any, config: Any) -> None: ...

    @action("plain")
    async def plain(ctx: Any, config: Any) -> None: ...

    (charging,) = charge_bank.__pgwhen_actions__  # type: ignore[attr-defined]
    (other,) = plain.__pgwhen_actions__  # type: ignore[attr-defined]

    assert charging.options == {"send": True, "retryPolicy": {"maximumAttempts": 7}}
    assert other.options == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("initial_interval", 0),
        ("initial_interval", -1),
        ("initial_interval", math.nan),
        ("initial_interval", math.inf),
        ("initial_interval", timedelta(0)),
        ("initial_interval", timedelta(days=3651)),
        ("initial_interval", "1 minute"),
        ("initial_interval", True),
        ("maximum_interval", 0),
        ("maximum_interval", timedelta(seconds=-1)),
        ("maximum_interval", []),
        ("backoff_coefficient", 0.999),
        ("backoff_coefficient", -2),
        ("backoff_coefficient", 1.1e10),
        ("backoff_coefficient", math.nan),
        ("backoff_coefficient", "2"),
        ("maximum_attempts", -1),
        ("maximum_attempts", 1.0),
        ("maximum_attempts", True),
        ("maximum_attempts", 1_000_001),
        ("maximum_attempts", "many"),
        ("non_retryable", "BankRejected"),
        ("non_retryable", None),
        ("non_retryable", [ValueError]),
        ("non_retryable", ["BankRejected", ""]),
    ],
)
def test_what_could_be_no_policy_is_refused(name: str, value: Any) -> None:
    """The message names the argument and its value, the hint what to write instead."""
    with pytest.raises(HandlerError) as caught:
        Retry(**{name: value})

    assert str(caught.value) == f"Retry: {name} is {value!r}"
    assert caught.value.hint


def test_maximum_is_no_shorter_than_the_first_interval() -> None:
    """Equal is good enough."""
    Retry(initial_interval=timedelta(seconds=5), maximum_interval=5)

    with pytest.raises(HandlerError, match=r"maximum_interval is 4\.9") as caught:
        Retry(initial_interval=5, maximum_interval=4.9)
    assert "from initial_interval" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "retry",
    [
        EVERYTHING,
        Retry(),
        Retry(initial_interval=0.001, backoff_coefficient=1, maximum_interval=0.001),
        Retry(initial_interval=315_360_000, backoff_coefficient=1e10, maximum_attempts=1_000_000),
    ],
    ids=repr,
)
def test_database_takes_what_is_not_refused(template: Database, retry: Retry) -> None:
    """It keeps the policy as it was declared."""
    options = {"retryPolicy": retry.policy}
    with template.connect() as conn, conn.transaction(force_rollback=True):
        conn.execute("select pgwhen.register_action('x', options => %s)", [Jsonb(options)])
        row = conn.execute(
            "select options -> 'retryPolicy' from _pgwhen.action_type where name = 'x'"
        ).fetchone()

    assert row is not None
    assert (row[0] or {}) == retry.policy


def test_listener_follows_a_handlers_policy(listener: Process, shop: Shop) -> None:
    """From the decorator to the row: so many attempts, and none after an error that is listed."""
    listener.start(
        """
from pgwhen import Retry, action
retry = Retry(initial_interval=0.001, maximum_attempts=2, non_retryable=["KeyError"])
@action("fails", retry=retry)
async def fails(ctx, config):
    raise {"a": KeyError, "b": ValueError}[config["which"]]("no")
"""
    )
    shop.rule("fails", {"which": "a"}, "a")
    shop.rule("fails", {"which": "b"}, "b")
    shop.submit("a")
    shop.submit("b")

    rows = shop.wait_ended(2)

    assert {(r["retry_count"], r["retry_state"], r["error_message"]) for r in rows} == {
        (1, "non_retryable", "KeyError: 'no'"),
        (2, "maximum_attempts_reached", "ValueError: no"),
    }
