"""What handlers get, and what becomes of what they give back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Process, Shop

TELLING = """
import threading
from pgwhen import ActionError, Batch, Result, action

@action("tell")
async def tell(ctx, config):
    assert ctx.logger
    return {
        "action_id": ctx.action_id, "attempt": ctx.attempt, "user_id": ctx.user_id,
        "line_oa_id": ctx.line_oa_id, "rule": ctx.rule, "event": ctx.event,
        "workflow_path": ctx.workflow_path, "deadline": ctx.deadline.isoformat(),
        "key": ctx.idempotency_key, "same": str(ctx.idempotency_uuid), "config": config,
        "tracking_id": ctx.tracking_id,
    }

@action("thread")
def thread(ctx, config):
    return threading.current_thread() is threading.main_thread()

@action("many", batch=3)
async def many(batch: Batch):
    return [
        Result(error=ActionError("not this one", non_retryable=True))
        if ctx.user_id == "u2"
        else Result([batch.action_type, batch.line_oa_id, len(batch)])
        for ctx, config in batch
    ]

@action("many_threaded", batch=10)
def many_threaded(batch: Batch):
    return [Result(threading.current_thread() is threading.main_thread()) for _ in batch]
"""


def test_context_tells_the_action(listener: Process, shop: Shop) -> None:
    """A handler sees what the rows say, and its result is kept."""
    shop.rule("tell", {"text": "hello"})
    listener.start(TELLING)
    shop.submit("tell")

    row = shop.wait_ended()[0]
    told = row["result"]

    assert told["action_id"] == row["id"]
    assert told["attempt"] == 1
    assert (told["user_id"], told["line_oa_id"]) == ("u1", "default")
    assert told["rule"] == row["trigger_rule_id"]
    assert told["event"]["type"] == "form_submitted"
    assert told["event"]["key"] == "tell"
    assert told["workflow_path"] is None
    assert told["key"] == told["same"] == row["key"]
    assert told["config"] == {"text": "hello"}
    tracking_id = shop.conn.execute("select _pgwhen.tracking_id(%s)", [row["key"]]).fetchone()
    assert tracking_id == (told["tracking_id"],)
    assert told["deadline"] > row["executed_at"]


def test_handler_without_async_has_a_thread(listener: Process, shop: Shop) -> None:
    """The event loop is never blocked by one, single or batch."""
    shop.rule("thread")
    shop.rule("many_threaded")
    listener.start(TELLING)
    shop.submit("thread")
    shop.submit("many_threaded", 2)

    assert [row["result"] for row in shop.wait_ended(3)] == [False, False, False]


def test_batch_is_of_one_account_and_no_larger_than_declared(listener: Process, shop: Shop) -> None:
    """Seven actions of one account make batches of three, three and one; one bad harms no other."""
    shop.conn.execute("insert into pgwhen.account (line_oa_id) values ('a'), ('b')")
    for account in ("a", "b"):
        shop.conn.execute(
            "insert into pgwhen.trigger_rule (name, source_type, source_config, action_type,"
            " frequency, line_oa_id)"
            " values ('r', 'form_submitted', '{\"formId\": \"f\"}', 'many', 'always', %s)",
            [account],
        )
    shop.conn.execute(
        "insert into pgwhen.form_submission (line_oa_id, user_id, form_id)"
        " select a, 'u' || n, 'f' from unnest('{a,b}'::text[]) as a, generate_series(1, 7) as n"
        " where a = 'a' or n = 1"
    )
    listener.start(TELLING)

    rows = shop.wait_ended(8)
    bad = [row for row in rows if row["status"] == "failed"]
    sizes = sorted(row["result"][1:] for row in rows if row["status"] == "done")

    assert [(row["user_id"], row["error_message"]) for row in bad] == [
        ("u2", "ActionError: not this one")
    ]
    assert sizes == sorted([["a", 3]] * 5 + [["a", 1]] + [["b", 1]])


def test_log_message_logs_one_line(listener: Process, shop: Shop) -> None:
    """The text is logged; a line break in it cannot forge a second line."""
    shop.rule("log_message", {"text": "สวัสดี {user.name}\n2030-01-01 forged"})
    listener.start(TELLING, "pgwhen.log_message")
    shop.submit("log_message")

    shop.wait_ended()

    lines = [line for line in listener.log.splitlines() if "to u1" in line]
    assert len(lines) == 1
    assert r"to u1: สวัสดี {user.name}\n2030-01-01 forged action=" in lines[0]


def test_no_more_in_flight_than_allowed(listener: Process, shop: Shop) -> None:
    """With room for three, ten due actions are never claimed faster than three are done."""
    shop.rule("gated_async")
    shop.close_gate()
    listener.start(PGWHEN_MAX_IN_FLIGHT="3")
    shop.submit("gated_async", 10)
    shop.wait_at_gate(3)

    assert (shop.count("processing"), shop.count("pending")) == (3, 7)

    shop.open_gate()
    assert len(shop.wait_ended(10)) == 10


@pytest.mark.parametrize(
    "data",
    [
        pytest.param('{"x": ' + "[" * 5000 + "]" * 5000 + "}", id="deep"),
        pytest.param('{"x": "' + "x" * 10_000_000 + '"}', id="wide"),
        pytest.param('{"x": [1e400, -1e400, 1e-400, 1e5000]}', id="large"),
    ],
)
def test_event_that_python_would_rather_not_read(listener: Process, shop: Shop, data: str) -> None:
    """What jsonb can hold reaches a handler, and holds up nobody."""
    shop.conn.execute(
        "insert into pgwhen.trigger_rule (name, source_type, action_type, frequency)"
        " values ('r', 'ours', 'plain', 'always')"
    )
    listener.start(
        "from pgwhen import action\n\n"
        "@action('plain')\nasync def plain(ctx, config):\n"
        "    return type(ctx.event['data']['x']).__name__\n"
    )
    shop.conn.execute("select pgwhen.emit('ours', 'u', %s::jsonb)", [data])

    assert shop.wait_ended()[0]["result"] in {"list", "str"}


def test_entry_point_is_served(listener: Process, shop: Shop, tmp_path: Path) -> None:
    """What an installed package offers under pgwhen.actions is served; a broken one is left out."""
    info = tmp_path / "shop-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pgwhen.actions]\nours = shop_handlers:offered\nbroken = nowhere:at_all\n"
    )
    (tmp_path / "shop_handlers.py").write_text(
        "from pgwhen import action\n\n@action('offered')\nasync def offered(ctx, config): ...\n"
    )
    shop.rule("offered")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    listener.start(TELLING, PYTHONPATH=path)
    shop.submit("offered")

    assert shop.wait_ended()[0]["status"] == "done"
    assert "handlers of entry point broken = nowhere:at_all left out" in listener.log
