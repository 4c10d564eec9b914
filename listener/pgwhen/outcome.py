"""How an attempt ended, in words that jsonb can hold."""

from __future__ import annotations

import builtins
import json
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ActionError, Cancelled, RefusedError, UnfitError, Unknown
from .kept import DETAILS_LIMIT, TOO_LARGE, json_text, plain, said

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def refusal(exc: RefusedError) -> UnfitError:
    """Return the failure of an action whose result the database refuses."""
    return UnfitError(
        f"the handler's result cannot be kept: {exc}",
        type="ResultTooLarge" if exc.too_large else "ResultNotJson",
    )


def error_text(
    exc: BaseException, heartbeat_details: str | None = None, *, unknown: bool = False
) -> str:
    """Return *exc* as the JSON text that the database keeps of a failed attempt.

    *heartbeat_details*, JSON text, go with it where they have not been told yet. *unknown* says
    that the attempt may have done its work, unless *exc* says that it certainly has not.
    """
    exc, *others = _by_weight(exc)
    error: dict[str, Any] = {
        "message": plain(said(exc)),
        "type": type_of(exc),
        "nonRetryable": False,
        "nextRetryDelay": None,
        "details": {"at": place(exc)},
    }
    if causes := _causes(exc, others):
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
    except UnfitError:
        return json_text({**error, "nextRetryDelay": None})


def type_of(exc: BaseException) -> str:
    """Return the type of *exc* that the action's row has; retry policies go by it."""
    if isinstance(exc, ActionError | UnfitError):
        return plain(exc.type)
    return "OutcomeUnknown" if type(exc) is Unknown else type(exc).__name__


def leading(exc: BaseException) -> BaseException:
    """Return *exc*, or of a group (of a TaskGroup) the error that says most about what to do."""
    return _by_weight(exc)[0]


def _by_weight(exc: BaseException) -> list[BaseException]:
    """Return the errors in *exc*: those first that say that there is no other attempt."""
    groups = getattr(builtins, "BaseExceptionGroup", ())  # from Python 3.11 on
    if not isinstance(exc, groups):
        return [exc]
    errors = [error for part in exc.exceptions for error in _by_weight(part)]
    return sorted(errors, key=_weight)


def _weight(exc: BaseException) -> int:
    is_final = isinstance(exc, ActionError) and exc.non_retryable
    signs = (isinstance(exc, Unknown), is_final, isinstance(exc, Cancelled | ActionError), True)
    return signs.index(True)


def _causes(exc: BaseException, others: Sequence[BaseException]) -> list[dict[str, str]]:
    """Return what was named by `raise … from`, the nearest first, and what was raised beside it."""
    chain = [exc]
    while (cause := chain[-1].__cause__) is not None and cause not in chain:
        chain.append(cause)
    named = [*chain[1:], *others][:CAUSES_LIMIT]
    return [{"type": type_of(cause), "message": plain(said(cause))} for cause in named]


def _details(details: Any) -> Any:
    """Return *details*, or what is wrong with them: the error itself must not be lost."""
    try:
        size = len(json_text(details).encode())
    except UnfitError as exc:
        return "not JSON" if exc.type.endswith("NotJson") else TOO_LARGE
    return details if size <= DETAILS_LIMIT else TOO_LARGE


def place(exc: BaseException) -> str | None:
    """Return where *exc* was raised, as `file.py:12 in name`; None if it was not raised."""
    frames = traceback.extract_tb(exc.__traceback__)
    if not frames:
        return None
    last = frames[-1]
    return f"{Path(last.filename).name}:{last.lineno} in {last.name}"
