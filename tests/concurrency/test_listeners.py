"""Eight writers × real listeners that fall asleep and wake: nothing is left lying (P1, P7)."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.concurrency.scene import add_rule, emit
from tests.support import SOAK, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from tests.support import Database

WRITERS = 8
ROUNDS = 1_000 if SOAK else 60

#: `pgwhen run`, but it looks at nothing unless it is woken, for so many seconds: a bell that is
#: not rung, or not heard, then shows.
RUN = """
import sys
from pgwhen import cli, daemon, pump
pump.SLEEP = daemon.TICK_EVERY = {seconds}
sys.exit(cli.main(["run", *sys.argv[1:]]))
"""
HANDLER = """
from pgwhen import action

@action({name!r})
async def serve(ctx, config):
    return None
"""
DONE = """
select count(*) = %s
from pgwhen.trigger_log as l
where l.event_id = any(%s) and l.status = 'success'
"""
LISTENING = """
select count(*) = %s
from pg_stat_activity
where datname = current_database() and application_name = 'pgwhen listen'
"""


@contextmanager
def listeners(
    db: Database, directory: Path, action_types: list[str], seconds: float
) -> Iterator[None]:
    """Run a listener for each of *action_types*; each must end well in the end."""
    processes = []
    try:
        for n, name in enumerate(action_types):
            handlers = directory / f"handlers_{n}.py"
            handlers.write_text(HANDLER.format(name=name), encoding="utf-8")
            command = [sys.executable, "-c", RUN.format(seconds=seconds), str(handlers)]
            log = (directory / f"listener_{n}.log").open("wb")
            with log:
                processes.append(subprocess.Popen(command, env=db.env, stderr=log))
        wait_until(db.connect(), LISTENING, [len(action_types)])
        yield
    finally:
        for process in processes:
            process.terminate()
        statuses = [process.wait(30) for process in processes]
    assert statuses == [0] * len(action_types)


def write_in_rounds(db: Database, rules: int) -> None:
    """Commit from all writers at once, and again when all that this caused has been done."""
    shop = db.connect()
    shop.execute("insert into pgwhen.setting values ('loopGuardPerMinute', '1000000')")
    writers = db.sessions(WRITERS)

    def write(w: int, conn: psycopg.Connection, count: int) -> list[int]:
        events = [emit(conn, f"u{w}") for _ in range(count)]
        conn.commit()
        return events

    with ThreadPoolExecutor(WRITERS) as pool:
        for n in range(ROUNDS):
            writing = [
                pool.submit(write, w, conn, 1 + (w + n) % 3) for w, conn in enumerate(writers)
            ]
            events = [event for future in writing for event in future.result()]
            wait_until(shop, DONE, [rules * len(events), events])


@pytest.mark.parametrize("count", [1, 4])
def test_every_bell_that_must_ring_is_heard(db: Database, tmp_path: Path, count: int) -> None:
    """P1, P7. With listeners that never look of themselves, every action is done."""
    add_rule(db.connect(), "r", "greet")
    with listeners(db, tmp_path, ["greet"] * count, seconds=1e6):
        write_in_rounds(db, rules=1)


def test_listeners_of_different_types_hear_of_each_other(db: Database, tmp_path: Path) -> None:
    """P7. What one makes due for the other is done too: by its bell, or by the sweep."""
    for name in ("greet", "thank"):
        add_rule(db.connect(), name, name)
    with listeners(db, tmp_path, ["greet", "thank"], seconds=1):
        write_in_rounds(db, rules=2)
