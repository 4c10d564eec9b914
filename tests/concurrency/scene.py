"""What the tests with several sessions share: rules, effects that can be counted, and verbs.

Every wait here is for another session, seen in pg_stat_activity or pg_locks; none is for time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg

#: A user's SQL action that leaves a row: `n` says in which order the effects happened.
EFFECTS = """
create schema app;
create table app.effect (
    n bigint generated always as identity primary key,
    user_id text not null,
    event_id bigint not null,
    rule bigint not null,
    config jsonb not null
);
create function app.note(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb
language sql
as $$
insert into app.effect (user_id, event_id, rule, config)
values (
    note.user_id, (note.ctx #>> '{event,id}')::bigint, (note.ctx ->> 'rule')::bigint, note.config
)
returning to_jsonb(n);
$$;
select pgwhen.register_sql_action('note', 'app.note(text, text, jsonb, jsonb)');
"""


class Pass(NamedTuple):
    """What a call of process_events answered."""

    events: int
    more: bool
    next_due_seconds: float | None
    actions: list[dict[str, Any]]


def add_effects(conn: psycopg.Connection) -> None:
    """Create app.effect and the SQL action `note` that writes it."""
    conn.execute(EFFECTS.encode())


def add_rule(
    conn: psycopg.Connection,
    name: str,
    action_type: str = "note",
    config: dict[str, Any] | None = None,
    *,
    event: str = "paid",
    frequency: str = "always",
) -> int:
    """Make a rule that events of the type *event* fire; return its id."""
    return int(
        scalar(
            conn,
            "insert into pgwhen.trigger_rule"
            " (name, source_type, action_type, action_config, frequency)"
            " values (%s, %s, %s, %s, %s) returning id",
            name, event, action_type, Jsonb(config or {}), frequency,
        )
    )  # fmt: skip


def emit(conn: psycopg.Connection, user: str = "u1", event: str = "paid", at: Any = None) -> int:
    """Emit an event in the session's transaction; return its id."""
    return int(scalar(conn, "select pgwhen.emit(%s, %s, at => %s)", event, user, at))


def process(
    conn: psycopg.Connection,
    worker: str = "w",
    types: Sequence[str] = (),
    batch_size: int | None = None,
    *,
    suspect: bool = False,
) -> Pass:
    """Call process_events once, in the session's transaction."""
    row = conn.execute(
        "select * from pgwhen.process_events(%s, %s, %s, suspect => %s)",
        [worker, list(types), batch_size, suspect],
    ).fetchone()
    assert row is not None
    return Pass(*row)


def process_all(conn: psycopg.Connection, worker: str = "w", types: Sequence[str] = ()) -> int:
    """Process until a call finds nothing; return the number of events."""
    events = 0
    while found := process(conn, worker, types).events:
        events += found
    return events


def claim(conn: psycopg.Connection, *types: str, size: int | None = None) -> list[tuple[int, Any]]:
    """Claim due actions; return their ids and tokens."""
    return conn.execute(
        "select id, token from pgwhen.claim_actions('w', %s, %s)", [size, list(types)]
    ).fetchall()


def report(
    conn: psycopg.Connection, verb: str, claims: Iterable[tuple[int, Any]], *told: list[str]
) -> set[int]:
    """Call complete_actions, fail_actions or release_actions; return the ids that it answered.

    *told* is what the verb is told beside the claims: arrays of JSON texts.
    """
    ids, tokens = (list(column) for column in zip(*claims, strict=True))
    call = f"select pgwhen.{verb}('w', %s, %s{', %s::jsonb[]' * len(told)})"
    return {row[0] for row in conn.execute(call.encode(), [ids, tokens, *told])}


def scalar(conn: psycopg.Connection, query: str, *params: Any) -> Any:
    """Return the first column of the first row of *query*."""
    row = conn.execute(query.encode(), params or None).fetchone()
    assert row is not None
    return row[0]


def log_counts(conn: psycopg.Connection) -> dict[str, int]:
    """Count the rows of trigger_log by their status."""
    rows = conn.execute("select status, count(*) from pgwhen.trigger_log group by status")
    return dict(rows.fetchall())


def waiting_events(conn: psycopg.Connection) -> list[int]:
    """List the events that are not processed yet."""
    return [row[0] for row in conn.execute("select id from _pgwhen.outbox order by id")]


def users_apart(conn: psycopg.Connection, count: int) -> list[str]:
    """Return the names of *count* users of which no two share a bucket."""
    rows = conn.execute(
        "select min(u) from (select 'u' || n as u from generate_series(1, 2000) as n) as u"
        " group by _pgwhen.bucket('default', u) order by 1 limit %s",
        [count],
    )
    return [row[0] for row in rows]


def age_floor(conn: psycopg.Connection) -> None:
    """Let so much time pass that the next take may raise the outbox floor."""
    conn.execute("update _pgwhen.floor set made_at = made_at - interval '1 hour'")
