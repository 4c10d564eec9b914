"""The SQL API as methods. A statement here is one call of a pgwhen.* function, and a round trip."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from .claim import FIELDS, Pass, read_claim, read_json_claim
from .connection import CONNECT_TIMEOUT, Connection, Row, call, log_warning, parameters
from .errors import UnavailableError
from .jsonb import loads_if_readable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .claim import Claim
    from .outcome import Done, Failed, Released
    from .settings import Settings

Pool = AsyncConnectionPool[Connection]

#: Seconds that an answer may be late after the server should have given up by itself.
SLACK = 2.0
#: Seconds for the answer of a connection that is in doubt.
PROOF = 2.0
#: Columns as cheap to read as can be: UUIDs that only go back, and events that few ask for.
AS_TEXT = {"token", "event", "idempotency_key", "batch_id"}
COLUMNS = (f"c.{name}{'::text' * (name in AS_TEXT)}" for name in FIELDS)
CLAIM = f"{', '.join(COLUMNS)}, extract(epoch from c.deadline - clock_timestamp())::float8"


COMPLETE = "select pgwhen.complete_actions(%s, %s, %s::uuid[], %s::jsonb[])"


class Database:
    """A small pool of connections for work, and the functions that a worker calls."""

    def __init__(self, settings: Settings) -> None:
        self._worker = settings.worker
        self._limit = settings.statement_timeout + SLACK
        self._used_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._lost_at = 0.0
        self._pool = self._new_pool(settings, max(1, settings.pool_size - 1))
        #: For process_events alone: a connection that has planned its statements stays quick.
        self._pump = self._new_pool(settings, 1)

    async def open(self) -> None:
        """Begin to connect; a server that is not there yet is no error."""
        await self._pump.open()
        await self._pool.open()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pump.close(timeout=SLACK)
        await self._pool.close(timeout=SLACK)

    async def version(self) -> str:
        """Return the version that is deployed."""
        rows = await self._call("select pgwhen.version()", [])
        return str(rows[0][0])

    async def register_action(
        self, name: str, config_schema: Mapping[str, Any] | None, options: Mapping[str, Any]
    ) -> None:
        """Make an action type known, with what its config must fit."""
        schema = None if config_schema is None else json.dumps(config_schema)
        await self._call(
            "select pgwhen.register_action(%s, %s::jsonb, %s::jsonb)",
            [name, schema, json.dumps(options)],
        )

    async def announce(self, action_types: Sequence[str]) -> None:
        """Say that this worker is there and serves *action_types*."""
        await self._call(
            "select pgwhen.announce_worker(%s, %s)", [self._worker, list(action_types)]
        )

    async def process_events(
        self, action_types: Sequence[str], *, claim_limit: int, suspect: bool, look_ahead: bool
    ) -> Pass:
        """Process a batch of events and claim at most *claim_limit* of the actions they caused.

        *suspect* says that the call before died: this one then only marks what it was about.
        *look_ahead* asks when something will be due.
        """
        [(events, more, due_in, actions, now)] = await self._call(
            "select p.events, p.more, p.next_due_seconds,"
            " array(select a::text from jsonb_array_elements(p.actions) as a),"
            " clock_timestamp() from pgwhen.process_events("
            "worker => %s, action_types => %s, claim_limit => %s, suspect => %s,"
            " look_ahead => %s) as p",
            [self._worker, list(action_types), claim_limit, suspect, look_ahead],
            self._pump,
        )
        claims = [read_json_claim(action, now) for action in actions]
        return Pass(events, more, due_in, [claim for claim in claims if claim])

    async def claim_actions(self, action_types: Sequence[str], batch_size: int) -> list[Claim]:
        """Claim at most *batch_size* actions that are due, the oldest first."""
        query = f"select {CLAIM} from pgwhen.claim_actions(%s, %s, %s) as c"  # noqa: S608
        return _claims(await self._call(query, [self._worker, batch_size, list(action_types)]))

    async def complete_actions(self, done: Sequence[Done]) -> set[int]:
        """Settle actions as done; return the ids of those that were still this worker's."""
        return await self._settle(COMPLETE, done)

    async def exchange_actions(
        self, done: Sequence[Done], action_types: Sequence[str]
    ) -> tuple[set[int], list[Claim]]:
        """Settle actions as done and claim as many others, in one round trip."""
        rows = await self._call(
            f"select {CLAIM} from pgwhen.exchange_actions("  # noqa: S608
            "%s, %s, %s::uuid[], %s::jsonb[], batch_size => %s, action_types => %s) as c",
            [self._worker, *_columns(done), len(done), list(action_types)],
        )
        late = {row[0] for row in rows if row[1] is None}
        return {outcome.action_id for outcome in done} - late, _claims(rows[len(late) :])

    async def fail_actions(self, failed: Sequence[Failed]) -> set[int]:
        """Settle attempts as failed; return as `complete_actions` does."""
        return await self._settle(
            "select pgwhen.fail_actions(%s, %s, %s::uuid[], %s::jsonb[])", failed
        )

    async def release_actions(self, released: Sequence[Released]) -> set[int]:
        """Give back what has not started; return as `complete_actions` does."""
        return await self._settle("select pgwhen.release_actions(%s, %s, %s::uuid[])", released)

    async def secret_names(self, line_oa_id: str) -> dict[str, str]:
        """Return under which names the secrets of an account are known here, where others."""
        names: dict[str, str]
        [(names,)] = await self._call("select pgwhen.secret_names(%s)", [line_oa_id])
        return names

    async def keep_body(self, key: str, body_hash: bytes) -> bool:
        """Note the sha256 of what is to go out under *key*; return whether nothing else has."""
        [(kept,)] = await self._call("select pgwhen.keep_body(%s::uuid, %s)", [key, body_hash])
        return bool(kept)

    async def tick(self) -> int:
        """Do what time has made due, for a second at most; return how much that was."""
        rows = await self._call("call pgwhen.run_ticks(max_seconds => 1, events => false)", [])
        return int(rows[0][0])

    async def _settle(
        self, query: str, outcomes: Sequence[Done] | Sequence[Failed] | Sequence[Released]
    ) -> set[int]:
        rows = await self._call(query, [self._worker, *_columns(outcomes)])
        return {action_id for (action_id,) in rows}

    async def _call(self, query: str, values: Sequence[Any], pool: Pool | None = None) -> list[Row]:
        try:
            async with (pool or self._pool).connection() as conn:
                rows = await call(conn, query, values, self._limit)
                self._used_at[conn] = time.monotonic()
                return rows
        except PoolTimeout as exc:
            raise UnavailableError(f"no connection to the database: {exc}") from exc
        except UnavailableError:
            self._lost_at = time.monotonic()
            raise

    def _new_pool(self, settings: Settings, size: int) -> Pool:
        return AsyncConnectionPool(
            kwargs=parameters(settings, "work", settings.dsn),
            min_size=1,
            max_size=size,
            timeout=CONNECT_TIMEOUT,
            reconnect_timeout=CONNECT_TIMEOUT,
            configure=_configure,
            check=self._check,
            open=False,
            name="work",
        )

    async def _check(self, conn: Connection) -> None:
        """Make *conn*, about to be handed out, prove that it lives if a call has failed since."""
        if self._used_at.get(conn, self._lost_at) < self._lost_at:
            await call(conn, "select 1", [], PROOF)
            self._used_at[conn] = time.monotonic()


def _claims(rows: Sequence[Row]) -> list[Claim]:
    return [claim for row in rows if (claim := read_claim(row))]


def _columns(outcomes: Sequence[Done | Failed | Released]) -> list[list[Any] | None]:
    columns = (list(column) for column in zip(*outcomes, strict=True))
    return [column if any(column) else None for column in columns]


async def _configure(conn: Connection) -> None:
    conn.add_notice_handler(log_warning)
    set_json_loads(loads_if_readable, conn)
