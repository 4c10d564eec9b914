"""A server with pg_cron in its database: a cluster has one place for it, so this is another one.

Its job is scheduled when the first test here asks for the server, and looked at when all other
tests have run: pg_cron 1.4 knows no less than a minute. The tests in between change nothing for it:
what they do is rolled back.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen.deploy import deploy
from pgwhen.embedded import Server, local_installations

if TYPE_CHECKING:
    from collections.abc import Iterator

#: pg_cron connects as a client does, its default. The other way is the demo's.
SETTINGS = {"cron.use_background_workers": "off", "max_connections": "30"}

#: The job's owner has what the documentation asks for, and no more.
KEEPER = """
create extension pg_cron;
create role keeper login;
grant pgwhen_admin to keeper;
grant usage on schema cron to keeper;
"""

#: A rule that needs no listener, and an event that fires it.
EVENT = """
insert into pgwhen.trigger_rule (name, source_type, action_type, action_config) values
('customers', 'ordered', 'add_to_audience', '{"audience": "customers"}');
select pgwhen.emit('ordered', 'ann');
"""


@dataclass(frozen=True)
class Ticking:
    """A server whose pg_cron has a job, and how many it had before somebody asked for it."""

    server: Server
    jobs_after_deploy: int

    def connect(self, user: str = "postgres", dbname: str = "postgres") -> psycopg.Connection:
        """Open a session, in autocommit mode, that waits for no lock for long."""
        return psycopg.connect(
            psycopg.conninfo.make_conninfo(self.server.conninfo, user=user, dbname=dbname),
            autocommit=True,
            options="-c lock_timeout=10s",
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let what waits for pg_cron's minute come last, when it is over."""
    items.sort(key=lambda item: item.get_closest_marker("real_time") is not None)


@pytest.fixture(scope="session")
def ticking() -> Iterator[Ticking]:
    """Yield the server, an event in its outbox, and in its pg_cron the job of role keeper."""
    installations = [found for found in local_installations() if found.has_cron]
    if not installations:
        pytest.fail("no server here has pg_cron: `make db` installs it", pytrace=False)
    directory = Path(tempfile.mkdtemp(prefix="pgwhen-cron-"))
    server = Server(directory, installations[0])
    try:
        server.create()
        server.start(SETTINGS | {"cron.host": str(server.socket_directory)})
        yield schedule(server)
    finally:
        server.stop()
        shutil.rmtree(directory)


def schedule(server: Server) -> Ticking:
    """Deploy, write the event, and enable pg_cron as the job's owner."""
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        deploy(server.conninfo)
        conn.execute(KEEPER.encode())
        deploy(server.conninfo)
        row = conn.execute("select count(*) from cron.job").fetchone()
        assert row is not None
        ticking = Ticking(server, row[0])
        conn.execute(EVENT.encode())
    with ticking.connect("keeper") as keeper:
        keeper.execute("select pgwhen.enable_cron()")
    return ticking


@pytest.fixture
def boss(ticking: Ticking) -> Iterator[psycopg.Connection]:
    """Yield a superuser's session inside a transaction that is rolled back."""
    with ticking.connect() as conn, conn.transaction(force_rollback=True):
        yield conn
