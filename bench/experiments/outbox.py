"""Two ways to build the outbox, measured: the figures of docs/adr/0008-outbox.md.

`deleted` is the one that was built: a row is deleted when it is processed, and copied to the
archive. `appended` is PgQ's: rows stay, and snapshots say which are new. Run it from the checkout:

    PYTHONPATH=bench python bench/experiments/outbox.py
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import psycopg
from cluster import Database, cluster

from pgwhen.embedded import without_libpq

if TYPE_CHECKING:
    from pgwhen.embedded import Server

HERE = Path(__file__).parent
EVENTS = 20_000
BATCH = 500
WAYS = ("deleted", "appended")


def main() -> None:
    """Print each figure for both ways."""
    with cluster() as server:
        database = Database(server, "outbox")
        with database.connect() as conn:
            conn.execute((HERE / "outbox.sql").read_bytes(), prepare=False)
            costs(conn)
            idle(conn, "with nothing to do")
            pinned(database, conn)
            writer_left_open(database, conn)
            restored(server, database, conn)


def costs(conn: psycopg.Connection) -> None:
    """Write and process all events, three times."""
    writing: dict[str, list[float]] = {way: [] for way in WAYS}
    processing: dict[str, list[float]] = {way: [] for way in WAYS}
    wal: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(3):
        for way in WAYS:
            start = lsn(conn)
            writing[way].append(1e6 * write(conn, way) / EVENTS)
            processing[way].append(1e6 * sum(drain(conn, f"{way}.process")) / EVENTS)
            wal[way].append((lsn(conn) - start) / EVENTS)
            conn.execute("vacuum analyze")
    for way in WAYS:
        print(
            f"{way}: writing {median(writing[way]):.1f} us an event, "
            f"processing {median(processing[way]):.1f} us, WAL {median(wal[way]):,.0f} bytes"
        )


def idle(conn: psycopg.Connection, when: str) -> None:
    """Look for events where there are none."""
    for way in WAYS:
        calls = [timed(conn, f"select {way}.process({BATCH})") for _ in range(200)]
        print(f"{way}: a look {when} {1e6 * median(calls):.0f} us")


def pinned(database: Database, conn: psycopg.Connection) -> None:
    """Write and process three times as much while a report holds an old snapshot."""
    with database.connect() as report:
        report.execute("begin isolation level repeatable read")
        report.execute("select 1")
        for function in ("deleted.process", "deleted.process_without_floor", "appended.process"):
            rates = []
            for _ in range(3):
                write(conn, function.split(".")[0])
                rates.append(1e6 * sum(drain(conn, function)) / EVENTS)
            print(
                f"{function}, pinned: "
                + ", ".join(f"{rate:.1f}" for rate in rates)
                + f" us an event in each {EVENTS:,}"
            )
        idle(conn, "under the pin")


def writer_left_open(database: Database, conn: psycopg.Connection) -> None:
    """Process while a transaction that has written an event stays open, and see its event found."""
    for way in WAYS:
        with database.connect() as writer:
            writer.execute("begin")
            writer.execute(f"call {way}.write(0, 1)".encode())
            write(conn, way)
            seconds = sum(drain(conn, f"{way}.process"))
            writer.execute("commit")
        late = rest(conn, f"{way}.process")
        print(f"{way}: beside an open writer {1e6 * seconds / EVENTS:.1f} us, late events {late}")


def restored(server: Server, database: Database, conn: psycopg.Connection) -> None:
    """Dump with events waiting, restore into a new cluster, write as much again, and process."""
    for way in WAYS:
        write(conn, way)
    with cluster() as other, tempfile.TemporaryFile() as dump:
        programs = server.installation.bin
        environment = without_libpq({}) | database.environment
        subprocess.run(
            [programs / "pg_dump", "--no-privileges"], env=environment, stdout=dump, check=True
        )
        dump.seek(0)
        subprocess.run(
            [programs / "psql", "-q"], env=without_libpq({}) | other.environment, stdin=dump,
            stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        with psycopg.connect(other.conninfo, autocommit=True) as restored_conn:
            for way in WAYS:
                waiting = rest(restored_conn, f"{way}.process")
                write(restored_conn, way)
                new = rest(restored_conn, f"{way}.process")
                print(f"{way}: restored, found {waiting:,} of {EVENTS:,} waiting, {new:,} new")


def write(conn: psycopg.Connection, way: str) -> float:
    """Write all events, a batch a commit; return the seconds."""
    return sum(
        timed(conn, f"call {way}.write({first}, {first + BATCH})")
        for first in range(0, EVENTS, BATCH)
    )


def drain(conn: psycopg.Connection, function: str) -> list[float]:
    """Process EVENTS events; return the seconds of each batch."""
    seconds, done = [], 0
    while done < EVENTS:
        start = time.perf_counter()
        done += process(conn, function)
        seconds.append(time.perf_counter() - start)
    return seconds


def rest(conn: psycopg.Connection, function: str) -> int:
    """Process until two calls find nothing; return how many events there were."""
    events, fruitless = 0, 0
    while fruitless < 2:  # noqa: PLR2004 - a cut may end just where the first stopped
        found = process(conn, function)
        events += found
        fruitless = 0 if found else fruitless + 1
    return events


def process(conn: psycopg.Connection, function: str) -> int:
    """Process one batch; return how many events it had."""
    row = conn.execute(f"select {function}({BATCH})".encode()).fetchone()
    assert row is not None
    return int(row[0])


def timed(conn: psycopg.Connection, statement: str) -> float:
    """Run *statement*; return the seconds."""
    start = time.perf_counter()
    conn.execute(statement.encode())
    return time.perf_counter() - start


def lsn(conn: psycopg.Connection) -> int:
    """Return how many bytes of WAL there ever were."""
    row = conn.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


if __name__ == "__main__":
    main()
