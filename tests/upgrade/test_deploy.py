"""`pgwhen deploy`: what it changes, what it leaves alone, and what it refuses."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

import pgwhen
from pgwhen import deploy as deployer
from pgwhen import sources
from pgwhen.cli import main
from pgwhen.deploy import DeployError, deploy
from tests.support import Database, dump, psql, wait_blocked, wait_until, without_times

if TYPE_CHECKING:
    from pathlib import Path

FILENODES = """
select c.oid::regclass::text, pg_relation_filenode(c.oid)
from pg_class as c
where c.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
    and c.relkind in ('r', 'i', 't')
order by 1
"""

#: CREATE OR REPLACE TRIGGER, which locks its table, would write the row anew.
TRIGGERS = """
select t.oid, t.xmin::text
from pg_trigger as t
inner join pg_class as c on t.tgrelid = c.oid
where c.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
order by 1
"""

#: What the files of sql/ say they create, and what the catalog has; triggers and defaults are
#: set by ensure_*() and belong to tables.
CREATED = r"create or replace (?:function|procedure|view|aggregate) ([a-z_]+\.[a-z0-9_]+)"
CATALOG = """
select distinct n.nspname || '.' || o.name
from (
    select pronamespace, proname from pg_proc
    union all
    select relnamespace, relname from pg_class where relkind in ('v', 'm')
) as o (namespace, name)
inner join pg_namespace as n on o.namespace = n.oid
where n.nspname in ('pgwhen', '_pgwhen')
"""

DEPLOYER = "select pid from pg_stat_activity where application_name = 'pgwhen deploy' and"
WAITING = f"{DEPLOYER} datname = current_database() and wait_event_type = 'Lock' limit 1"


def refused(database: Database, lock_timeout: float = 5.0) -> DeployError:
    """Deploy with one try, which must be refused and change nothing."""
    before = dump(database)
    with pytest.raises(DeployError) as caught:
        deploy(database.conninfo, lock_timeout=lock_timeout, tries=1)
    assert dump(database) == before
    return caught.value


def test_installs_into_an_empty_database(empty_db: Database) -> None:
    """The ledger has every migration with its digest, and nothing is left over."""
    report = deploy(empty_db.conninfo)

    rows = empty_db.connect().execute("select name, digest from _pgwhen.migration order by name")
    assert rows.fetchall() == [(s.name, s.digest) for s in sources.migrations()]
    assert report.applied == [s.name for s in sources.migrations()]
    assert report.left_over == []


def test_second_deploy_changes_nothing(db: Database) -> None:
    """Its dump is equal, no table or index was rewritten, and no trigger made again."""
    conn = db.connect()
    before, filenodes = dump(db), conn.execute(FILENODES).fetchall()
    triggers = conn.execute(TRIGGERS).fetchall()

    report = deploy(db.conninfo)

    assert report == deployer.Report([], [])
    assert dump(db) == before
    assert conn.execute(FILENODES).fetchall() == filenodes
    assert conn.execute(TRIGGERS).fetchall() == triggers


def test_second_deploy_waits_for_nobody(db: Database) -> None:
    """Open transactions that wrote to every table and ran the engine do not hold it up."""
    writer, engine = db.sessions(2)
    engine.execute("select pgwhen.emit('paid', 'U1')")
    engine.execute("select pgwhen.tick()")
    tables = writer.execute(
        "select oid::regclass::text from pg_class where relkind in ('r', 'p')"
        " and relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)"
    ).fetchall()
    for (table,) in tables:
        if table != "_pgwhen.migration":
            writer.execute(f"lock table {table} in row exclusive mode".encode())

    assert deploy(db.conninfo, lock_timeout=0.5, tries=1).applied == []


def test_applies_only_what_is_new(db: Database, migration: Path) -> None:
    """A migration that came later runs once, after the others."""
    assert deploy(db.conninfo).applied == [migration.stem]
    assert deploy(db.conninfo).applied == []

    names = db.connect().execute("select name from _pgwhen.migration order by applied_at, name")
    assert [name for (name,) in names] == [s.name for s in sources.migrations()]


def test_refuses_a_changed_migration(db: Database, tree: Path) -> None:
    """Whoever edits a released migration is told to write a new one."""
    file = tree / "migrations" / f"{sources.migrations()[0].name}.sql"
    file.write_text(file.read_text() + "\n-- a word more\n")

    error = refused(db)

    assert (error.code, str(error)) == (
        "PW904",
        f"PW904: migration {file.stem} has changed since it was applied here",
    )
    assert error.hint is not None
    assert "new migration" in error.hint


def test_takes_other_line_ends_for_the_same(db: Database, tree: Path) -> None:
    """A checkout with CRLF has the same migrations."""
    for file in (tree / "migrations").iterdir():
        file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))

    assert deploy(db.conninfo).applied == []


def test_refuses_a_database_that_is_ahead(db: Database, migration: Path) -> None:
    """A package that lacks an applied migration does not deploy over it."""
    deploy(db.conninfo)
    migration.unlink()

    error = refused(db)

    assert error.code == "PW905"
    assert migration.stem in str(error)


def test_refuses_a_migration_among_applied_ones(db: Database, tree: Path, migration: Path) -> None:
    """A new number below an applied one would run in another order elsewhere."""
    deploy(db.conninfo)
    migration.with_name("8000_late.sql").write_text("select;\n")

    error = refused(db)

    assert error.code == "PW905"
    assert (tree / "migrations" / "8000_late.sql").exists()


def test_refuses_a_schema_of_somebody_else(empty_db: Database) -> None:
    """A schema pgwhen without a ledger is not ours to fill."""
    empty_db.connect().execute("create schema pgwhen")

    assert refused(empty_db).code == "PW903"


@pytest.mark.parametrize(
    ("check", "never", "code"),
    [("< 150000", "< 990000", "PW901"), ("pg_is_in_recovery()", "true", "PW902")],
)
def test_refuses_a_server(
    empty_db: Database, monkeypatch: pytest.MonkeyPatch, check: str, never: str, code: str
) -> None:
    """An old server and a standby are named as what they are."""
    text = deployer._preflight()
    assert check in text
    monkeypatch.setattr(deployer, "_preflight", lambda: text.replace(check, never))

    assert refused(empty_db).code == code


def test_failing_file_is_named_and_rolled_back(db: Database, tree: Path, migration: Path) -> None:
    """The error says file, line and cause; the migration before it is undone."""
    file = tree / "sql" / sources.manifest()[0]
    file.write_text(file.read_text() + "\n\nselect 1 / nothing;\n")
    line = file.read_text().count("\n")

    error = refused(db)

    assert error.code == "PW907"
    assert str(error).startswith(f"PW907: sql/{sources.manifest()[0]}, line {line}: 42703 ")
    assert migration.exists()


def test_gives_up_and_names_the_blocker(db: Database, migration: Path) -> None:
    """Behind a transaction that does not end, it ends itself and says who it was."""
    blocker = db.connect(autocommit=False)
    blocker.execute("select count(*) from pgwhen.trigger_rule")

    error = refused(db, lock_timeout=0.4)

    assert error.code == "PW906"
    assert f"pid {blocker.info.backend_pid} " in str(error)
    assert "from pgwhen.trigger_rule" in str(error)
    assert migration.exists()


def test_tries_again(db: Database, migration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blocker that ends after the first try costs one try."""
    blocker = db.connect(autocommit=False)
    blocker.execute("select from pgwhen.trigger_rule")
    monkeypatch.setattr("time.sleep", lambda _: blocker.rollback())

    assert deploy(db.conninfo, lock_timeout=0.2, tries=2).applied == [migration.stem]


