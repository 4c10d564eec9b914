"""Each role works in a session of its own, where no plan or privilege is left of a stronger one.

What a role cannot do is told, statement by statement, by tests/sql/grants.sql.
"""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors, sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import Database

_numbers = itertools.count(1)


@contextmanager
def member(db: Database, admin: psycopg.Connection, group: str) -> Iterator[psycopg.Connection]:
    """Yield a session that has only what *group* grants: of a new role, that may log in."""
    name = f"{db.name}_{group}_{next(_numbers)}"[-63:]
    role = sql.Identifier(name)
    admin.execute(sql.SQL("create role {} login in role {}").format(role, sql.Identifier(group)))
    try:
        conn = db.connect(options="-c client_min_messages=error")
        conn.execute(sql.SQL("set session authorization {}").format(role))
        yield conn
        conn.close()
    finally:
        admin.execute(sql.SQL("drop role {}").format(role))


def test_they_work_together(db: Database, admin: psycopg.Connection) -> None:
    """An editor's rule, an application's event and a worker's call make an action all can see."""
    with member(db, admin, "pgwhen_editor") as editor:
        editor.execute(
            "insert into pgwhen.trigger_rule"
            " (name, source_type, source_config, action_type, action_config) values"
            ' (\'gold\', \'attribute_changed\', \'{"attribute": "tier", "to": "gold"}\','
            " 'add_to_audience', '{\"audience\": \"gold members\"}'),"
            " ('thank', 'form_submitted', '{}', 'log_message', '{\"text\": \"thank you\"}')"
        )
    with member(db, admin, "pgwhen_application") as application:
        application.execute(
            "insert into pgwhen.line_user (user_id, attributes)"
            " values ('U1', '{\"tier\": \"gold\"}')"
        )
        application.execute(
            "insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote')"
        )
        with application.transaction():
            application.execute("select pgwhen.mute()")
            application.execute(
                "insert into pgwhen.form_submission (user_id, form_id) values ('U2', 'quote')"
            )
        with application.transaction():
            application.execute("select pgwhen.event_time('1997-01-18')")
            application.execute(
                "insert into pgwhen.booking_event (user_id, status) values ('U1', 'confirmed')"
            )
        application.execute("select pgwhen.emit('ordered', 'U1')")
    with member(db, admin, "pgwhen_worker") as worker:
        worker.execute("select pgwhen.announce_worker('w-1', '{log_message}')")
        worker.execute("select pgwhen.register_action('send_sms')")
        assert worker.execute("select pgwhen.try_sleep()").fetchone() == ("granted",)
        assert worker.execute("select pgwhen.wake_up()").fetchone() == (True,)
        assert worker.execute("select events from pgwhen.process_events('w-1')").fetchone() == (4,)
        claimed = worker.execute("select id, token from pgwhen.claim_actions('w-1')").fetchall()
        assert len(claimed) == 1
        for verb in ("release", "complete", "fail"):
            errors_given = ", array['{}'::jsonb]" if verb == "fail" else ""
            worker.execute(
                f"select pgwhen.{verb}_actions('w-1', array[%s], array[%s]{errors_given})".encode(),
                claimed[0],
            )
        claimed = worker.execute("select id, token from pgwhen.claim_actions('w-1')").fetchall()
        done = worker.execute(
            "select pgwhen.complete_actions('w-1', array[%s], array[%s])", claimed[0]
        )
        assert done.fetchone() == (claimed[0][0],)
        worker.execute("select pgwhen.recover_stale_actions()")
        worker.execute("select pgwhen.tick()")
        worker.execute("call pgwhen.run_ticks()")
        worker.execute("select pgwhen.maintain()")
    with member(db, admin, "pgwhen_viewer") as viewer:
        assert viewer.execute(
            "select rule, user_id, status from pgwhen.user_history order by rule"
        ).fetchall() == [("gold", "U1", "success"), ("thank", "U1", "success")]
        viewer.execute("select * from pgwhen.status()")
        viewer.execute("select * from pgwhen.tail()")
        viewer.execute("select * from pgwhen.due")
        viewer.execute("select * from pgwhen.queue")
        assert viewer.execute(
            "select count(*) from pgwhen.explain((select min(id) from pgwhen.trigger_rule), 'U1')"
        ).fetchone() != (0,)
    with member(db, admin, "pgwhen_admin") as boss:
        boss.execute("insert into pgwhen.setting (name, value) values ('maxRetries', '1')")
        boss.execute("select pgwhen.emit('ordered', 'U1')")
        boss.execute("call pgwhen.run_ticks()")
        boss.execute("delete from pgwhen.trigger_rule")


