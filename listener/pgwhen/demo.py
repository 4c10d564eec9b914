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
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from . import sources
from .deploy import deploy
from .embedded import Server, only_user, without_libpq
from .errors import PgwhenError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from types import ModuleType

EXAMPLE = sources.ROOT / "examples" / "cdnow"
VERDICTS = ("fired", "suppressed", "condition_false")

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
TALLIES = """
select
    r.name, r.frequency, c.condition_false,
    coalesce(
        (
            select jsonb_object_agg(l.status, l.n)
            from (
                select l.status, count(*) as n
                from pgwhen.trigger_log as l
                where l.trigger_rule_id = r.id
                group by l.status
            ) as l
        ),
        '{}'
    )
from pgwhen.trigger_rule as r
inner join pgwhen.rule_counts as c on c.rule_id = r.id
order by r.id
"""
MEMBERS = """
select count(*)
from pgwhen.audience_member as m
inner join pgwhen.audience as a on a.id = m.audience_id
where a.name = 'loyal'
"""
MOST_SUPPRESSED = """
select l.trigger_rule_id, l.user_id, max(l.event_id)
from pgwhen.trigger_log as l
where l.status = 'suppressed'
group by l.trigger_rule_id, l.user_id
order by count(*) desc, l.user_id
limit 1
"""
TO_TRY = """
{head}

In other terminals, after
  export {variables}

  {pgwhen} tail      # what happens, live
  {psql}
    insert into pgwhen.line_user (user_id, attributes) values ('me', '{{"purchases": 1}}');
    select * from pgwhen.explain(rule => {rule}, user_id => '{user_id}', event_id => {event_id});
    select * from pgwhen.trigger_log where user_id = '{user_id}' order by id;
"""


class DemoError(PgwhenError):
    """The demo cannot go on."""


@dataclass
class Tally:
    """What one rule did."""

    frequency: str
    condition_false: int
    #: Rows of trigger_log by their status.
    statuses: dict[str, int]

    @property
    def suppressed(self) -> int:
        """Events that the rule's frequency held back."""
        return self.statuses.get("suppressed", 0)

    @property
    def fired(self) -> int:
        """Actions, however they ended."""
        return sum(self.statuses.values()) - self.suppressed

    @property
    def outcomes(self) -> str:
        """How the actions ended."""
        ended = {status: n for status, n in self.statuses.items() if status != "suppressed"}
        return ", ".join(f"{n:,} {status}" for status, n in ended.items()) or "none"


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
    """Run `pgwhen demo` and return its exit status, 1 where the counts differ.

    Raises PgwhenError where it does not come to counts.
    """
    server = Server(args.dir)
    with only_user(server.directory), interruptible(), away_from_other_servers():
        return reopen(server) if args.open else run(server, args.customers)


def run(server: Server, customers: int | None = None) -> int:
    """Do the main job from an empty server to the compared counts; returns the exit status."""
    shop, counter = example("replay"), example("count")
    purchases = shop.read_purchases(customers=customers)
    server.create()
    with started(server), connected(server) as conn:
        deploy(server.conninfo)
        clock = "the listener"
        if server.installation.has_cron:
            clock += " and pg_cron"
            conn.execute("create extension pg_cron")
            conn.execute("select pgwhen.enable_cron()")
        version = conn.info.parameter_status("server_version")
        say(f"PostgreSQL {version} in {server.directory}; {clock} tick")
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
        raise DemoError(
            f"there is no demo in {server.directory} yet", hint="Run it once without --open."
        )
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

    def __init__(
        self, server: Server, *handlers: str, name: str = "listener", **environment: str
    ) -> None:
        """Start it on the server; its log lines go to a file of that name beside the cluster."""
        self.log = server.directory / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(  # noqa: S603 - its own files
                [sys.executable, "-m", "pgwhen", "run", *handlers],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | server.environment | environment,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends the listener
            )

    def check(self) -> None:
        """Raise DemoError if the listener has ended."""
        if self.process.poll() is not None:
            last = self.log.read_text(errors="replace").splitlines()[-10:]
            raise DemoError(
                f"the listener ended with status {self.process.returncode}",
                hint="\n".join([f"The last lines of {self.log}:", *last]),
            )

    def stop(self) -> None:
        """End the listener, if it does not end itself within its grace time by force."""
        self.process.terminate()
        try:
            self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def listening(
    server: Server, *handlers: str, name: str = "listener", **environment: str
) -> Iterator[Listener]:
    """Run a listener on the server for the length of a block."""
    listener = Listener(server, *handlers, name=name, **environment)
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
    """Sum up what each rule did, by the name of the rule."""
    return {
        rule: Tally(frequency, int(condition_false), statuses)
        for rule, frequency, condition_false, statuses in conn.execute(TALLIES)
    }


def compare(found: dict[str, Tally], members: int, wanted: dict[str, dict[str, int]]) -> int:
    """Print what pgwhen did beside what the file says; returns the number of differences."""
    differences = 0
    pairs = "".join(f"{verdict.replace('_', ' '):>17}" for verdict in VERDICTS)
    say(f"{'':<30}{pairs}\n{'rule':<15}{'frequency':<15}{'   pgwhen    file' * 3}  outcomes")
    for rule in dict.fromkeys([*wanted, *found]):
        tally = found.get(rule, Tally("missing", 0, {}))
        counts = [
            (getattr(tally, verdict), wanted.get(rule, {}).get(verdict, 0)) for verdict in VERDICTS
        ]
        wrong = sum(ours != theirs for ours, theirs in counts)
        differences += wrong
        numbers = "".join(f"{ours:>9,}{theirs:>8,}" for ours, theirs in counts)
        say(
            f"{rule:<15}{tally.frequency:<15}{numbers}  "
            f"{'DIFFERENT: ' if wrong else ''}{tally.outcomes}"
        )
    loyal = wanted["third purchase"]["fired"]
    say(f"\nmembers of the audience loyal: pgwhen {members:,}, file {loyal:,}")
    differences += members != loyal
    say(f"{differences} counts differ" if differences else "all counts agree")
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
        events = scalar(self._conn, "select count(*) from pgwhen.event")
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
    rule, user_id, event_id = row
    pgwhen = callable_as("pgwhen", Path(sys.executable).parent)
    psql = callable_as("psql", server.installation.bin)
    variables = " ".join(f"{name}={shlex.quote(to)}" for name, to in server.environment.items())
    if is_open:
        head = f"A server and a listener run in {server.directory}; Ctrl-C ends them."
    else:
        at = "" if server.directory == DIRECTORY else f" --dir {shlex.quote(str(server.directory))}"
        head = f"To try next, bring the database and a listener back:\n\n  {pgwhen} demo --open{at}"
    return TO_TRY.format(
        head=head,
        variables=variables,
        pgwhen=pgwhen,
        psql=psql,
        rule=rule,
        user_id=user_id,
        event_id=event_id,
    )


def callable_as(program: str, place: Path) -> str:
    """Return how to call a program that is on the PATH, or else in a place."""
    return program if shutil.which(program) else shlex.quote(os.path.relpath(place / program))


def say(text: str) -> None:
    """Print a line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
