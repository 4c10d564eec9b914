"""The main job on real input: `pgwhen demo`, which is what `make run` does.

It starts a private server, deploys, loads the rules of examples/cdnow, and lets that example's
shop replay eighteen months of purchases while a listener runs as a process of its own. When all is
processed it compares what pgwhen did with what the example counts from the file alone.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from . import sources
from .deploy import DeployError, deploy
from .embedded import EmbeddedError, Server, only_user, without_libpq

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import ModuleType

EXAMPLE = sources.ROOT / "examples" / "cdnow"
DIRECTORY = Path(tempfile.gettempdir()) / f"pgwhen-demo-{os.getuid()}"

#: Seconds without any progress after which the demo gives up.
PATIENCE = 60.0
#: Seconds that the listener has to end after SIGTERM.
GRACE = 20.0

REMAINING = """
select
    (select count(*) from _pgwhen.outbox),
    (select count(*) from pgwhen.scheduled_action where status in ('pending', 'processing'))
"""
TALLY = """
select r.name, r.frequency, l.status, count(l.status)
from pgwhen.trigger_rule as r
left join pgwhen.trigger_log as l on l.trigger_rule_id = r.id
group by r.id, r.name, r.frequency, l.status
order by r.id, l.status
"""
MEMBERS = """
select count(*)
from pgwhen.audience_member as m
inner join pgwhen.audience as a on a.id = m.audience_id
where a.name = 'loyal'
"""
MOST_SUPPRESSED = """
select l.trigger_rule_id, l.user_id
from pgwhen.trigger_log as l
where l.status = 'suppressed'
group by l.trigger_rule_id, l.user_id
order by count(*) desc, l.user_id
limit 1
"""
TO_TRY = """
To try next:

  {head}

and in other terminals, after
  export {variables}

  {pgwhen} tail      # what happens, live
  {psql}
    insert into pgwhen.line_user (user_id, attributes) values ('me', '{{"purchases": 1}}');
    select * from pgwhen.explain(rule => {rule}, user_id => '{user_id}');
    select * from pgwhen.trigger_log where user_id = '{user_id}' order by id;
