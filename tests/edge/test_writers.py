"""Writers in transactions of their own: COPY, what a session leaves behind, isolation levels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg import IsolationLevel, errors

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database


def events(conn: psycopg.Connection) -> list[tuple[str, str | None, object]]:
    """Return (user, key, new) of the events that wait, in order."""
    return conn.execute("select user_id, key, new from _pgwhen.outbox order by id").fetchall()


def test_copy_writes_events(db: Database) -> None:
    """COPY is an insert: one statement, an event for each attribute."""
    conn = db.connect()
    with conn.cursor().copy("copy pgwhen.line_user (user_id, attributes) from stdin") as copy:
        for n in range(3):
            copy.write_row((f"U{n}", f'{{"tier": "gold", "n": {n}}}'))
    assert events(conn) == [
        (f"U{n}", key, new) for n in range(3) for key, new in (("n", n), ("tier", "gold"))
    ]
    (stamps,) = conn.execute("select count(distinct created_at) from _pgwhen.outbox").fetchone()  # type: ignore[misc]
    assert stamps == 1


def test_copy_of_garbage_writes_nothing(db: Database) -> None:
    """A row that Postgres refuses takes its statement with it, and leaves no event."""
    conn = db.connect()
    for bad in ('{"x": "\\\\u0000"}', '{"x": "\\\\ud800"}', "[]", "{"):
        with (
            pytest.raises((errors.DataError, errors.IntegrityError)),
            conn.cursor().copy("copy pgwhen.line_user (user_id, attributes) from stdin") as copy,
        ):
            copy.write(f'U1\t{{"tier": "gold"}}\nU2\t{bad}\n')
    assert events(conn) == []


def test_mute_ends_with_its_transaction(db: Database) -> None:
    """Also when it was set for the session, as a pooler's next client would find it."""
    conn = db.connect()
    with conn.transaction():
        conn.execute("select pgwhen.mute()")
        conn.execute("insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'f')")
        (left,) = conn.execute("select current_setting('pgwhen.muted')").fetchone()  # type: ignore[misc]
    assert events(conn) == []
    conn.execute("select set_config('pgwhen.muted', %s, false)", [left])
    conn.execute("insert into pgwhen.form_submission (user_id, form_id) values ('U2', 'f')")
    assert [user for user, *_ in events(conn)] == ["U2"]


def test_event_time_ends_with_its_transaction(db: Database) -> None:
    """What one transaction says of time is nothing to the next."""
    conn = db.connect()
    with conn.transaction():
        conn.execute("select pgwhen.event_time('1997-01-18')")
        conn.execute("insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'f')")
    conn.execute("insert into pgwhen.form_submission (user_id, form_id) values ('U2', 'f')")
    years = conn.execute("select extract(year from at)::int from _pgwhen.outbox order by id")
    first, second = (year for (year,) in years)
    assert first == 1997
    assert second > 2020


def test_what_is_rolled_back_never_was(db: Database) -> None:
    """An event lives and dies with the transaction, and the savepoint, that wrote it."""
    conn = db.connect(autocommit=False)
    conn.execute("select pgwhen.emit('ordered', 'U1')")
    conn.rollback()
    conn.execute("select pgwhen.emit('ordered', 'U2')")
    conn.execute("savepoint before")
    conn.execute("select pgwhen.emit('ordered', 'U3')")
    conn.execute("rollback to before")
    conn.commit()
    assert [user for user, *_ in events(conn)] == ["U2"]


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_events_are_written_at_any_isolation_level(db: Database, level: IsolationLevel) -> None:
    """An application need not know of pgwhen to choose its isolation level."""
    conn = db.connect(autocommit=False)
    conn.isolation_level = level
    conn.execute("insert into pgwhen.line_user (user_id, attributes) values ('U1', '{\"n\": 1}')")
    conn.execute("update pgwhen.line_user set attributes = '{\"n\": 2}'")
    conn.execute("select pgwhen.emit('ordered', 'U1')")
    conn.commit()
    assert [key for _, key, _ in events(conn)] == ["n", "n", None]


def test_serializable_writers_do_not_get_in_each_other_s_way(db: Database) -> None:
    """Two serializable transactions that write different users both commit."""
    first, second = db.sessions(2)
    for n, conn in enumerate((first, second)):
        conn.isolation_level = IsolationLevel.SERIALIZABLE
        conn.execute(
            "insert into pgwhen.line_user (user_id, attributes) values (%s, '{\"n\": 1}')",
            [f"U{n}"],
        )
        conn.execute("select pgwhen.emit('ordered', %s)", [f"U{n}"])
    first.commit()
    second.commit()
    assert len(events(db.connect())) == 4


def test_run_ticks_runs_until_nothing_is_due(db: Database) -> None:
    """Batch after batch is committed, what it caused is processed too, and no mark is left."""
    conn = db.connect(options="-c client_min_messages=error")
    conn.execute("insert into pgwhen.setting (name, value) values ('batchSize', '10')")
    conn.execute(
        "insert into pgwhen.trigger_rule (name, source_type, action_type, action_config, frequency)"
        " values ('echo', 'ordered', 'emit_event', '{\"type\": \"thanked\"}', 'always'),"
        " ('thank', 'thanked', 'add_to_audience', '{\"audience\": \"a\"}', 'always')"
    )
    conn.execute("select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 35) as n")
    conn.execute(
        "insert into pgwhen.scheduled_action (user_id, action_type, action_config, key)"
        " select 'V' || n, 'add_to_audience', '{\"audience\": \"a\"}', gen_random_uuid()"
        " from generate_series(1, 25) as n"
    )
    (done,) = conn.execute("call pgwhen.run_ticks()").fetchone()  # type: ignore[misc]

    assert done == 35 + 35 + 25
    assert conn.execute("select count(*) from pgwhen.audience_member").fetchone() == (60,)
    assert conn.execute("select count(*) from _pgwhen.suspect").fetchone() == (0,)
    assert conn.execute("call pgwhen.run_ticks()").fetchone() == (0,)
    with conn.transaction(), pytest.raises(errors.InvalidTransactionTermination):
        conn.execute("call pgwhen.run_ticks()")


def test_run_ticks_ends_in_time(db: Database) -> None:
    """With no time left it makes one pass, and the next call goes on."""
    conn = db.connect()
    conn.execute("insert into pgwhen.setting (name, value) values ('batchSize', '10')")
    conn.execute("select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 35) as n")
    (done,) = conn.execute("call pgwhen.run_ticks(0)").fetchone()  # type: ignore[misc]
    assert 0 < done <= 10
    (rest,) = conn.execute("call pgwhen.run_ticks()").fetchone()  # type: ignore[misc]
    assert done + rest == 35
