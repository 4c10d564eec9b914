"""What is told and logged, without the secrets that attempts were given."""

from __future__ import annotations

import asyncio
import json
import logging
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import ActionError
from pgwhen.kept import MESSAGE_LIMIT, json_text
from pgwhen.logs import LineFormatter
from pgwhen.outcome import error_text
from pgwhen.redact import Cover, hide, told

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "s3cr3t/+ กุญแจ\n\"'\\&="


def alone(function: Callable[[], Any]) -> Any:
    """Call *function* as an attempt of its own."""
    return copy_context().run(function)


def covering(**secrets: str) -> Cover:
    """Return a cover of *secrets*."""
    cover = Cover()
    cover.add(secrets)
    return cover


@pytest.mark.parametrize(
    "form",
    [
        TOKEN,
        repr(TOKEN)[1:-1],
        json.dumps(TOKEN)[1:-1],
        json.dumps(TOKEN, ensure_ascii=False)[1:-1],
        "s3cr3t%2F%2B%20%E0%B8%81%E0%B8%B8%E0%B8%8D%E0%B9%81%E0%B8%88%0A%22%27%5C%26%3D",
        "s3cr3t/%2B%20%E0%B8%81%E0%B8%B8%E0%B8%8D%E0%B9%81%E0%B8%88%0A%22%27%5C%26%3D",
        "s3cr3t%2F%2B+%E0%B8%81%E0%B8%B8%E0%B8%8D%E0%B9%81%E0%B8%88%0A%22%27%5C%26%3D",
    ],
)
def test_value_is_found_as_others_write_it(form: str) -> None:
    """As it is, as Python and JSON quote it, and in a URL."""
    assert covering(token=TOKEN).text(f"a{form}b{form}") == "a[secret token]b[secret token]"


def test_longer_value_goes_first_and_once() -> None:
    """One that is within another leaves no rest of it; what has been put in is left alone."""
    cover = covering(short="secret", long="my-secret-word")

    assert cover.text("my-secret-word secret") == "[secret long] [secret short]"
    assert covering(one="abcd", two="abcdef").text("abcdef abcde") == "[secret two] [secret one]e"


def test_short_value_is_in_no_text_but_by_chance() -> None:
    """So it is left there."""
    assert covering(pin="123", code="1234").text("12345") == "[secret code]5"


def test_nothing_is_hidden_where_there_is_no_secret() -> None:
    """An empty cover finds nothing, not even between characters."""
    assert Cover().text("text") == "text"


def test_json_is_searched_in_all_places() -> None:
    """Texts, keys, numbers; what is no secret stays of its type."""
    cover = covering(token="abcd", number="12345", true="True")

    assert cover.json({"abcd": [12345, 1.5, None, True, "x abcd", {"k": "abcd"}]}) == {
        "[secret token]": [
            "[secret number]", 1.5, None, True, "x [secret token]", {"k": "[secret token]"},
        ]
    }  # fmt: skip


def test_result_tells_no_secret() -> None:
    """What a handler returns is kept without it."""

    def attempt() -> str:
        hide({"token": TOKEN})
        return json_text({"echo": [TOKEN, "Bearer " + TOKEN], "ไทย": 1})

    assert json.loads(alone(attempt)) == {
        "echo": ["[secret token]", "Bearer [secret token]"],
        "ไทย": 1,
    }


def test_error_tells_no_secret() -> None:
    """Neither its message, nor its type, nor its details."""

    def attempt() -> str:
        hide({"token": TOKEN})
        return error_text(ActionError(f"{TOKEN} is bad", type=TOKEN, details={"sent": TOKEN}))

    error = json.loads(alone(attempt))
    assert (error["message"], error["type"]) == ("[secret token] is bad", "[secret token]")
    assert error["details"] == {"sent": "[secret token]"}


def test_message_that_is_cut_tells_no_part_of_a_secret() -> None:
    """The secret is taken out before the message is cut."""

    def attempt() -> str:
        hide({"token": "long-secret-token"})
        return error_text(ValueError("x" * (MESSAGE_LIMIT - 8) + "long-secret-token"))

    assert "long-" not in alone(attempt)


async def test_attempts_hide_their_own() -> None:
    """What one was given is no secret in the result of another, and so in their threads."""
    hidden = [asyncio.Event(), asyncio.Event()]

    async def attempt(number: int, secret: str) -> list[str]:
        hide({"mine": secret})
        hidden[number].set()
        await hidden[1 - number].wait()
        return [told("aaaa bbbb"), await asyncio.to_thread(told, "aaaa bbbb")]

    one, other = await asyncio.gather(attempt(0, "aaaa"), attempt(1, "bbbb"))

    assert one == ["[secret mine] bbbb"] * 2
    assert other == ["aaaa [secret mine]"] * 2
    assert told("aaaa bbbb") == "aaaa bbbb"


def test_log_tells_no_secret() -> None:
    """Whoever logs it, wherever: in the message, in a field, in a traceback."""
    token = "log\n'\"-token\\กุ"
    alone(lambda: hide({"log-token": token}))
    error = ValueError(token)
    record = logging.LogRecord(
        "elsewhere", logging.INFO, __file__, 1, "sent %s", (token,), (ValueError, error, None)
    )
    record.fields = {"token": token}

    text = LineFormatter().format(record)

    assert text.endswith(
        "sent [secret log-token] token=[secret log-token]\nValueError: [secret log-token]"
    )
