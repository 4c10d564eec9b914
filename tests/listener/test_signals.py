"""How a listener ends."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support import wait_until

from .conftest import GATED

if TYPE_CHECKING:
    from .conftest import Process, Shop


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_idle_listener_ends_at_once(listener: Process, number: signal.Signals) -> None:
    """A signal is all it takes."""
    listener.start()
    listener.signal(number)

    assert listener.wait() == 0


@pytest.mark.parametrize("kind", ["gated", "gated_async"])
def test_running_handler_may_finish(listener: Process, shop: Shop, kind: str) -> None:
    """Within the grace time its result counts; nothing new is claimed meanwhile."""
    shop.rule(kind)
    shop.rule("plain")
    shop.close_gate()
    listener.start()
    shop.submit(kind)
    shop.wait_at_gate(1)
    listener.signal(signal.SIGTERM)
    listener.wait_log("stopping")
    shop.submit("plain")
    shop.open_gate()

    assert listener.wait() == 0
    assert [row["status"] for row in shop.wait_ended(1)] == ["done"]
    assert shop.count("processing") == 0


def test_what_has_not_started_is_given_back_at_once(listener: Process, shop: Shop) -> None:
    """One thread, three actions: two go back to pending, no attempt counted, the one may finish."""
    shop.rule("gated")
    shop.close_gate()
    listener.start(PGWHEN_THREADS="1")
    shop.submit("gated", 3)
    shop.wait_at_gate(1)
    wait_until(
        shop.conn,
        "select count(*) = 3 from pgwhen.scheduled_action where status = 'processing'",
    )
    listener.signal(signal.SIGTERM)
    wait_until(
        shop.conn,
        "select count(*) = 2 from pgwhen.scheduled_action"
        " where status = 'pending' and retry_count = 0",
    )
    assert listener.running
    shop.open_gate()

    assert listener.wait() == 0
    assert shop.count("done") == 1
    assert shop.count("pending") == 2


@pytest.mark.parametrize("kind", ["gated", "gated_async"])
def test_grace_has_an_end(listener: Process, shop: Shop, kind: str) -> None:
    """What still runs then has failed, may be tried again, and does not keep the process."""
    shop.rule(kind)
    shop.close_gate()
    listener.start(PGWHEN_GRACE="0.01")
    shop.submit(kind)
    shop.wait_at_gate(1)

    assert listener.stop() == 0
    row = shop.conn.execute(
        "select status, retry_count, error_message from pgwhen.scheduled_action"
    ).fetchone()
    assert row == ("pending", 1, "Stopped: the listener was stopped before the handler ended")


def test_second_signal_ends_it_where_it_stands(listener: Process, shop: Shop) -> None:
    """Who sends it twice does not want to wait."""
    shop.rule("gated")
    shop.close_gate()
    listener.start(PGWHEN_GRACE="3600")
    shop.submit("gated")
    shop.wait_at_gate(1)
    listener.signal(signal.SIGTERM)
    listener.wait_log("stopping")
    listener.signal(signal.SIGTERM)

    assert listener.wait() == 128 + signal.SIGTERM


def test_signal_while_the_database_is_away(listener: Process) -> None:
    """A listener that has never reached its database ends as readily."""
    listener.spawn(GATED, PGHOST="/nowhere")
    listener.wait_log("cannot listen")
    listener.wait_log("cannot register")
    listener.signal(signal.SIGTERM)

    assert listener.wait() == 0
