"""A replay of the CDNOW purchases in which the listener and the server are killed at work.

The shop books a day for each leave that it is given, so that kills are spread over the replay: who
kills looks whether somebody is at work, and gives the shop leave for another day where nobody is.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from pgwhen import demo
from pgwhen.deploy import deploy
from tests.support import PATIENCE

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pgwhen.embedded import Server

shop = demo.example("replay")

#: A kill must cost seconds and not minutes, and however often it hits an action, not its last try.
SETTINGS = {"staleProcessingMinute": 0.03, "retrySeconds": 0, "maxRetries": 1000}

#: Beside the shop's own: each purchase also has an action that waits for its time, a wait that
#: nobody clicks, and one that is clicked.
RULES = """
insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
select
    r.name, 'attribute_changed', '{"attribute": "purchases"}', r.action_type, r.config::jsonb,
    'always'
from (
    values
    ('later', 'log_message', '{"text": "later", "delay": {"seconds": 0.05, "whenPending": "add"}}'),
    (
        'missed', 'log_message',
        '{"text": "never", "delay": {
            "waitForTracking": true, "tracking": {"link": "none"}, "expiresSeconds": 0.05,
            "whenPending": "add",
            "onExpire": {"actionType": "log_message", "actionConfig": {"text": "missed"}}
        }}'
    ),
    (
        'met', 'log_message',
        '{"text": "met", "delay": {
            "waitForTracking": true, "tracking": {"link": "offer"}, "expiresSeconds": 86400,
            "whenPending": "add"
        }}'
    ),
    ('click', 'emit_event', '{"type": "campaign_click", "data": {"link": "offer"}}')
) as r (name, action_type, config)
"""

#: log_message, but to a file: a line for each delivery, written whole or not at all. As a service
#: at the other end of a network it takes its time, in which it can be killed.
HANDLER = """
import asyncio, json, os
from pgwhen import action

