"""What tests share: databases of their own, and ways to wait that do not guess."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]

#: `make soak`: the same tests with their full counts, and Hypothesis free to find new cases.
SOAK = os.environ.get("PGWHEN_SOAK") == "1"
#: How many generated cases a test tries.
CASES = int(os.environ.get("PGWHEN_CASES", "20000" if SOAK else "300"))

#: Seconds after which something that should have happened by now has not.
PATIENCE = 15.0

#: What pg_dump prints differently each time.
_RANDOM = re.compile(r"^\\(un)?restrict .*\n", re.MULTILINE)


@dataclass
class Database:
    """One database and the sessions that a test has opened in it."""

    name: str
    _sessions: list[psycopg.Connection] = field(default_factory=list)

    @property
    def conninfo(self) -> str:
        """What libpq needs to connect; host, port and user come from the PG* variables."""
        return psycopg.conninfo.make_conninfo(dbname=self.name)

    @property
    def env(self) -> dict[str, str]:
        """The environment for a program that works in this database."""
        return {**os.environ, "PGDATABASE": self.name}

    def connect(self, *, autocommit: bool = True, **settings: Any) -> psycopg.Connection:
        """Open one session; it is closed when the test ends."""
        session = psycopg.connect(self.conninfo, autocommit=autocommit, **settings)
        self._sessions.append(session)
        return session

    def sessions(self, count: int, *, autocommit: bool = False) -> list[psycopg.Connection]:
        """Open *count* sessions, each with its own transaction unless *autocommit*."""
        return [self.connect(autocommit=autocommit) for _ in range(count)]

    def close(self) -> None:
        """Close every session, whatever state it is in."""
        while self._sessions:
            self._sessions.pop().close()


def wait_until(
    observer: psycopg.Connection,
    query: str,
    params: Any = None,
    patience: float = PATIENCE,
    pause: float = 0.002,
) -> Any:
    """Run *query* until the first column of its first row is true, and return that value.

    *observer* must be in autocommit mode, or it would look at one snapshot for ever. Raises
    TimeoutError, with the last answer, after *patience* seconds; *pause* is between two looks.
    """
    assert observer.autocommit, "an observer inside a transaction sees no change"
    end = time.monotonic() + patience
    while True:
        row = observer.execute(query.encode(), params).fetchone()
        if row is not None and row[0]:
            return row[0]
        if time.monotonic() > end:
            message = f"not within {patience} s: {query.strip()} {params or ''}; last row: {row}"
            raise TimeoutError(message)
        time.sleep(pause)


def wait_blocked(observer: psycopg.Connection, session: psycopg.Connection | int) -> list[int]:
    """Wait until *session* (or the backend with that pid) waits for a lock; return who holds it."""
    pid = session if isinstance(session, int) else session.info.backend_pid
    blockers: list[int] = wait_until(
        observer,
        "select nullif(pg_blocking_pids(pid), '{}') from pg_stat_activity"
        " where pid = %s and wait_event_type = 'Lock'",
        [pid],
    )
    return blockers


def program(name: str) -> str:
    """Return the path of one of Postgres' programs, the newest where there are several."""
    found = shutil.which(name)
    if found is None:
        installed = sorted(
            Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda p: int(p.parts[4])
        )
        assert installed, f"{name} is not installed"
        found = str(installed[-1])
    return found


def psql(database: Database, *args: str, **run: Any) -> subprocess.CompletedProcess[str]:
    """Run psql as a person would who wants to hear of errors; *args* are psql's."""
    command = [program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", *args]
    return subprocess.run(
        command, env=database.env, capture_output=True, text=True, check=False, **run
    )


def dump(database: Database) -> str:
    """Return what pg_dump says of the database: all but which one it is, so that two compare."""
    command = [program("pg_dump"), "--exclude-table-data=_pgwhen.home"]
    run = subprocess.run(command, env=database.env, capture_output=True, text=True, check=True)
    return _RANDOM.sub("", run.stdout)


def without_times(text: str) -> str:
    """Leave out the moments that a dump shows, such as when the ledger's rows were written."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+\d\d", "<time>", text)


def import_from(directory: Path, *names: str) -> list[ModuleType]:
    """Import modules of *directory* as a program there sees them: its directory comes first.

    They are not remembered, for another directory may have a module of the same name.
    """
    there = {file.stem for file in directory.glob("*.py")}
    before = {name: sys.modules.pop(name) for name in there & sys.modules.keys()}
    sys.path.insert(0, str(directory))
    try:
        return [importlib.import_module(name) for name in names]
    finally:
        sys.path.remove(str(directory))
        for name in there:
            sys.modules.pop(name, None)
        sys.modules.update(before)