def test_an_application_sees_nothing_of_ours(db: Database, admin: psycopg.Connection) -> None:
    """It needs no look into the private schema, and gets none."""
    with member(db, admin, "pgwhen_application") as application:
        for statement in (
            "select _pgwhen.clock()",
            "select from _pgwhen.outbox",
            "select from pgwhen.event",
            "select pgwhen.process_events('w-1')",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                application.execute(statement.encode())


def test_nobody_has_nothing(db: Database, admin: psycopg.Connection) -> None:
    """A role that is in none of the groups cannot even look."""
    with member(db, admin, "pg_read_all_settings") as nobody:
        for statement in ("select pgwhen.version()", "select from pgwhen.trigger_rule"):
            with pytest.raises(errors.InsufficientPrivilege, match="schema pgwhen"):
                nobody.execute(statement.encode())


def test_an_event_is_its_holder_s(db: Database, admin: psycopg.Connection) -> None:
    """A worker that calls the steps itself cannot fire what another session works on."""
    (first,) = db.sessions(1)
    first.execute("select pgwhen.emit('ordered', 'U1')")
    first.commit()
    first.execute("select _pgwhen.take('w-1', 10)")
    with member(db, admin, "pgwhen_worker") as second:
        for step in ("fire('w-2', array[1, null], '{}', 5)", "fire_alone('w-2', 1)"):
            with pytest.raises(psycopg.Error) as raised:
                second.execute(f"select _pgwhen.{step}".encode())
            assert raised.value.sqlstate == "PW204"
        (ids,) = second.execute("select ids from _pgwhen.take('w-2', 10)").fetchone()  # type: ignore[misc]
        assert ids == []
    first.rollback()
    assert first.execute("select user_id from _pgwhen.outbox").fetchall() == [("U1",)]
    assert first.execute("select count(*) from _pgwhen.processed_event").fetchone() == (0,)


def test_a_rule_runs_code_as_nobody_else(db: Database, admin: psycopg.Connection) -> None:
    """What an editor writes is run by a worker with the worker's rights, and only if registered."""
    owner = db.connect(options="-c client_min_messages=error")
    owner.execute("create schema shop")
    owner.execute("grant usage on schema shop to public")
    owner.execute(
        "create function shop.steal(line_oa_id text, user_id text, config jsonb, ctx jsonb)"
        " returns jsonb language plpgsql as $$ begin"
        " execute config ->> 'sql'; return to_jsonb(session_user::text); end $$"
    )
    owner.execute(
        "select pgwhen.register_sql_action('steal', 'shop.steal(text, text, jsonb, jsonb)')"
    )
    with member(db, admin, "pgwhen_editor") as editor:
        editor.execute(
            "insert into pgwhen.trigger_rule (name, source_type, action_type, action_config) values"
            " ('steal', 'ordered', 'steal', '{\"sql\": \"select secrets from pgwhen.account\"}'),"
            " ('never', 'ordered', 'shop.steal', '{\"sql\": \"drop table pgwhen.line_user\"}')"
        )
    owner.execute("select pgwhen.emit('ordered', 'U1')")
    with member(db, admin, "pgwhen_worker") as worker:
        worker.execute("select pgwhen.process_events('w-1')")
        worker.execute("select pgwhen.tick()")
    assert owner.execute(
        "select action_type, status, error_message from pgwhen.scheduled_action"
        " order by action_type"
    ).fetchall() == [
        ("shop.steal", "pending", None),
        ("steal", "pending", "42501: permission denied for table account"),
    ]