FILE = os.open(os.environ["DELIVERIES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@action("log_message")
async def log_message(ctx, config):
    await asyncio.sleep(0.02)
    said = [str(ctx.idempotency_key), ctx.action_id, ctx.attempt]
    os.write(FILE, (json.dumps(said) + "\\n").encode())
"""

#: What the worker of that name has claimed, the open batches, and whether all is processed.
AT_WORK = """
select
    (select count(*) from pgwhen.scheduled_action where status = 'processing' and worker = %s),
    (
        select count(*)
        from pg_stat_activity
        where datname = current_database() and application_name = 'pgwhen work'
            and state = 'active' and query like '%%process_events%%'
    ),
    not exists (select from _pgwhen.outbox)
"""


@dataclass(frozen=True)
class Kill:
    """Who is to be killed, while what is seen: `processing` rows, or an open `batch`."""

    victim: str
    sign: str


class Listener:
    """`pgwhen run` as a process, under a name of its own each time that it is started."""

    def __init__(self, env: dict[str, str], directory: Path) -> None:
        self._directory = directory
        self._env = {**os.environ, **env, "DELIVERIES": str(directory / "deliveries")}
        self._starts = 0
        (directory / "handler.py").write_text(HANDLER, encoding="utf-8")
        self.start()

    @property
    def worker(self) -> str:
        """The name under which it claims."""
        return f"listener {self._starts}"

    @property
    def log(self) -> str:
        """What all of its lives have logged."""
        return (self._directory / "listener.log").read_text(encoding="utf-8")

    def start(self) -> None:
        """Begin a new life."""
        self._starts += 1
        with (self._directory / "listener.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pgwhen", "run", "handler.py"],
                cwd=self._directory,
                env={**self._env, "PGWHEN_WORKER": self.worker},
                stderr=log,
            )

    def check(self) -> None:
        """See that it has not ended of itself."""
        assert self._process.poll() is None, self.log

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it as an operator does; it must still be there, and end well."""
        self.check()
        self._process.terminate()
        assert self._process.wait(2 * PATIENCE) == 0, self.log


def restart(server: Server) -> None:
    """Stop *server* as a power cut would, and start it again."""
    stop = ("stop", "-w", "-m", "immediate", "-D", str(server.data))
    assert server._spawn("pg_ctl", *stop).returncode == 0
    server.start()


class World:
    """One database of a private server, with the shop's rules, and a listener."""

    def __init__(self, server: Server, name: str, directory: Path) -> None:
        self._server = server
        self._conninfo = make_conninfo(server.conninfo, dbname=name)
        with psycopg.connect(server.conninfo, autocommit=True) as conn:
            conn.execute(f"create database {name}".encode())
        deploy(self._conninfo)
        with self.connect() as conn:
            for setting, value in SETTINGS.items():
                conn.execute("insert into pgwhen.setting values (%s, %s)", [setting, Jsonb(value)])
            shop.load_rules(conn)
            conn.execute(RULES.encode())
        self._deliveries = directory / "deliveries"
        self.listener = Listener({**server.environment, "PGDATABASE": name}, directory)

    def connect(self) -> psycopg.Connection:
        """Connect, in autocommit mode, as soon as the server lets anybody in."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return psycopg.connect(self._conninfo, autocommit=True)
            except psycopg.OperationalError:
                assert time.monotonic() < end, "the server does not come back"

    def kill(self, victim: str) -> None:
        """Kill the listener or the server, and start it again."""
        if victim == "listener":
            self.listener.kill()
            self.listener.start()
        else:
            restart(self._server)

    def finish(self) -> None:
        """Wait until all is processed, and stop the listener."""
        with self.connect() as conn:
            demo.wait(conn)
        self.listener.stop()

    def deliveries(self) -> list[list[Any]]:
        """Return the key, the action's id and the attempt of each delivery."""
        lines = self._deliveries.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


@contextmanager
def world(server: Server, name: str, directory: Path) -> Iterator[World]:
    """Make a world, and leave no process of it behind."""
    world = World(server, name, directory)
    try:
        yield world
    finally:
        world.listener.kill()


class Replay:
    """The shop at its business, in a thread; it books one day for each leave."""

    def __init__(self, world: World, purchases: Sequence[Any]) -> None:
        self._world = world
        self._purchases = purchases
        self._leaves = threading.Semaphore(0)
        self._is_free = False
        pool = ThreadPoolExecutor(1)
        self._booking = pool.submit(self._run)
        pool.shutdown(wait=False)

    @property
    def is_running(self) -> bool:
        """Whether there are purchases to book."""
        return not self._booking.done()

    def give_leave(self) -> None:
        """Let the shop book another day."""
        self._leaves.release()

    def finish(self) -> None:
        """Let the shop book all that is left, and raise what it raised."""
        self._is_free = True
        self._leaves.release()
        self._booking.result()

    def _run(self) -> None:
        while True:
            try:
                with self._world.connect() as conn:
                    shop.replay(conn, self._purchases, self._wait)
            except psycopg.OperationalError:
                continue
            return

    def _wait(self, _day: str, _done: int) -> None:
        if not self._is_free:
            self._leaves.acquire()


def storm(
    world: World, purchases: Sequence[Any], kills: Sequence[Kill], chance: random.Random
) -> int:
    """Replay *purchases* with *kills*, in this order; return how many it came to.

    A kill counts because its sign was seen just before it.
    """
    replay = Replay(world, purchases)
    try:
        done = 0
        for kill in kills:
            if not wait_for_sign(world, replay, kill, chance):
                break
            world.kill(kill.victim)
            done += 1
    finally:
        replay.finish()
    return done


def wait_for_sign(world: World, replay: Replay, kill: Kill, chance: random.Random) -> bool:
    """Look until the sign is seen, and has been so at a random number of looks; false if never."""
    looks = chance.randrange(1, 8)
    with world.connect() as conn:
        while looks and replay.is_running:
            world.listener.check()
            row = conn.execute(AT_WORK, [world.listener.worker]).fetchone()
            assert row is not None
            processing, batches, all_is_processed = row
            if processing if kill.sign == "processing" else batches and not all_is_processed:
                looks -= 1
            elif all_is_processed:
                replay.give_leave()
    return not looks


def outcome(of: World) -> dict[str, Any]:
    """Return all that the replay must come to, whatever happened on the way."""
    queries = {
        "log": (
            "select r.name, l.user_id, l.trigger_on, l.event_at::text, l.status"
            " from pgwhen.trigger_log as l"
            " inner join pgwhen.trigger_rule as r on r.id = l.trigger_rule_id"
        ),
        "false": "select rule, condition_false::bigint from pgwhen.rule_counts",
        "reservations": (
            "select r.name, h.user_id, h.last_at::text from _pgwhen.reservation as h"
            " inner join pgwhen.trigger_rule as r on r.id = h.trigger_rule_id"
        ),
        "members": (
            "select a.name, m.user_id from pgwhen.audience as a"
            " inner join pgwhen.audience_member as m on m.audience_id = a.id"
        ),
        "events": "select type, key, user_id, old::text, new::text, at::text from pgwhen.event",
        "customers": "select user_id, attributes::text from pgwhen.line_user",
    }
    with of.connect() as conn:
        return {what: Counter(conn.execute(query.encode())) for what, query in queries.items()}
