"""The real listener, `pgwhen run`, as a process of its own beside the load."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgwhen.embedded import without_libpq

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from cluster import Database

HANDLERS = Path(__file__).with_name("handlers.py")
#: Seconds after which something that should have happened has not.
PATIENCE = 60.0

ASLEEP = """
select exists (
    select
    from pg_locks as l
    inner join pg_stat_activity as a on a.pid = l.pid
    where
        l.locktype = 'advisory' and l.mode = 'ExclusiveLock' and l.granted
        and l.database = (select d.oid from pg_database as d where d.datname = current_database())
        and a.application_name = 'pgwhen listen'
)
"""
WORKING = (
    "select exists (select from _pgwhen.worker where seen_at > clock_timestamp() - interval '5 s')"
)
IDLE = """
select
    not exists (select from _pgwhen.outbox)
    and not exists (
        select from pgwhen.scheduled_action as a where a.status in ('pending', 'processing')
    )
"""


@contextmanager
def listening(
    database: Database, conn: psycopg.Connection, poll: float | None = None, idle: str = IDLE
) -> Iterator[None]:
    """Run a listener in *database* until the block ends and the query *idle* says so too.

    poll: look every so many seconds, with the doorbell off; None: sleep until the doorbell rings.
    """
    conn.execute("delete from _pgwhen.worker")
    switch = "on" if poll is None else "off"
    conn.execute(f"alter database {database.name} set pgwhen.doorbell = '{switch}'".encode())
    environment = without_libpq(os.environ) | database.environment
    environment["PGWHEN_LOG_LEVEL"] = "warning"
    if poll is not None:
        environment["PGWHEN_POLL"] = str(poll)
    process = subprocess.Popen([sys.executable, "-m", "pgwhen", "run", HANDLERS], env=environment)
    try:
        wait_until(conn, WORKING if poll else ASLEEP, process)
        yield
        wait_until(conn, idle, process)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def wait_until(conn: psycopg.Connection, query: str, process: subprocess.Popen[Any]) -> None:
    """Wait until *query* gives true. Raises if *process* ends, or nothing happens for a minute."""
    end = time.monotonic() + PATIENCE
    while True:
        row = conn.execute(query.encode()).fetchone()
        if row is not None and row[0]:
            return
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the listener ended, or in {PATIENCE:.0f} s never: {query}")
        time.sleep(0.01)
