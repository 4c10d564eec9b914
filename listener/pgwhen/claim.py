"""Claims, as the database hands them out: JSON, read with more patience than Python has."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .context import Config

log = logging.getLogger(__name__)

#: Levels of nesting that are still read; from Python 3.12 on its own limit is lower, some 10,000.
DEEPEST = 50_000
#: Digits of a whole number that Python is willing to read.
LONGEST = 4_000


class Claim(NamedTuple):
    """An action that this worker may do now, once."""

    #: A UUID, as text: it only goes back to where it came from.
    token: str
    context: Context
    config: Config
    #: What is left until the deadline, in seconds, at the moment when the claim arrived.
    seconds: float


def read_claim(action: Mapping[str, Any], now: datetime) -> Claim:
    """Return the claim that *action* describes, at the moment *now* of the database."""
    deadline = _instant(action["deadline"])
    path = action["workflow_node_path"]
    context = Context(
        action_id=action["id"],
        action_type=action["action_type"],
        attempt=action["attempt"],
        user_id=action["user_id"],
        line_oa_id=action["line_oa_id"],
        organization_id=action["organization_id"],
        rule=action["rule"],
        event=action["event"],
        workflow_path=None if path is None else tuple(path),
        deadline=deadline,
        idempotency_key=action["idempotency_key"],
    )
    seconds = (deadline - now).total_seconds()
    return Claim(action["token"], context, action["action_config"], seconds)


def loads(text: str | bytes) -> Any:
    """Read JSON as jsonb may hold it: nested deeper, and with longer numbers, than Python likes.

    What even so cannot be read is None: its actions come back when their deadline has passed.
    """
    if isinstance(text, bytes):
        text = text.decode()  # json.loads would look for the encoding first
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(DEEPEST)
        try:
            return json.loads(text, parse_int=_whole_number)
        except RecursionError:
            log.error("claimed actions cannot be read: nested too deep")  # noqa: TRY400
            return None
        finally:
            sys.setrecursionlimit(usual)


def _whole_number(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < LONGEST else Decimal(digits)


@lru_cache(maxsize=16)
def _instant(text: str) -> datetime:
    """Read a timestamp as JSON has it. Python 3.10 wants three or six digits of a second.

    What is claimed together has one deadline.
    """
    return datetime.fromisoformat(re.sub(r"\.\d+", lambda digits: digits[0].ljust(7, "0"), text))
