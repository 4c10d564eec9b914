"""Claims, as the database hands them out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from .batch import Batch
from .context import Context
from .jsonb import UNREADABLE, loads_if_readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .context import Config


class Claim(NamedTuple):
    """An action that this worker may do now, once."""

    #: A UUID, as text: it only goes back to where it came from.
    token: str
    context: Context
    config: Config
    #: What is left until the deadline, in seconds, at the moment when the claim arrived.
    seconds: float
    #: What has the same one goes out in one call. None where its type has none.
    batch_id: UUID | None = None
    #: Whether that may have been sent: then all of it goes, or nothing.
    keeps_batch: bool = False


@dataclass(frozen=True)
class Pass:
    """What one call of process_events did."""

    events: int
    more: bool
    #: In how many seconds the next thing is due for this worker; None if nothing is soon.
    due_in: float | None
    claims: list[Claim]


#: What is told of a claim, in this order; last come the seconds that it has.
FIELDS = (
    "id", "token", "attempt", "deadline", "action_type", "action_config", "line_oa_id",
    "organization_id", "user_id", "rule", "event", "idempotency_key", "workflow_node_path",
    "heartbeat_timeout", "heartbeat_details", "maybe_done", "batch_id",
    "keeps_batch",
)  # fmt: skip


def read_claim(row: Sequence[Any]) -> Claim | None:
    """Return the claim that *row* describes.

    None for what cannot be read: it comes back when its deadline has passed.
    """
    (
        action_id, token, attempt, deadline, action_type, config, line_oa_id,
        organization_id, user_id, rule, event, key, path,
        heartbeat_timeout, heartbeat_details, maybe_done, batch_id, keeps_batch, seconds,
    ) = row  # fmt: skip
    if config is UNREADABLE or heartbeat_details is UNREADABLE:
        return None
    context = Context(
        action_id, action_type, attempt, user_id, line_oa_id, organization_id, rule, event,
        None if path is None else tuple(path), deadline, key, heartbeat_details, maybe_done,
        heartbeat_timeout,
    )  # fmt: skip
    return Claim(token, context, config, seconds, batch_id and UUID(batch_id), keeps_batch)


def read_json_claim(text: str, now: datetime) -> Claim | None:
    """Return the claim that the object in *text* describes, at the moment *now* of the database."""
    action = loads_if_readable(text)
    if action is UNREADABLE:
        return None
    deadline = _instant(action["deadline"])
    fields = {**action, "deadline": deadline}
    return read_claim([*map(fields.get, FIELDS), (deadline - now).total_seconds()])


def batch_of(claims: Sequence[Claim]) -> Batch:
    """Return the batch that *claims* are: those of one batch_id, or a single one without."""
    first = claims[0].context
    pairs = tuple((claim.context, claim.config) for claim in claims)
    return Batch(first.action_type, first.line_oa_id, pairs, claims[0].batch_id)


@lru_cache(maxsize=16)
def _instant(text: str) -> datetime:
    """Read a timestamp as JSON has it. Python 3.10 wants three or six digits of a second.

    What is claimed together has one deadline.
    """
    return datetime.fromisoformat(re.sub(r"\.\d+", lambda digits: digits[0].ljust(7, "0"), text))
