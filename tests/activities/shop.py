"""The database as a worker, an operator and the clock see it, in the model's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.types.json import Jsonb

from tests.activities.model import KEEP, Claim, Reply, State
from tests.concurrency.scene import scalar
from tests.concurrency.test_waits import CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    import psycopg

#: Times are told in seconds since a test began.
SECONDS = """
alter table app.clock add column beginning timestamptz;
create function app.seconds(at timestamptz) returns float8 language sql as $$
select extract(epoch from seconds.at - c.beginning)::float8 from app.clock as c
$$;
"""

#: Truncation takes 40 ms, this less than one. The clock goes on, as clocks do: the engine
#: remembers where it has looked.
RESET = """
set session_replication_role = replica;
delete from pgwhen.scheduled_action;
delete from pgwhen.trigger_log;
delete from _pgwhen.heartbeat;
delete from _pgwhen.cancelling;
delete from _pgwhen.pause;
delete from _pgwhen.past_pause;
reset session_replication_role;
update app.clock set now = now + interval '1 hour', beginning = now + interval '1 hour';
"""

SCHEDULE = """
select pgwhen.schedule_action(
    'pay', 'u1', %s, execute_at => _pgwhen.clock() + make_interval(secs => %s)
)
"""

CLAIM = """
select c.id, c.token, c.attempt, app.seconds(c.deadline), c.heartbeat_timeout, c.heartbeat_details,
    c.maybe_done
from pgwhen.claim_actions('w', null, array['pay']) as c
"""

STATES = """
select a.id, a.status, a.retry_count, app.seconds(a.execute_at),
    a.retry_state, a.error_message, b.details,
    (select count(*) from pgwhen.trigger_log as l where l.action_id = a.id)
from pgwhen.scheduled_action as a
    left join _pgwhen.heartbeat as b on b.action_id = a.id
"""

BEAT = """
select r.held, r.cancel_requested
from pgwhen.heartbeat_actions('w', array[%s]::bigint[], array[%s]::uuid[], array[%s]::jsonb[]) as r
"""


class Held(NamedTuple):
    """A claim in a worker's hands."""

    action: int
    token: UUID


class Shop:
    """A session in a database that has the action type `pay`, and whose clock is set by hand."""

    def __init__(self, conn: psycopg.Connection) -> None:
        """Put the clock in."""
        self._conn = conn
        conn.execute("set synchronous_commit = off")
        conn.execute(f"create schema app; {CLOCK} {SECONDS}".encode())

    def reset(
        self, timeouts: Mapping[str, Any] | None = None, policy: Mapping[str, Any] | None = None
    ) -> None:
        """Begin anew, with what the type is to say."""
        self._conn.execute(RESET.encode())
        options = {"timeouts": dict(timeouts or {}), "retryPolicy": dict(policy or {})}
        self._conn.execute("select pgwhen.register_action('pay', options => %s)", [Jsonb(options)])

    def schedule(
        self,
        timeouts: Mapping[str, Any] | None = None,
        policy: Mapping[str, Any] | None = None,
        delay: int = 0,
    ) -> int:
        """Schedule an action; return its id."""
        config = {"timeouts": dict(timeouts or {}), "retryPolicy": dict(policy or {})}
        return int(scalar(self._conn, SCHEDULE, Jsonb(config), delay))

    def begin(self) -> Held:
        """Claim the one action that is due."""
        [held] = self.claim()
        return held

    def claim(self) -> dict[Held, Claim]:
        """Claim all that is due."""
        rows = self._conn.execute(CLAIM.encode()).fetchall()
        return {Held(*row[:2]): Claim(*row[2:]) for row in rows}

    def heartbeat(self, held: Held, details: Any = KEEP) -> Reply:
        """Send a heartbeat."""
        told = None if details is KEEP else Jsonb(details)
        row = self._conn.execute(BEAT.encode(), [*held, told]).fetchone()
        assert row is not None
        return Reply(*row)

    def complete(self, held: Held) -> bool:
        """Report success; tell whether it counted."""
        return self._report("complete_actions", held)

    def fail(self, held: Held, **error: Any) -> bool:
        """Report a failure; tell whether it counted."""
        return self._report("fail_actions", held, error)

    def _report(self, verb: str, held: Held, *told: dict[str, Any]) -> bool:
        call = f"select pgwhen.{verb}('w', array[%s]::bigint[], array[%s]::uuid[]"
        call += ", array[%s]::jsonb[])" if told else ")"
        rows = self._conn.execute(call.encode(), [*held, *map(Jsonb, told)]).fetchall()
        assert rows in ([], [(held.action,)])
        return bool(rows)

    def cancel(self, action: int) -> None:
        """Ask for an action to be cancelled."""
        self._conn.execute("select pgwhen.cancel_action(%s, 'stop')", [action])

    def retry(self, action: int) -> None:
        """Let an ended action be tried again."""
        self._conn.execute("select pgwhen.retry_action(%s)", [action])

    def pause(self) -> None:
        """Pause the type."""
        self._conn.execute("select pgwhen.pause('stop', 'pay')")

    def resume(self) -> None:
        """End the pause."""
        self._conn.execute("select pgwhen.resume(action_type => 'pay')")

    def let_pass(self, seconds: int) -> None:
        """Let so many seconds pass, and those look who look for what is over."""
        self._conn.execute("update app.clock set now = now + make_interval(secs => %s)", [seconds])
        while scalar(self._conn, "select pgwhen.recover_stale_actions()"):
            pass

    def now(self) -> int:
        """Return how many seconds have passed."""
        return int(scalar(self._conn, "select app.seconds(_pgwhen.clock())"))

    def states(self) -> dict[int, State]:
        """Return how every action stands."""
        return {
            action: State(status, count, at, why, _head(message), details, logged)
            for action, status, count, at, why, message, details, logged in self._conn.execute(
                STATES.encode()
            )
        }

    def state(self) -> State:
        """Return how the only action stands."""
        [state] = self.states().values()
        return state

    def error(self) -> str:
        """Return the whole error of the only action."""
        return str(scalar(self._conn, "select error_message from pgwhen.scheduled_action"))


def _head(message: str | None) -> str | None:
    """Return the type with which an error begins, or that it tells of a cancellation."""
    if message is None:
        return None
    return "cancelled" if message.startswith("cancelled by ") else message.split(": ")[0]
