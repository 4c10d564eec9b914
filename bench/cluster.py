"""A PostgreSQL server for one run of the benchmarks, and databases in it with pgwhen deployed."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgwhen.deploy import deploy
from pgwhen.embedded import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Commits are flushed, as an application's are; no checkpoint falls into a round by itself; the
#: server says when a transaction committed.
SETTINGS = {
    "fsync": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "1h",
    "track_commit_timestamp": "on",
}


@contextmanager
def cluster() -> Iterator[Server]:
    """Run a server on a disk (not in memory, where flushing costs nothing); it is removed after."""
    directory = Path(tempfile.mkdtemp(prefix="pgwhen-bench-", dir="/var/tmp"))
    server = Server(directory)
    try:
        server.create()
        server.start(SETTINGS)
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


class Database:
    """A database of a measure's own."""

    def __init__(self, server: Server, name: str, *, deployed: bool = True) -> None:
        """Create it and, unless not *deployed*, deploy pgwhen, with partitions made."""
        self.name = name
        self.server = server
        self.conninfo = make_conninfo(server.conninfo, dbname=name)
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        if deployed:
            deploy(self.conninfo)
            with self.connect() as conn:
                conn.execute("select pgwhen.maintain()")

    @property
    def environment(self) -> dict[str, str]:
        """Libpq's variables for a program that works in this database."""
        return self.server.environment | {"PGDATABASE": self.name}

    def connect(self) -> psycopg.Connection:
        """Open a session that commits each statement and prints no warnings."""
        conn = psycopg.connect(self.conninfo, autocommit=True)
        conn.execute("set client_min_messages = error")
        return conn
