"""Connections that are lost, silent, or lead to the wrong place."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgwhen.embedded import Server
from tests.support import PATIENCE, wait_until

from .conftest import GATED, Process, Shop
from .proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from tests.support import Database


def end_backends(conn: psycopg.Connection, application_name: str) -> int:
    """End the listener's backends of that name; return how many there were."""
    row = conn.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and application_name like %s",
        [application_name],
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def proxy(admin: psycopg.Connection) -> Iterator[Proxy]:  # noqa: ARG001 -- reads the PG* variables
    """Yield a proxy before the server."""
    proxy = Proxy()
    yield proxy
    proxy.close()


@pytest.fixture
def pooler(admin: psycopg.Connection) -> Iterator[Proxy]:  # noqa: ARG001 -- as above
    """Yield a proxy that looks like a pooler."""
    proxy = Proxy(pooling=True)
    yield proxy
    proxy.close()


def test_lost_listening_connection_is_replaced(listener: Process, shop: Shop) -> None:
    """It listens again and scans, so an event from the gap is handled too."""
    shop.rule("plain")
    listener.start()
    assert end_backends(shop.conn, "pgwhen listen") == 1
    shop.submit("plain")
    listener.wait_log("listening connection lost")
    listener.wait_log("wakeup: listening", times=2)
    shop.submit("plain")

    assert len(shop.wait_ended(2)) == 2


@pytest.mark.parametrize("moment", ["idle", "handling"])
def test_all_connections_lost(listener: Process, shop: Shop, moment: str) -> None:
    """Whatever it was doing: the action that ran is acknowledged, later ones are done."""
    shop.rule("gated_async")
    shop.rule("plain")
    shop.close_gate()
    listener.start()
    if moment == "handling":
        shop.submit("gated_async")
        shop.wait_at_gate(1)
    assert end_backends(shop.conn, "pgwhen %") >= 2
    shop.open_gate()
    shop.submit("plain", 3)

    rows = shop.wait_ended(3 if moment == "idle" else 4)

    assert {(row["status"], row["retry_count"]) for row in rows} == {("done", 0)}


def test_database_away_for_a_while(
    listener: Process, shop: Shop, admin: psycopg.Connection, db: Database
) -> None:
    """It tries again, less and less often, and goes on as soon as it can."""
    shop.rule("plain")
    listener.start()
    admin.execute(f'alter database "{db.name}" allow_connections false'.encode())
    end_backends(shop.conn, "pgwhen %")
    shop.submit("plain")
    listener.wait_log("cannot listen, trying again", times=3)
    assert shop.count("done") == 0
    admin.execute(f'alter database "{db.name}" allow_connections true'.encode())

    assert shop.wait_ended()[0]["status"] == "done"


def test_silent_connections_are_found(proxy: Proxy, listener: Process, shop: Shop) -> None:
    """Half-open ones too: no reset, no answer, for ever."""
    shop.rule("plain")
    listener.start(**proxy.env, PGWHEN_STATEMENT_TIMEOUT="1")
    proxy.silence()
    # What is under way would claim the action, and its answer be lost.
    wait_until(
        shop.conn,
        "select bool_and(state = 'idle') from pg_stat_activity"
        " where datname = current_database() and application_name like 'pgwhen %'",
    )
    shop.submit("plain")

    assert shop.wait_ended(patience=4 * PATIENCE)[0]["status"] == "done"
    listener.wait_log("no answer within 4 s; connection severed")


def test_pooler_before_the_listening_connection_is_refused(
    pooler: Proxy, listener: Process, shop: Shop
) -> None:
    """Notifications would be lost in it, and the doorbell lock stay behind. It says what to do."""
    shop.rule("plain")
    listener.spawn(GATED, **pooler.env, PGWHEN_POOLER="on")
    listener.wait_log("a pooler stands between .*PGWHEN_LISTEN_DSN")
    shop.submit("plain")

    assert shop.wait_ended()[0]["status"] == "done"  # by looking now and then


def test_without_listening(listener: Process, shop: Shop) -> None:
    """PGWHEN_POLL looks every so often, and no connection listens."""
    shop.rule("plain")
    listener.start(PGWHEN_POLL="0.01")
    shop.submit("plain")

    assert shop.wait_ended()[0]["status"] == "done"
    assert end_backends(shop.conn, "pgwhen listen") == 0


def test_database_without_pgwhen(empty_db: Database, tmp_path: Path) -> None:
    """Waiting would not help, so it ends, and says what would."""
    listener = Process(empty_db, tmp_path)
    listener.spawn()

    assert listener.wait() == 1
    assert 'schema "pgwhen" does not exist' in listener.log
    assert "pgwhen deploy" in listener.log


def test_role_without_grants(listener: Process, shop: Shop) -> None:
    """As a database without pgwhen: the refusal will not pass by itself."""
    shop.conn.execute(
        "do $$ begin create role pgwhen_test_nobody login;"
        " exception when duplicate_object then null; end $$"
    )
    listener.spawn(PGUSER="pgwhen_test_nobody")

    assert listener.wait() == 1
    assert "permission denied" in listener.log
    assert "pgwhen_worker" in listener.log


def test_worker_role_is_enough(listener: Process, shop: Shop) -> None:
    """All that a listener does, it does with the grants of pgwhen_worker."""
    shop.conn.execute(
        "do $$ begin create role pgwhen_test_worker login in role pgwhen_worker;"
        " exception when duplicate_object then null; end $$"
    )
    shop.set("maxRetries", 0)
    shop.rule("plain")
    shop.rule("gated", {"gate": "no number"})
    shop.rule("add_to_audience", {"audience": "a"})
    listener.start(PGUSER="pgwhen_test_worker")
    for form in ("plain", "gated", "add_to_audience"):
        shop.submit(form)

    assert [row["status"] for row in shop.wait_ended(2)] == ["done", "failed"]
    wait_until(shop.conn, "select exists (select from pgwhen.audience_member)")


def test_any_isolation_level_of_the_role(listener: Process, shop: Shop, db: Database) -> None:
    """A role's default does not matter: the listener asks for READ COMMITTED itself."""
    shop.conn.execute(
        f"alter database \"{db.name}\" set default_transaction_isolation = 'serializable'".encode()
    )
    shop.rule("plain")
    listener.start()
    shop.submit("plain")

    assert shop.wait_ended()[0]["status"] == "done"


def test_standby_is_refused(listener: Process) -> None:
    """It says so, and keeps trying: a standby may be promoted, or the name lead elsewhere."""
    server = Server(Path(tempfile.mkdtemp(prefix="pgwhen-standby-")))
    server.create()
    server.start()
    server.stop()
    (server.data / "standby.signal").touch()
    server.start()
    try:
        listener.spawn(**server.environment)
        listener.wait_log("cannot listen, trying again.*(in hot standby mode)", times=2)
        assert listener.stop() == 0
    finally:
        server.stop()
        shutil.rmtree(server.directory)
