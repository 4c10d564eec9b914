"""Batches: what goes out together, under one key, and comes back together under the same."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import RFC_4122, UUID

import pytest

from pgwhen import Batch, Result, Retry, action
from pgwhen.attempt import attempts
from pgwhen.claim import FIELDS, Claim, batch_of, read_claim

from .conftest import declared, running
from .test_heartbeats import ended

if TYPE_CHECKING:
    from pathlib import Path

    from pgwhen.settings import Settings

    from .conftest import Process, Shop

ID = "9f0a4c3e-3b1d-4f65-9a53-0a4f8d3c2b10"
OTHER = "3c2b109f-0a4c-4e3b-8d4f-659a530a4f8d"


def claims(*batch_ids: str | None) -> list[Claim]:
    """Return a claim of each batch_id, of actions 1, 2 and so on."""
    made = []
    for n, batch_id in enumerate(batch_ids, 1):
        told = {"id": n, "token": f"t{n}", "idempotency_key": f"k{n}", "batch_id": batch_id}
        row = dict.fromkeys(FIELDS) | {"action_config": {}, "action_type": "many"} | told
        made.append(read_claim([*row.values(), 30.0]))
    return [claim for claim in made if claim]


@pytest.mark.parametrize(
    ("batch", "calls"),
    [(2, [[1, 3, 4], [2, 6], [5], [7]]), (None, [[1], [2], [3], [4], [5], [6], [7]])],
)
def test_a_call_has_what_has_one_batch_id(batch: int | None, calls: list[list[int]]) -> None:
    """Neither more nor less, in the order of the claims; what has none goes alone."""
    handler: Any = SimpleNamespace(batch=batch)
    tools: Any = None
    made = attempts({"many": handler}, claims(ID, OTHER, ID, ID, None, OTHER, None), tools)
    assert [[claim.context.action_id for claim in attempt.claims] for attempt in made] == calls


def test_a_batch_has_a_key_of_its_id() -> None:
    """A UUID of version 8, as an action's, of nothing but the id."""
    batch = batch_of(claims(ID, ID))

    assert batch.id == UUID(ID)
    assert len(batch) == 2
    assert batch.idempotency_key == str(batch.idempotency_uuid)
    assert batch.idempotency_key == "7e49b60f-d144-8abc-8bed-366e1f197bbf"
    assert (batch.idempotency_uuid.version, batch.idempotency_uuid.variant) == (8, RFC_4122)
    assert batch_of(claims(ID)).idempotency_key == batch.idempotency_key


def test_a_batch_without_an_id_has_a_key_of_its_actions() -> None:
    """It is of one action, which comes back alone, under the same key."""
    first, second = claims(None, None)

    assert batch_of([first]).id is None
    assert batch_of([first]).idempotency_key == batch_of([first]).idempotency_key
    assert batch_of([first]).idempotency_key != batch_of([second]).idempotency_key


FRAGILE = """
from pgwhen import ActionError, Batch, Result, Retry, Unknown, action

@action("{name}", batch=3, retry=Retry(initial_interval=0.001, maximum_attempts=3))
{kind} {name}(batch: Batch):
    users = ",".join(ctx.user_id for ctx, _ in batch)
    attempt = batch.items[0][0].attempt
    batch.logger.warning(f"sends key={{batch.idempotency_key}} users={{users}} attempt={{attempt}}")
    if attempt == 1:
        {fails}
    return [Result() for _ in batch]
"""
SENDS = re.compile(r"sends key=(\S+) users=(\S+) attempt=(\d)")


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_what_raises_may_have_been_sent(listener: Process, shop: Shop, kind: str) -> None:
    """Its answer is lost: all of it is sent again, by itself, under the same key."""
    shop.rule("mail")
    listener.start(FRAGILE.format(name="mail", kind=kind, fails='raise OSError("no answer")'))
    shop.submit("mail", 5)
    shop.wait_ended(5)

    sent = SENDS.findall(listener.log)
    first = {(key, users) for key, users, attempt in sent if attempt == "1"}
    assert {users for _, users in first} >= {"u1,u2,u3"}
    assert {(key, users) for key, users, attempt in sent if attempt == "2"} == first
    assert len({key for key, _ in first}) == len(first)


