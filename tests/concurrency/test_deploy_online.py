"""Deploy × everything: a deploy under load harms nobody, and nobody waits behind it for long."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pgwhen import sources
from pgwhen.deploy import DeployError, deploy
from tests.concurrency.scene import add_rule, emit, scalar
from tests.support import wait_blocked, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from tests.support import Database

DEPLOYER = (
    "select pid from pg_stat_activity where application_name = 'pgwhen deploy'"
    " and datname = current_database() and wait_event_type = 'Lock' limit 1"
)


@pytest.fixture
def migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the next deploy a migration that locks pgwhen.trigger_rule; return its name."""
    root = tmp_path / "release"
    for folder in ("sql", "migrations"):
        shutil.copytree(sources.ROOT / folder, root / folder)
    (root / "migrations" / "9000_note.sql").write_text(
        "alter table pgwhen.trigger_rule add column note text;\n", encoding="utf-8"
    )
    monkeypatch.setattr(sources, "ROOT", root)
    return "9000_note"


@contextmanager
def a_listener(db: Database, log: Path) -> Iterator[None]:
    """Run a listener with a worker's privileges; it must not have noticed anything."""
    env = {**db.env, "PGOPTIONS": "-c role=pgwhen_worker"}
    command = [sys.executable, "-m", "pgwhen", "run", "pgwhen.log_message"]
    with log.open("wb") as stderr:
        process = subprocess.Popen(command, env=env, stderr=stderr)
    try:
        wait_until(
            db.connect(),
            "select exists (select from pg_stat_activity"
            " where datname = current_database() and application_name = 'pgwhen listen')",
        )
        yield
    finally:
        process.terminate()
        status = process.wait(30)
    said = log.read_text(encoding="utf-8")
    assert (status, "WARNING" in said, "ERROR" in said) == (0, False, False), said


@contextmanager
def writers(db: Database, count: int) -> Iterator[None]:
    """Write events in so many sessions, as an application may, all the while; none may fail."""
    enough = threading.Event()

    def write(conn: psycopg.Connection, user: str) -> None:
        conn.execute("set role pgwhen_application")
        while not enough.is_set():
            emit(conn, user)
            conn.execute(
                "insert into pgwhen.line_user as u (user_id, attributes) values (%s, '{\"n\": 1}')"
                " on conflict on constraint line_user_pkey do update set attributes"
                " = jsonb_build_object('n', (u.attributes ->> 'n')::integer + 1)",
                [user],
            )

    with ThreadPoolExecutor(count) as pool:
        sessions = db.sessions(count, autocommit=True)
        writing = [pool.submit(write, conn, f"u{n}") for n, conn in enumerate(sessions)]
        try:
            yield
        finally:
            enough.set()
        for future in writing:
            future.result()


def test_deploys_under_load_harm_nobody(db: Database, tmp_path: Path, migration: str) -> None:
    """P1. Old functions run on while new ones come; the second deployer finds nothing to do."""
    shop = db.connect()
    add_rule(shop, "r", "log_message", {"text": "paid"})
    add_rule(shop, "n", "add_to_audience", {"audience": "all"}, event="attribute_changed")
    old = db.connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select count(*) from pgwhen.line_user")
    with a_listener(db, tmp_path / "listener.log"):
        with writers(db, 3), ThreadPoolExecutor(2) as pool:
            both = [pool.submit(deploy, db.conninfo) for _ in range(2)]
            applied = sorted(future.result().applied for future in both)
            again = deploy(db.conninfo)
        assert (applied, again.applied) == ([[], [migration]], [])
        wait_until(
            shop,
            "select not exists (select from _pgwhen.outbox) and not exists"
            " (select from pgwhen.scheduled_action where status in ('pending', 'processing'))",
        )
    assert scalar(
        shop,
        "select count(*) = (select count(*) from pgwhen.event)"
        " from pgwhen.trigger_log where status = 'success'",
    )


def test_nobody_waits_long_behind_a_deploy(db: Database, migration: str) -> None:
    """P1. It gives up its place in the queue, so others pass though the old transaction stays."""
    shop = db.connect()
    old, reader = db.sessions(2)
    old.execute("select count(*) from pgwhen.trigger_rule")
    with ThreadPoolExecutor(2) as pool:
        deploying = pool.submit(deploy, db.conninfo, lock_timeout=1, tries=1)
        deployer = wait_until(shop, DEPLOYER)
        reading = pool.submit(scalar, reader, "select count(*) from pgwhen.trigger_rule")
        assert wait_blocked(shop, reader) == [deployer]

        assert reading.result() == 0
        with pytest.raises(DeployError, match="PW906"):
            deploying.result()
    assert scalar(shop, "select count(*) from _pgwhen.migration where name = %s", migration) == 0
    old.rollback()
    reader.rollback()

    assert deploy(db.conninfo).applied == [migration]
