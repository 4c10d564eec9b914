"""How an attempt ended, in words that jsonb can hold."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from .errors import ActionError, Cancelled, RefusedError, Unknown
from .kept import DETAILS_LIMIT, TOO_LARGE, json_text, plain, said

#: What is logged of an outcome that no longer counts.
STALE = "outcome came too late: the claim was no longer this worker's"
#: Errors behind an error that are kept.
CAUSES_LIMIT = 5


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


def refusal(exc: RefusedError) -> ActionError:
    """Return the failure of an action whose result the database refuses."""
    return ActionError(
        f"the handler's result cannot be kept: {exc}",
        type="ResultTooLarge" if exc.too_large else "ResultNotJson",
        non_retryable=True,
    )


def error_text(
    exc: BaseException, heartbeat_details: str | None = None, *, unknown: bool = False
) -> str:
    """Return *exc* as the JSON text that the database keeps of a failed attempt.

    *heartbeat_details*, JSON text, go with it where they have not been told yet. *unknown* says
    that the attempt may have done its work, unless *exc* says that it certainly has not.
    """
    error: dict[str, Any] = {
        "message": plain(said(exc)),
        "type": type_of(exc),
        "nonRetryable": False,
        "nextRetryDelay": None,
        "details": {"at": place(exc)},
    }
    if causes := _causes(exc):
        error["causes"] = causes
    if isinstance(exc, ActionError):
        error["nonRetryable"] = bool(exc.non_retryable)
        error["nextRetryDelay"] = exc.next_retry_delay
        error["details"] = _details(exc.details)
    elif isinstance(exc, Cancelled):
        error["cancelled"] = exc.reason == "cancel_requested"
    elif isinstance(exc, Unknown):
        error["nonRetryable"] = error["outcomeUnknown"] = True
    if unknown and not error["nonRetryable"]:
        error["outcomeUnknown"] = True
    if heartbeat_details is not None:
        error["heartbeatDetails"] = json.loads(heartbeat_details)
    try:
        return json_text(error)
    except ActionError:
        return json_text({**error, "nextRetryDelay": None})


def type_of(exc: BaseException) -> str:
    """Return the type of *exc* that the action's row has; retry policies go by it."""
    if isinstance(exc, ActionError):
        return plain(exc.type)
    return "OutcomeUnknown" if type(exc) is Unknown else type(exc).__name__


def _causes(exc: BaseException) -> list[dict[str, str]]:
    """Return what was named by `raise … from`, the nearest first."""
    causes: list[dict[str, str]] = []
    while (cause := exc.__cause__) is not None and len(causes) < CAUSES_LIMIT:
        causes.append({"type": type_of(cause), "message": plain(said(cause))})
        exc = cause
    return causes


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
