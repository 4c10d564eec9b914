"""The processes of the example, which can be killed: three banks, and the listener."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from count import BANKS

from pgwhen import demo

if TYPE_CHECKING:
    import psycopg

    from pgwhen.embedded import Server

HERE = Path(__file__).parent

#: Seconds between two looks.
LOOK = 0.005
#: So many handlers at a time, and no claims that wait for them.
THREADS = "32"

IS_AWAY = """
select not exists (select from pg_stat_activity as s where s.usename = 'payroll_worker')
"""
IN_FLIGHT = """
select a.id, a.action_type, a.retry_count + 1
from pgwhen.scheduled_action as a
where a.status = 'processing' and a.worker = %s
"""
RESUMED = re.compile(r"resumes after payment (\d+) of .* action=(\d+) attempt=(\d+)")


class Hit(NamedTuple):
    """An attempt that was running when its listener was killed."""

    action_id: int
    action_type: str
    attempt: int


class BankProcess:
    """A bank; its book is a file in the directory, and outlives it."""

    def __init__(self, kind: str, directory: Path) -> None:
        """Found the bank."""
        self.kind = kind
        self.book = directory / f"{kind}.db"
        self._port = 0
        self.start()

    @property
    def address(self) -> str:
        """Where it can be reached, also after a restart."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Open it; return when customers can come."""
        command = [sys.executable, HERE / "bank.py", self.kind, self.book, f"--port={self._port}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._process.kill()
        self._process.communicate()

    def evening(self) -> None:
        """Let it be evening there: all that it has received by day is booked."""
        http = HTTPConnection(self.address)
        http.request("POST", "/evening")
        http.getresponse().read()
        http.close()

    def booked(self) -> int:
        """Return how much is in its book."""
        [[number]] = self.ask("select count(*) from transfer where booked")
        return int(number)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Look into its book."""
        with closing(sqlite3.connect(self.book)) as book:
            return book.execute(query).fetchall()


class ListenerProcess:
    """`pgwhen run`, under a name of its own in each of its lives."""

    def __init__(self, server: Server, banks: dict[str, BankProcess]) -> None:
        """Begin its first life."""
        self._server = server
        self._banks = {f"BANK_{name.upper()}": bank.address for name, bank in banks.items()}
        self._lives: list[demo.Listener] = []
        self.start()

    @property
    def worker(self) -> str:
        """The name under which it claims."""
        return f"listener-{len(self._lives)}"

    def start(self) -> None:
        """Begin another life."""
        name = f"listener-{len(self._lives) + 1}"
        self._lives.append(
            demo.Listener(
                self._server,
                str(HERE / "handlers.py"),
                name=name,
                PGUSER="payroll_worker",
                PGWHEN_WORKER=name,
                PGWHEN_THREADS=THREADS,
                PGWHEN_MAX_IN_FLIGHT=THREADS,
                **self._banks,
            )
        )

    def check(self) -> None:
        """Raise DemoError if it has ended of itself."""
        self._lives[-1].check()

    def kill(self, conn: psycopg.Connection) -> list[Hit]:
        """End it in the middle of whatever it does; return what that was.

        What it had sent to the server is still done there, so that its sessions are waited for.
        """
        process = self._lives[-1].process
        process.kill()
        process.wait()
        while not conn.execute(IS_AWAY).fetchone()[0]:
            time.sleep(LOOK)
        return [Hit(*row) for row in conn.execute(IN_FLIGHT.encode(), [self.worker])]

    def stop(self) -> None:
        """End it as an operator does."""
        self._lives[-1].stop()

    def resumed(self) -> dict[tuple[int, int], int]:
        """Return after which payment an attempt went on, by action and number of the attempt."""
        logs = "".join(life.log.read_text() for life in self._lives)
        return {
            (int(action_id), int(attempt)): int(done)
            for done, action_id, attempt in RESUMED.findall(logs)
        }


def open_banks(directory: Path) -> dict[str, BankProcess]:
    """Found the three banks, new ones."""
    directory.mkdir(exist_ok=True)
    for file in directory.glob("*.db*"):
        file.unlink()
    return {kind: BankProcess(kind, directory) for kind in BANKS}
