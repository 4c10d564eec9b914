"""How an attempt ended, in words that jsonb can hold."""

from __future__ import annotations

import json
import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ActionError
from .redact import told, told_json

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters of an error's message that are kept.
MESSAGE_LIMIT = 4096
#: Bytes of JSON that an error's details may have.
DETAILS_LIMIT = 64 * 1024
TOO_LARGE = f"more than {DETAILS_LIMIT} bytes: store them elsewhere, and tell a reference"
#: Bytes of JSON that no result may have, whatever the setting resultLimit is.
RESULT_LIMIT = 2 * 1024 * 1024

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Done(NamedTuple):
    """The action *action_id*, claimed under *token*, is done; *value* is JSON text, or None."""

    action_id: int
    token: str
    value: str | None


class Failed(NamedTuple):
    """The attempt failed; *value* is JSON text: message, type, nonRetryable, nextRetryDelay, …."""

    action_id: int
    token: str
    value: str


class Released(NamedTuple):
    """The attempt never started."""

    action_id: int
    token: str


Outcome = Done | Failed | Released


def json_text(value: Any) -> str:
    """Return *value* as text that jsonb takes. Raises ActionError (not retryable) if it cannot be.

    Not retryable, because the handler did its work: the next attempt would only do it again.
    """
    try:
        text = told_json(json.dumps(value, ensure_ascii=False, allow_nan=False))
        size = len(text.encode())
    except Exception as exc:  # noqa: BLE001 -- the value's own code may raise anything
        reason = _plain(f"{type(exc).__name__}: {_said(exc)}")
    else:
        if size > RESULT_LIMIT:
            raise ActionError(
                f"the result has {size} bytes, more than {RESULT_LIMIT}: store it elsewhere, and "
                "return a reference",
                type="ResultTooLarge",
                non_retryable=True,
            )
        if _NUL.search(text):
            reason = "it has a NUL character"
        else:
            return text
    raise ActionError(
        f"the handler's result cannot be kept as JSON: {reason}",
        type="ResultNotJson",
        non_retryable=True,
    )


def error_text(exc: BaseException) -> str:
    """Return *exc* as the JSON text that the database keeps of a failed attempt."""
    error: Mapping[str, Any] = {
        "message": _plain(_said(exc)),
        "type": type(exc).__name__,
        "nonRetryable": False,
        "nextRetryDelay": None,
        "details": {"at": place(exc)},
    }
    if isinstance(exc, ActionError):
        error = {
            **error,
            "type": _plain(exc.type),
            "nonRetryable": bool(exc.non_retryable),
            "nextRetryDelay": exc.next_retry_delay,
            "details": _details(exc.details),
        }
    try:
        return json_text(error)
    except ActionError:
        return json_text({**error, "nextRetryDelay": None})


def _details(details: Any) -> Any:
    """Return *details*, or what is wrong with them: the error itself must not be lost."""
    try:
        size = len(json_text(details).encode())
    except ActionError as exc:
        return "not JSON" if exc.type == "ResultNotJson" else TOO_LARGE
    return details if size <= DETAILS_LIMIT else TOO_LARGE


def place(exc: BaseException) -> str | None:
    """Return where *exc* was raised, as `file.py:12 in name`; None if it was not raised."""
    frames = traceback.extract_tb(exc.__traceback__)
    if not frames:
        return None
    last = frames[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}"


def _said(exc: BaseException) -> str:
    try:
        return str(exc) or repr(exc)
    except Exception:  # noqa: BLE001 -- its own code again
        return f"{type(exc).__name__} that cannot say why"


def _plain(text: str) -> str:
    """Return *text* as the database may keep it.

    No NUL and no lone surrogates, which jsonb cannot hold; no secrets; not endless.
    """
    text = told(text)  # before it is cut, which may leave a part of a secret
    short = text if len(text) <= MESSAGE_LIMIT else text[:MESSAGE_LIMIT] + "…"
    return short.replace("\0", "\\0").encode(errors="backslashreplace").decode()
