"""What a handler reaches through its context: heartbeats, keys, a connection of its own."""

from __future__ import annotations

import asyncio
import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ActionError, Cancelled, KeyReused
from .heart import Heart
from .pulse import Pulse
from .transaction import Connections
from .vault import Vault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .claim import Claim
    from .context import Context
    from .database import Database
    from .outcome import Done
    from .settings import Settings
    from .transaction import ThreadTransaction, Transaction


#: Details of nobody.
NONE: Mapping[int, str] = MappingProxyType({})


class Tools(NamedTuple):
    """What attempts share."""

    database: Database
    vault: Vault
    heart: Heart
    connections: Connections

    @classmethod
    def of(cls, settings: Settings, database: Database) -> Tools:
        """Make them."""
        vault = Vault(database, settings.secrets_dir)
        return cls(database, vault, Heart(settings), Connections(settings))


class Lifeline:
    """Of one attempt. The claims of a batch share it, each with a pulse of its own."""

    __slots__ = ("_claims", "_ended", "_in_loop", "_loop", "_pulses", "_tools", "_transaction")

    def __init__(self, claims: Sequence[Claim], tools: Tools, *, in_loop: bool) -> None:
        self._claims = claims
        self._tools = tools
        self._in_loop = in_loop
        self._loop = None if in_loop else asyncio.get_running_loop()
        self._pulses: dict[int, Pulse] = {}
        self._transaction: Transaction | ThreadTransaction | None = None
        #: Why nothing that comes now counts; empty while the attempt runs.
        self._ended = ""
        for claim in claims:
            claim.context.attach(self)
            if claim.context.heartbeat_timeout is not None:
                tools.heart.watch(self._pulse(claim.context))

    @property
    def alive_at(self) -> float:
        """When all of it was last known to live, by the monotonic clock."""
        return min((pulse.alive_at for pulse in self._pulses.values()), default=math.inf)

    def cancel_requested(self, context: Context) -> bool:
        """Whether a heartbeat was told so."""
        pulse = self._pulses.get(context.action_id)
        return pulse is not None and pulse.verdict == "cancel_requested"

    def beat(self, context: Context, details: str | None) -> None:
        """Say that the attempt lives. Raises Cancelled where it should stop."""
        if self._ended:
            raise Cancelled(self._ended)
        self._tools.heart.beat(self._pulse(context), details)

    def keep_body(self, key: str, body_hash: bytes) -> Any:
        """Return *key*, or an awaitable of it. Raises KeyReused."""
        keeping = self._keep_body(key, body_hash)
        if self._loop is None:
            return keeping
        return asyncio.run_coroutine_threadsafe(keeping, self._loop).result()

    def connection(self) -> Any:
        """Return a connection, or an awaitable of it."""
        if self._ended:
            raise Cancelled(self._ended)
        if self._claims[0].batch_id is not None:
            raise ActionError(
                "a batch has no ctx.connection(): its actions do not end as one",
                type="BatchConnection",
                non_retryable=True,
            )
        if self._transaction is None:
            connections = self._tools.connections
            self._transaction = connections.transaction(in_loop=self._in_loop)
        opening = self._transaction.connection(self._claims[0].token)
        return self._excused(opening) if self._in_loop else opening

    @property
    def has_transaction(self) -> bool:
        """Whether the handler has asked for a connection."""
        return self._transaction is not None

    async def end(self, done: Done | None) -> bool | None:
        """End the attempt's transaction as it ended; return whether its claim still held.

        None if it has no transaction.
        """
        return None if self._transaction is None else await self._transaction.end(done)

    def close(self, reason: str) -> Mapping[int, str]:
        """Let no heartbeat count from now on; return the details that are untold, by action."""
        self._ended = self._ended or reason
        if not self._pulses:
            return NONE
        untold = {
            action_id: self._tools.heart.forget(pulse, reason)
            for action_id, pulse in list(self._pulses.items())  # a thread may add its first one
        }
        return {action_id: details for action_id, details in untold.items() if details is not None}

    async def _excused(self, waiting: Any) -> Any:
        """Await what the handler cannot help, such as its turn: it counts as alive meanwhile."""
        for pulse in self._pulses.values():
            pulse.is_excused = True
        try:
            return await waiting
        finally:
            for pulse in self._pulses.values():
                pulse.is_excused = False

    async def _keep_body(self, key: str, body_hash: bytes) -> str:
        if not await self._tools.database.keep_body(key, body_hash):
            raise KeyReused(
                "another body has gone out under this key, and may have arrived: "
                "a person must look what the far side has"
            )
        return key

    def _pulse(self, context: Context) -> Pulse:
        pulse = self._pulses.get(context.action_id)
        if pulse is None:
            [claim] = [claim for claim in self._claims if claim.context is context]
            fresh = Pulse(claim, in_loop=self._in_loop)
            pulse = self._pulses.setdefault(context.action_id, fresh)
        return pulse
