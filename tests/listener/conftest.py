"""The real listener, as a process of its own and as tasks inside a test."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from pgwhen.daemon import Daemon
from pgwhen.handlers import Handler
from pgwhen.settings import Settings
from tests.support import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
    from pathlib import Path

    import psycopg

    from tests.support import Database

#: A handler that waits at a gate, in sight of pg_stat_activity: while the test holds the advisory
#: lock 1, it stands there. With `config.gate` another number, at another gate.
GATED = """
import psycopg
from pgwhen import action

def stand(config):
    with psycopg.connect(autocommit=True, application_name="gate") as conn:
        conn.execute("select pg_advisory_lock_shared(%s)", [config.get("gate", 1)])

async def stand_async(config):
    options = dict(autocommit=True, application_name="gate")
    async with await psycopg.AsyncConnection.connect(**options) as conn:
        await conn.execute("select pg_advisory_lock_shared(%s)", [config.get("gate", 1)])

@action("gated")
def gated(ctx, config):
    stand(config)

@action("gated_async")
async def gated_async(ctx, config):
    await stand_async(config)

@action("plain")
async def plain(ctx, config):
    return config
"""


class Process:
    """`pgwhen run` as a process; its log is in a file."""

    def __init__(self, database: Database, directory: Path) -> None:
        self._database = database
        self._directory = directory
        self._log = directory / "listener.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, handlers: str = GATED, *sources: str, **env: str) -> Process:
        """Start it with a file that holds *handlers*, and wait until it serves and listens."""
        self.spawn(handlers, *sources, **env)
        self.wait_log("serving .*")
        if "PGWHEN_POLL" not in env:
            self.wait_log("listening")
        return self

    def spawn(self, handlers: str = GATED, *sources: str, **env: str) -> Process:
        """Start it and wait for nothing."""
        (self._directory / "handlers.py").write_text(handlers, encoding="utf-8")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pgwhen", "run", "handlers.py", *sources],
                cwd=self._directory,
                env={**self._database.env, "PGWHEN_THREADS": "4", **env},
                stderr=log,
            )
        return self

    def write(self, name: str) -> None:
        """Make a file where it runs, for a handler that looks."""
        (self._directory / name).touch()

    @property
    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(encoding="utf-8")

    def wait_log(self, pattern: str, times: int = 1) -> str:
        """Wait until *pattern* has been logged so many *times*; return the last match."""
        end = time.monotonic() + 2 * PATIENCE
        while len(found := re.findall(pattern, self.log)) < times:
            assert self.running, f"it ended before it logged {pattern!r}:\n{self.log}"
            assert time.monotonic() < end, f"it did not log {pattern!r}:\n{self.log}"
            time.sleep(0.005)
        return str(found[-1])

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        assert self._process is not None
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait until it has ended; return its exit status."""
        assert self._process is not None
        return self._process.wait(2 * PATIENCE)

    def stop(self) -> int:
        """Send SIGTERM; return the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it at once, if it still runs, and show its log to whoever asks why a test failed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            print(self.log)


class Shop:
    """A superuser's session in the test's database, and what the tests do in it."""

    def __init__(self, conn: psycopg.Connection) -> None:
        self.conn = conn

    def rule(
        self, action_type: str, config: Mapping[str, Any] | None = None, form: str = ""
    ) -> None:
        """Make a rule: the form named like the action type, or *form*, fires it, always."""
        form = form or action_type
        self.conn.execute(
            "insert into pgwhen.trigger_rule"
            " (name, source_type, source_config, action_type, action_config, frequency)"
            " values (%s, 'form_submitted', %s, %s, %s, 'always')",
            [form, Jsonb({"formId": form}), action_type, Jsonb(config or {})],
        )

    def submit(self, form: str, count: int = 1, user: str = "u") -> None:
        """Submit *form* once for each of *count* users, in one transaction."""
        self.conn.execute(
            "insert into pgwhen.form_submission (user_id, form_id)"
            " select %s || n, %s from generate_series(1, %s) as n",
            [user, form, count],
        )

    def wait_ended(
        self, count: int = 1, action_type: str = "%", patience: float = PATIENCE
    ) -> list[dict[str, Any]]:
        """Wait until so many actions have ended; return their rows, events left out."""
        wait_until(
            self.conn,
            "select count(*) >= %s from pgwhen.scheduled_action"
            " where status in ('done', 'failed') and action_type like %s",
            [count, action_type],
            patience=patience,
        )
        rows = self.conn.execute(
            "select to_jsonb(a) - 'event' from pgwhen.scheduled_action as a"
            " where action_type like %s and status in ('done', 'failed') order by id",
            [action_type],
        )
        return [row[0] for row in rows]

    def close_gate(self, gate: int = 1) -> None:
        """Hold the handlers back that come to *gate*."""
        self.conn.execute("select pg_advisory_lock(%s)", [gate])

    def open_gate(self, gate: int = 1) -> None:
        """Let them go."""
        self.conn.execute("select pg_advisory_unlock(%s)", [gate])

    def wait_at_gate(self, count: int) -> None:
        """Wait until exactly *count* handlers stand at a gate."""
        wait_until(
            self.conn,
            "select count(*) = %s from pg_stat_activity"
            " where datname = current_database() and application_name = 'gate'"
            " and wait_event_type = 'Lock'",
            [count],
        )

    def set(self, name: str, value: Any) -> None:
        """Change a setting of the engine."""
        self.conn.execute("insert into pgwhen.setting values (%s, %s)", [name, Jsonb(value)])

    def count(self, status: str) -> int:
        """Count the actions in *status*."""
        row = self.conn.execute(
            "select count(*) from pgwhen.scheduled_action where status = %s", [status]
        ).fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def shop(db: Database) -> Shop:
    """Return a session in a fresh database."""
    return Shop(db.connect())


@pytest.fixture
def listener(db: Database, tmp_path: Path) -> Iterator[Process]:
    """Yield a listener that is not started; it does not outlive the test."""
    process = Process(db, tmp_path)
    yield process
    process.kill()


@pytest.fixture
def another_listener(db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Yield a second one."""
    process = Process(db, tmp_path_factory.mktemp("another"))
    yield process
    process.kill()


@pytest.fixture
def settings(db: Database) -> Settings:
    """Return settings for listeners that run inside the test."""
    return replace(Settings(), dsn=db.conninfo, listen_dsn=db.conninfo, threads=4, grace=5)


def declared(function: Any) -> Handler:
    """Return what `@action` has declared of *function*."""
    [handler] = function.__pgwhen_actions__
    assert isinstance(handler, Handler)
    return handler


@asynccontextmanager
async def running(settings: Settings, *handlers: Handler) -> AsyncIterator[Daemon]:
    """Run a daemon inside the test; stop it in the end, and raise what it raised."""
    daemon = Daemon(settings, {handler.name: handler for handler in handlers})
    task = asyncio.create_task(daemon.run())
    try:
        yield daemon
    finally:
        daemon.stop()
        await task


@asynccontextmanager
async def crowd(settings: Settings, handlers: Iterable[Handler]) -> AsyncIterator[None]:
    """Run a daemon for each of *handlers*."""
    async with AsyncExitStack() as stack:
        for n, handler in enumerate(handlers):
            await stack.enter_async_context(running(replace(settings, worker=f"w{n}"), handler))
        yield