"""


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


@dataclass
class Tally:
    """What one rule did, by status of its rows in trigger_log."""

    frequency: str
    outcomes: dict[str, int] = field(default_factory=dict)

    @property
    def suppressed(self) -> int:
        """Events that the rule's frequency held back."""
        return self.outcomes.get("suppressed", 0)

    @property
    def fired(self) -> int:
        """Actions, however they ended."""
        return sum(self.outcomes.values()) - self.suppressed


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the subcommand `demo`."""
    parser = subparsers.add_parser(
        "demo",
        help="run the main job on real input, on a private server",
        description=(
            "Start a private PostgreSQL server, replay eighteen months of real purchases through "
            "seven rules, and compare what they did with an independent count."
        ),
    )
    parser.add_argument(
        "--open",
        action="store_true",
        help="replay nothing: bring back what the last demo left, until Ctrl-C",
    )
    parser.add_argument(
        "--customers", type=int, metavar="N", help="only the first N customers (default: all)"
    )
    parser.add_argument(
        "--dir",
        type=Path,
        default=DIRECTORY,
        help="where the server lives; what is in it is replaced (default: %(default)s)",
    )
    parser.set_defaults(func=command)


def command(args: argparse.Namespace) -> int:
    """Run `pgwhen demo` and return its exit status: 1 where the counts differ, or it failed."""
    server = Server(args.dir)
    try:
        with only_user(server.directory), interruptible(), away_from_other_servers():
            return reopen(server) if args.open else run(server, args.customers)
    except (DemoError, DeployError, EmbeddedError, psycopg.Error) as exc:
        sys.stderr.write(f"pgwhen demo: {exc}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted\n")
        return 130


def run(server: Server, customers: int | None = None) -> int:
    """Do the main job from an empty server to the compared counts; returns the exit status."""
    shop, counter = example("replay"), example("count")
    purchases = shop.read_purchases(customers=customers)
    server.create()
    with started(server), connected(server) as conn:
        say(f"PostgreSQL {conn.info.parameter_status('server_version')} in {server.directory}")
        deploy(server.conninfo)
        shop.load_rules(conn)
        with listening(server) as listener:
            progress = Progress(conn, listener, len(purchases))
            shop.replay(conn, purchases, progress.replayed)
            wait(conn, progress.waiting)
        say(progress.summary())
        differences = compare(
            tallies(conn), scalar(conn, MEMBERS), counter.expected(customers=customers)
        )
        say(what_next(server, conn))
    return 1 if differences else 0


def reopen(server: Server) -> int:
    """Serve what the last demo left until Ctrl-C."""
    if server.major is None:
        raise DemoError(f"there is no demo in {server.directory} yet; run it once without --open")
    with started(server), listening(server) as listener, connected(server) as conn:
        say(what_next(server, conn, is_open=True))
        while True:
            listener.check()
            time.sleep(0.2)


# The processes ----------------------------------------------------------------------------


@contextmanager
def started(server: Server) -> Iterator[None]:
    """Run the server for the length of a block."""
    try:
        server.start()
        yield
    finally:
        server.stop()


@contextmanager
def connected(server: Server) -> Iterator[psycopg.Connection]:
    """Connect to the server, in autocommit mode."""
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        yield conn


class Listener:
    """`pgwhen run` as a process of its own."""

    def __init__(self, server: Server) -> None:
        """Start it on the server; its log lines go to a file beside the cluster."""
        self.log = server.directory / "listener.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pgwhen", "run"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | server.environment,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends the listener
            )

    def check(self) -> None:
        """Raise DemoError if the listener has ended."""
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace")[-2000:]
            raise DemoError(f"the listener ended with status {self.process.returncode}: {last}")

    def stop(self) -> None:
        """End the listener, if it does not end itself within its grace time by force."""
        self.process.terminate()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def listening(server: Server) -> Iterator[Listener]:
    """Run a listener on the server for the length of a block."""
    listener = Listener(server)
    try:
        yield listener
    finally:
        listener.stop()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: with its server and listener stopped."""
    before = {
        signum: signal.signal(signum, signal.default_int_handler)
        for signum in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def away_from_other_servers() -> Iterator[None]:
    """Take the variables that lead to another server out of the environment."""
    before = dict(os.environ)
    for name in before.keys() - without_libpq(before).keys():
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(before)


def example(part: str) -> ModuleType:
    """Import a module of examples/cdnow, which is no part of this package."""
    spec = spec_from_file_location(f"cdnow_{part}", EXAMPLE / f"{part}.py")
    if spec is None or spec.loader is None:
        raise DemoError(f"{EXAMPLE} holds no {part}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# What is left, and what came out ----------------------------------------------------------


def remaining(conn: psycopg.Connection) -> tuple[int, int]:
    """Count the events that are not yet processed and the actions that have not ended."""
    row = conn.execute(REMAINING).fetchone()
    assert row is not None
    return row


def wait(
    conn: psycopg.Connection,
    on_look: Callable[[int, int], None] = lambda _events, _actions: None,
    patience: float = PATIENCE,
) -> None:
    """Return when every event is processed and every action has ended.

    on_look is called at each look with the numbers that remain. Raises DemoError when these have
    not moved for patience seconds.
    """
    seen, moved_at = None, time.monotonic()
    while any(left := remaining(conn)):
        on_look(*left)
        now = time.monotonic()
        if left != seen:
            seen, moved_at = left, now
        elif now - moved_at > patience:
            raise DemoError(
                f"nothing has moved for {patience:.0f} s: {left[0]} events, {left[1]} actions left"
            )
        time.sleep(0.1)


def scalar(conn: psycopg.Connection, query: str) -> int:
    """Run a query that counts something."""
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


def tallies(conn: psycopg.Connection) -> dict[str, Tally]:
    """Sum up trigger_log by rule."""
    found: dict[str, Tally] = {}
    for rule, frequency, status, count in conn.execute(TALLY):
        tally = found.setdefault(rule, Tally(frequency))
        if status is not None:
            tally.outcomes[status] = count
    return found


def compare(found: dict[str, Tally], members: int, wanted: dict[str, dict[str, int]]) -> int:
    """Print what pgwhen did beside what the file says; returns the number of differences."""
    differences = 0
    say(f"{'':<33}{'pgwhen':>17}   {'the file':>17}")
    columns = f"{'fired':>6} suppressed   " * 2
    say(f"{'rule':<16}{'frequency':<17}{columns}outcomes")
    for rule in dict.fromkeys([*wanted, *found]):
        tally, want = found.get(rule, Tally("")), wanted.get(rule, {"fired": 0, "suppressed": 0})
        is_right = (tally.fired, tally.suppressed) == (want["fired"], want["suppressed"])
        differences += not is_right
        outcomes = ", ".join(
            f"{count:,} {status}"
            for status, count in tally.outcomes.items()
            if status != "suppressed"
        )
        say(
            f"{rule:<16}{tally.frequency:<17}{tally.fired:>6,} {tally.suppressed:>10,}"
            f"   {want['fired']:>6,} {want['suppressed']:>10,}   {outcomes}"
            f"{'' if is_right else '   DIFFERENT'}"
        )
    loyal = wanted["third purchase"]["fired"]
    say(f"audience loyal: {members:,} members; the file says {loyal:,}")
    differences += members != loyal
    say("\nall counts agree" if not differences else f"\n{differences} counts differ")
    return differences


class Progress:
    """Says once a second how far the replay and the processing are."""

    def __init__(self, conn: psycopg.Connection, listener: Listener, purchases: int) -> None:
        """Begin to count the time."""
        self._conn = conn
        self._listener = listener
        self._purchases = purchases
        self._begun = time.monotonic()
        self._next = self._begun + 1

    def replayed(self, day: str, done: int) -> None:
        """Take note that the purchases up to a day (YYYYMMDD) are booked."""
        if self._is_time():
            events, actions = remaining(self._conn)
            self._say(f"{day[:4]}-{day[4:6]}-{day[6:]}", done, events, actions)

    def waiting(self, events: int, actions: int) -> None:
        """Take note that all is booked, and so much is not processed."""
        if self._is_time():
            self._say("all booked", self._purchases, events, actions)

    def summary(self) -> str:
        """Say how long it took."""
        seconds = time.monotonic() - self._begun
        events = scalar(self._conn, "select count(*) from _pgwhen.processed_event")
        return (
            f"\n{self._purchases:,} purchases made {events:,} events; all was processed in "
            f"{seconds:.1f} s ({events / seconds:,.0f} events/s)\n"
        )

    def _is_time(self) -> bool:
        self._listener.check()
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + 1
        return True

    def _say(self, day: str, done: int, events: int, actions: int) -> None:
        say(
            f"  {day:<10}  {done:>6,} of {self._purchases:,} purchases,"
            f" {events:>6,} events and {actions:>6,} actions to go"
        )


def what_next(server: Server, conn: psycopg.Connection, *, is_open: bool = False) -> str:
    """Return the commands to try now, with the places and names of this very run in them."""
    row = conn.execute(MOST_SUPPRESSED).fetchone()
    assert row is not None, "every sample has a suppressed event"
    rule, user_id = row
    pgwhen = "pgwhen" if shutil.which("pgwhen") else f"{shlex.quote(sys.executable)} -m pgwhen"
    psql = shutil.which("psql") or shlex.quote(str(server.installation.bin / "psql"))
    variables = " ".join(f"{name}={shlex.quote(to)}" for name, to in server.environment.items())
    if is_open:
        head = f"A server and a listener run in {server.directory}; Ctrl-C ends them."
    else:
        at = "" if server.directory == DIRECTORY else f" --dir {shlex.quote(str(server.directory))}"
        head = f"{pgwhen} demo --open{at}      # brings the database and a listener back"
    return TO_TRY.format(
        head=head, variables=variables, pgwhen=pgwhen, psql=psql, rule=rule, user_id=user_id
    )


def say(text: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
