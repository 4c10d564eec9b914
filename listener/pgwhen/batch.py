"""What a handler that takes many is given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from uuid import UUID

from .context import logger_of
from .kept import hash_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .context import Config, Context, Log


@dataclass(frozen=True)
class Batch:
    """Actions of one type and account, for a handler that takes many: pairs of context and config.

    Iterate over it. The handler returns one `Result` for each, in the same order.
    """

    action_type: str
    line_oa_id: str
    items: tuple[tuple[Context, Config], ...]
    #: What tells it from every other batch, also from one of the same members. What may have been
    #: sent comes back under the same id, fewer members perhaps and none besides. None where the
    #: type goes out one by one.
    id: UUID | None = None

    @property
    def idempotency_key(self) -> str:
        """The batch's own key: the same at every attempt at it. Hand it to whatever takes many."""
        return str(self.idempotency_uuid)

    @property
    def idempotency_uuid(self) -> UUID:
        """The key as the UUID that it is: version 8, from the id, or from the actions' keys."""
        origin = [str(self.id)] if self.id else [ctx.idempotency_key for ctx, _ in self.items]
        digits = sha256(json.dumps(["batch", *origin]).encode()).hexdigest()
        return UUID(f"{digits[:12]}8{digits[13:16]}8{digits[17:32]}")

    def key_for(self, body: bytes | str | Any) -> Any:
        """Return `idempotency_key` for a request with *body*: `await` it, except in a thread.

        As `Context.key_for`: raises KeyReused where the key has gone out with another body.
        """
        return self.items[0][0].line.keep_body(self.idempotency_key, hash_of(body))

    def __iter__(self) -> Iterator[tuple[Context, Config]]:
        """Go through the pairs."""
        return iter(self.items)

    def __len__(self) -> int:
        """Return the number of actions."""
        return len(self.items)

    @property
    def logger(self) -> Log:
        """A logger that names the account in every line."""
        return logger_of(self.action_type, line_oa_id=self.line_oa_id)
