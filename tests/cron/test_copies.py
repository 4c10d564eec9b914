"""What came out of a dump, or was copied, does nothing by itself until somebody says it may."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen.deploy import deploy
from tests.support import Database, program, psql, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT = """
insert into pgwhen.trigger_rule (name, source_type, action_type, action_config) values
('customers', 'ordered', 'add_to_audience', '{"audience": "customers"}');
select pgwhen.emit('ordered', 'ann');
"""


@pytest.fixture
def original(empty_db: Database) -> Database:
    """Return a database that knows it is at home, with an event that waits."""
    deploy(empty_db.conninfo)
    with psycopg.connect(empty_db.conninfo) as conn:
        conn.execute(EVENT.encode())
    return empty_db


@pytest.fixture
def copy(original: Database, create: Callable[..., Database]) -> Database:
    """Return what a dump of it makes."""
    dumped = subprocess.run(
        [program("pg_dump")], env=original.env, capture_output=True, text=True, check=True
    )
    database = create()
    assert psql(database, input=dumped.stdout).returncode == 0
    return database


def ticks(database: Database) -> tuple[int, list[str]]:
    """Do what pg_cron's job does; return how much that was, and the SQLSTATEs of warnings."""
    conn = database.connect()
    said: list[str] = []
    conn.add_notice_handler(lambda notice: said.append(notice.sqlstate or ""))
    row = conn.execute("call pgwhen.run_ticks()").fetchone()
    assert row is not None
    return row[0], said


def test_the_original_ticks(original: Database) -> None:
    assert ticks(original) == (1, [])


def test_a_restored_dump_does_not(copy: Database, original: Database) -> None:
    """It warns and leaves the event; deploying to it does not make it the original."""
    assert ticks(copy) == (0, ["PW801"])
    deploy(copy.conninfo)
    assert ticks(copy) == (0, ["PW801"])

    conn = copy.connect()
    assert conn.execute("select count(*) from _pgwhen.outbox").fetchone() == (1,)
    finding = conn.execute(
        "select value, remedy from pgwhen.status() where item = 'ticking by itself'"
    ).fetchone()
    assert finding is not None
    assert finding[0].startswith(f'this is a copy of database "{original.name}" (oid ')
    assert finding[1] == "if it is the real one now: select pgwhen.adopt()"


def test_it_cannot_be_scheduled_by_mistake(copy: Database) -> None:
    with pytest.raises(psycopg.Error, match="this is a copy of") as caught:
        copy.connect().execute("select pgwhen.enable_cron()")
    assert caught.value.sqlstate == "PW801"


def test_adopted_it_ticks(copy: Database) -> None:
    """All that waited is done, once."""
    copy.connect().execute("select pgwhen.adopt()")

    assert ticks(copy) == (1, [])
    assert ticks(copy) == (0, [])


def test_a_renamed_database_is_still_at_home(
    original: Database, create: Callable[..., Database], admin: psycopg.Connection
) -> None:
    """It goes by the oid; a copy from it as a template is a copy."""
    name = original.name
    original.close()
    original.name = f"{name}_renamed"
    admin.execute(f"alter database {name} rename to {original.name}".encode())

    template_copy = create(original.name)
    assert ticks(original) == (1, [])
    assert ticks(template_copy) == (0, ["PW801"])


def test_a_listener_refuses_to_start(copy: Database) -> None:
    """It takes nothing, ends with words, and works once the copy is adopted."""
    command = [sys.executable, "-m", "pgwhen", "run"]
    run = subprocess.run(
        command, env=copy.env, capture_output=True, text=True, check=False, timeout=30
    )

    assert run.returncode == 1
    assert "this is a copy of database" in run.stderr
    assert "select pgwhen.adopt()" in run.stderr
    conn = copy.connect()
    assert conn.execute("select count(*) from _pgwhen.outbox").fetchone() == (1,)

    conn.execute("select pgwhen.adopt()")
    with subprocess.Popen(command, env=copy.env, stderr=subprocess.DEVNULL) as listener:
        wait_until(conn, "select count(*) = 1 from pgwhen.audience_member")
        listener.terminate()
        assert listener.wait(30) == 0


CHARGES = """
insert into pgwhen.trigger_rule (name, source_type, action_type, frequency)
values ('charge', 'paid', 'charge', 'always');
"""
#: Three actions of a rule, one that was asked for, and one under a name of the caller's.
MORE = """
select pgwhen.emit('paid', 'ann') from generate_series(1, 3);
call pgwhen.run_ticks();
select pgwhen.schedule_action('charge', 'ann', '{}');
select pgwhen.schedule_action('charge', 'ann', '{}', deduplication_key => 'order-%s');
"""


def keys(database: Database) -> dict[int, str]:
    """Return the keys of all charges, by id."""
    rows = database.connect().execute(
        "select id, key::text from pgwhen.scheduled_action where action_type = 'charge'"
    )
    return dict(rows.fetchall())


def run_sql(database: Database, text: str) -> None:
    """Run *text*, statement by statement."""
    assert psql(database, input=text).returncode == 0


def test_no_new_action_meets_an_old_key(
    original: Database, create: Callable[..., Database]
) -> None:
    """After a restore the sequences give numbers that were given before, and keys that were not."""
    run_sql(original, CHARGES + MORE % 1)
    before = keys(original)
    dumped = subprocess.run(
        [program("pg_dump")], env=original.env, capture_output=True, text=True, check=True
    )
    run_sql(original, MORE % 2)
    lost = {number: key for number, key in keys(original).items() if number not in before}

    restored = create()
    run_sql(restored, dumped.stdout + "select pgwhen.adopt();" + MORE % 3)
    after = keys(restored)
    new = {number: key for number, key in after.items() if number not in before}

    assert before.items() <= after.items()
    assert len(before) == len(lost) == len(new) == 5
    assert lost.keys() & new.keys()
    assert not set(new.values()) & {*before.values(), *lost.values()}
