"""What kills its backend, runs out of time or escapes until the commit harms only itself (P6)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

from tests.concurrency.scene import (
    add_rule,
    emit,
    log_counts,
    process,
    process_all,
    scalar,
    waiting_events,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support import Database

#: Events in a batch, of which one is bad: for user `bad`, who also has good ones.
EVENTS = 24
#: Calls that may be lost until the bad one is found: one for each halving, one for each attempt at
#: its action, and some.
LOSSES = 16

#: SQL actions that no EXCEPTION block can hold, and one that it would not notice.
POISON = """
create function app.die(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language plpgsql as $$
begin
    perform pg_terminate_backend(pg_backend_pid());
    return null;
end;
$$;
create function app.dawdle(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as $$ select to_jsonb(true) from pg_sleep(60) $$;

create table app.customer (id integer primary key);
create table app.invoice (
    customer integer references app.customer deferrable initially deferred
);
create function app.bill(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as $$ insert into app.invoice values (1) returning to_jsonb(customer) $$;

select pgwhen.register_sql_action(f, format('app.%s(text, text, jsonb, jsonb)', f)::regprocedure)
from unnest(array['die', 'dawdle', 'bill']) as f;

insert into pgwhen.setting values ('staleProcessingMinute', '1e-7'), ('retrySeconds', '0');
"""


@pytest.fixture
def bad(shop: psycopg.Connection) -> str:
    """Register the bad actions, and a rule with a good one; return the name of a bad event."""
    shop.execute(POISON.encode())
    add_rule(shop, "good")
    return "bad"


def write(shop: psycopg.Connection, bad: str) -> list[int]:
    """Emit events, a bad one between others of the same user; return the good ones."""
    good = [emit(shop, bad if n % 4 == 0 else f"u{n}") for n in range(EVENTS // 2)]
    emit(shop, bad, "bad")
    return good + [
        emit(shop, bad if n % 4 == 0 else f"u{n}") for n in range(EVENTS // 2, EVENTS - 1)
    ]


def call_as_told(db: Database, conn: psycopg.Connection) -> int:
    """Process as the comment of process_events says, until nothing is left; count the losses."""
    losses = 0
    while scalar(db.connect(), "select exists (select from _pgwhen.outbox)"):
        try:
            process(conn)
        except (errors.AdminShutdown, errors.QueryCanceled, psycopg.OperationalError):
            losses += 1
            assert losses <= LOSSES
            conn = again(db, conn)
            process(conn, suspect=True)
    return losses


def call_ticks(db: Database, conn: psycopg.Connection) -> int:
    """Call run_ticks, as pg_cron does, until a call gets through; count the losses."""
    for losses in range(LOSSES + 1):
        with suppress(psycopg.OperationalError):
            conn.execute("call pgwhen.run_ticks()")
            return losses
        conn = again(db, conn)
    raise AssertionError


def again(db: Database, lost: psycopg.Connection | None = None) -> psycopg.Connection:
    """Connect as a caller that has lost its session, or gives it up."""
    if lost is not None:
        lost.close()
    return db.connect(options="-c statement_timeout=500")


@pytest.mark.parametrize("action_type", ["die", "dawdle"])
@pytest.mark.parametrize("call", [call_as_told, call_ticks])
def test_an_action_that_kills_is_found(
    db: Database,
    shop: psycopg.Connection,
    bad: str,
    call: Callable[[Database, psycopg.Connection], int],
    action_type: str,
) -> None:
    """P6. Found by halving, its action fails by itself; all others are done once, in order."""
    add_rule(shop, "bad", action_type, event="bad")
    add_rule(shop, "spared", event="bad")
    good = write(shop, bad)

    assert call(db, again(db)) > 0
    call_ticks(db, again(db))

    effects = shop.execute(
        "select event_id, user_id from app.effect where event_id = any(%s) order by n", [good]
    ).fetchall()
    assert sorted(event for event, _ in effects) == good
    mine = [event for event, user in effects if user == bad]
    assert mine == sorted(mine)
    assert scalar(shop, "select count(*) from app.effect") == len(good) + 1
    ended = shop.execute(
        "select action_type, status from pgwhen.scheduled_action where action_type = %s",
        [action_type],
    )
    assert ended.fetchall() == [(action_type, "failed")]
    assert log_counts(shop) == {"success": len(good) + 1, "failed": 1}
    assert waiting_events(shop) == []
    assert scalar(shop, "select count(*) from pgwhen.event where parked is not null") == 0
    assert scalar(shop, "select count(*) from _pgwhen.suspect") == 0


@pytest.mark.parametrize("call", [call_as_told, call_ticks])
def test_an_event_that_kills_is_parked(
    db: Database,
    shop: psycopg.Connection,
    bad: str,
    call: Callable[[Database, psycopg.Connection], int],
) -> None:
    """P6. Where not even the judge survives it, the event is set aside with a reason."""
    add_rule(shop, "bad", event="bad")
    good = write(shop, bad)
    # Nothing that people can save kills the judge; so something kills whoever keeps this event.
    shop.execute(
        "create function app.die_too() returns trigger language plpgsql as"
        " 'begin perform pg_terminate_backend(pg_backend_pid()); return new; end';"
        " create trigger die before insert on _pgwhen.processed_event for each row"
        " when (new.type = 'bad' and new.parked is null) execute function app.die_too()"
    )

    assert call(db, again(db)) > 0

    parked = shop.execute("select user_id, type, parked from pgwhen.event where parked is not null")
    reason = "it ended the connection or ran out of statement_timeout"
    assert parked.fetchall() == [(bad, "bad", reason)]
    failed = shop.execute(
        "select user_id, error_message from pgwhen.trigger_log where status = 'failed'"
    )
    assert failed.fetchall() == [(bad, f"event parked: {reason}")]
    assert log_counts(shop) == {"success": len(good), "failed": 1}
    assert waiting_events(shop) == []
    assert scalar(shop, "select count(*) from _pgwhen.suspect") == 0


@pytest.mark.parametrize("action_type", ["die", "dawdle"])
@pytest.mark.usefixtures("bad")
def test_a_bad_action_fails_alone(db: Database, shop: psycopg.Connection, action_type: str) -> None:
    """P6. One that waited and now kills its backend fails; those claimed with it are done."""
    shop.execute(
        "insert into pgwhen.scheduled_action (user_id, action_type, key, event, trigger_rule_id)"
        " select 'u' || n, case n when 9 then %s else 'note' end, gen_random_uuid(),"
        " '{\"id\": 1}', (select id from pgwhen.trigger_rule)"
        " from generate_series(1, %s) as n",
        [action_type, EVENTS],
    )

    call_ticks(db, again(db))

    ended = shop.execute(
        "select action_type, status, count(*) from pgwhen.scheduled_action group by 1, 2 order by 1"
    )
    assert ended.fetchall() == [(action_type, "failed", 1), ("note", "done", EVENTS - 1)]


def test_what_would_only_fail_at_commit_fails_alone(shop: psycopg.Connection, bad: str) -> None:
    """P6. A deferred constraint is made immediate while there is still a block to hold it."""
    shop.execute("insert into pgwhen.setting values ('maxRetries', '1')")
    add_rule(shop, "bad", "bill", event="bad")
    good = write(shop, bad)

    process_all(shop)
    assert log_counts(shop) == {"success": len(good)}
    for _ in range(2):
        shop.execute("select pgwhen.tick()")

    failed = shop.execute(
        "select user_id, status, error_message from pgwhen.scheduled_action"
        " where action_type = 'bill'"
    )
    ((user, status, why),) = failed.fetchall()
    assert (user, status, why.split(":")[0]) == (bad, "failed", "23503")
    assert scalar(shop, "select count(*) from app.invoice") == 0

    shop.execute("insert into app.customer values (1)")
    emit(shop, bad, "bad")
    process_all(shop)
    assert scalar(shop, "select count(*) from app.invoice") == 1