def test_what_was_certainly_not_sent_goes_in_another_batch(listener: Process, shop: Shop) -> None:
    """A result with an error is known: that one is sent again, under another key."""
    shop.rule("mail")
    fails = 'return [Result(), Result(error=ActionError("busy")), Result()]'
    listener.start(FRAGILE.format(name="mail", kind="def", fails=fails))
    shop.submit("mail", 3)
    shop.wait_ended(3)

    (first, second) = SENDS.findall(listener.log)
    assert (first[1], second[1]) == ("u1,u2,u3", "u2")
    assert first[0] != second[0]


@pytest.mark.parametrize(
    ("fails", "stays"),
    [
        ('raise ActionError("refused", non_retryable=True)', False),
        ("return []", True),
        ('raise Unknown("no answer")', True),
    ],
    ids=["refused", "no results", "unknown"],
)
def test_what_may_have_been_sent_says_in_which_batch(
    listener: Process, shop: Shop, fails: str, *, stays: bool
) -> None:
    """Of what has failed for good: so that who retries it by hand does not send it anew."""
    shop.rule("mail")
    listener.start(FRAGILE.format(name="mail", kind="def", fails=fails))
    shop.submit("mail", 2)

    rows = shop.wait_ended(2)

    assert [row["status"] for row in rows] == ["failed", "failed"]
    assert [row["batch_id"] is not None for row in rows] == [stays, stays]


def test_what_may_have_been_sent_goes_whole(listener: Process, shop: Shop, tmp_path: Path) -> None:
    """Where one lacks its secret now, none goes; when it has it again, all do."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text("s3cr3t")
    shop.rule("mail", {"token": "plain"}, "plain")
    shop.rule("mail", {"token": {"$secret": "token"}}, "secret")
    shop.submit("plain", user="plain")
    shop.submit("secret", user="secret")
    fails = f"""__import__("os").unlink({str(secrets / "token")!r})
        raise OSError("no answer")"""
    mail = FRAGILE.replace("maximum_attempts=3", "maximum_attempts=0")
    listener.start(
        mail.format(name="mail", kind="def", fails=fails), PGWHEN_SECRETS_DIR=str(secrets)
    )
    listener.wait_log("action failed action=.*error=SecretMissing.*", times=4)
    (secrets / "new").write_text("mounted")
    (secrets / "new").rename(secrets / "token")
    shop.wait_ended(2)

    first, *later = SENDS.findall(listener.log)
    assert first[1] == "plain1,secret1"
    assert [sent[:2] for sent in later] == [first[:2]]


@pytest.mark.parametrize("way", ["async", "thread"])
async def test_the_key_of_a_batch_goes_out_with_one_body(
    settings: Settings, shop: Shop, way: str
) -> None:
    """The same again is fine; another one is refused, and all of the batch is parked."""
    sent: list[Any] = []

    def body(batch: Batch) -> list[Any]:
        attempt = next(iter(batch))[0].attempt
        return sorted(ctx.user_id for ctx, _ in batch) + (["more"] if attempt > 2 else [])

    async def many(batch: Batch) -> list[Result]:
        sent.append(await batch.key_for(body(batch)) == batch.idempotency_key)
        raise ConnectionError("no answer")

    def many_in_thread(batch: Batch) -> list[Result]:
        sent.append(batch.key_for(body(batch)) == batch.idempotency_key)
        raise ConnectionError("no answer")

    function = many if way == "async" else many_in_thread
    action("many", batch=5, retry=Retry(initial_interval=0.01))(function)
    async with running(settings, declared(function)):
        shop.rule("many")
        shop.submit("many", 3)
        rows = await ended(shop, 3)
    assert sent == [True, True]
    assert {(row["status"], row["retry_state"]) for row in rows} == {("failed", "non_retryable")}
    assert all(row["error_message"].startswith("KeyReused: ") for row in rows)