def test_two_deploys_take_turns(db: Database, migration: Path) -> None:
    """The second waits for the first, then finds nothing new."""
    observer, first = db.connect(), db.connect(autocommit=False)
    first.execute(deployer.LOCK.encode())
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(deploy, db.conninfo, lock_timeout=10) for _ in range(2)]
        for _ in waiting:
            pid = wait_until(observer, WAITING)
            wait_blocked(observer, pid)
        first.rollback()
        reports = [future.result() for future in waiting]

    assert sorted(report.applied for report in reports) == [[], [migration.stem]]


def test_left_over_functions_are_named(db: Database) -> None:
    """A function or view that no file creates any more is reported, and nothing else."""
    conn = db.connect()
    conn.execute("create function pgwhen.gone(integer) returns void language sql as ''")
    conn.execute("create view pgwhen.past as select 1 as one")

    assert deploy(db.conninfo).left_over == ["pgwhen.gone(integer)", "pgwhen.past"]


def test_catalog_has_what_the_files_create(db: Database) -> None:
    """Each function and view of both schemas stands in a file of sql/, and the other way round."""
    created = {name for script in sources.behaviour() for name in re.findall(CREATED, script.text)}

    assert {name for (name,) in db.connect().execute(CATALOG)} == created


def test_dry_run_prints_what_psql_can_run(empty_db: Database, template: Database) -> None:
    """It changes nothing itself; what it printed installs the same."""
    before = dump(empty_db)
    page = deployer.plan(empty_db.conninfo)
    assert dump(empty_db) == before

    run = psql(empty_db, input=page)

    assert (run.returncode, run.stderr) == (0, "")
    assert without_times(dump(empty_db)) == without_times(dump(template))


def test_dry_run_leaves_out_what_is_applied(db: Database, migration: Path) -> None:
    """Only the new migration stands in it."""
    page = deployer.plan(db.conninfo)

    assert f"-- migrations/{migration.stem}.sql" in page
    assert "create schema" not in page


def test_command(empty_db: Database, capsys: pytest.CaptureFixture[str]) -> None:
    """The command deploys, says so, and exits with 0; a refusal exits with 1 and a hint."""
    command = ["deploy", "--dsn", empty_db.conninfo]

    assert main(command) == 0
    assert "applied 0001_baseline\n" in capsys.readouterr().out

    with psycopg.connect(empty_db.conninfo) as conn:
        conn.execute("update _pgwhen.migration set digest = ''")
    assert main(command) == 1
    assert capsys.readouterr().err.startswith("pgwhen: PW904: migration 0001_baseline has changed")

    assert main(["deploy", "--dsn", "host=/nowhere"]) == 1
    assert "hint: Name a server" in capsys.readouterr().err


def test_version_is_one(db: Database) -> None:
    """The database, the package and the files that `make dist` names say the same."""
    assert db.connect().execute("select pgwhen.version()").fetchone() == (pgwhen.__version__,)


def test_prepared_transaction_is_named(db: Database, migration: Path) -> None:
    """A blocker without a process is named as what it is."""
    session = db.connect()
    session.execute("begin; lock table pgwhen.trigger_rule in row exclusive mode")
    session.execute(f"prepare transaction '{db.name}'".encode())

    error = refused(db, lock_timeout=0.4)
    session.execute(f"rollback prepared '{db.name}'".encode())

    assert "in the way: a prepared transaction" in str(error)
    assert migration.exists()
