"""Bring a database to the state and behaviour of this package: `pgwhen deploy`.

One transaction under one advisory lock: what preflight.sql refuses is refused, new migrations run
in order and enter the ledger `_pgwhen.migration`, then every file of the manifest runs, the grants
last. A second deploy of the same version changes nothing that a schema dump could show.

While a deploy waits for a lock on a table, everybody who comes after it waits too. So it waits
`lock_timeout` at most, rolls back, lets the others pass, and tries again a few times.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

from . import sources
from .errors import PgwhenError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from .sources import Script

log = logging.getLogger(__name__)

TRIES = 4
#: Seconds between two tries: what the queue behind a failed one needs to drain.
PAUSE = 1.0
#: Seconds between two looks at who stands in the way.
LOOK = 0.1

#: The two-part advisory lock that deployers share: sql/core/locks.sql has the others.
LOCK = "select pg_advisory_xact_lock(7077, 0);"

SETTINGS = """\
set local search_path = pg_catalog, pg_temp;
set local client_min_messages = warning;
set local check_function_bodies = off;
set local statement_timeout = 0;
set local idle_in_transaction_session_timeout = 0;
set local lock_timeout = {lock_timeout};"""

RECORD = """\
insert into _pgwhen.migration (name, digest, applied_at)
values ('{name}', '{digest}', pg_catalog.now());"""

#: CREATE OR REPLACE writes the catalog row anew, so an older row is of an object that no file
#: creates any more. Asked before the grants, which touch every row.
LEFT_OVER = """\
select p.oid::regprocedure::text
from pg_proc as p
where p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace) and age(p.xmin) > 0
union all
select r.ev_class::regclass::text
from pg_rewrite as r
inner join pg_class as c on r.ev_class = c.oid
where c.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace) and age(r.xmin) > 0
order by 1"""

BLOCKERS = """\
select case b.pid
    when 0 then 'a prepared transaction, see pg_prepared_xacts'
    else format('pid %%s (%%s, %%s, transaction since %%s): %%s', b.pid,
        coalesce(nullif(a.application_name, ''), a.backend_type), coalesce(a.state, 'state hidden'),
        coalesce(to_char(a.xact_start, 'HH24:MI:SS'), 'unknown'), left(a.query, 100))
end
from unnest(pg_blocking_pids(%s)) as b (pid)
left join pg_stat_activity as a on b.pid = a.pid
order by b.pid"""


class DeployError(PgwhenError):
    """A deploy that was refused or failed, and changed nothing.

    *code* is a SQLSTATE of class PW: docs/errors.md has them all.
    """

    def __init__(self, code: str, message: str, hint: str | None = None) -> None:
        super().__init__(f"{code}: {message}", hint=hint)
        self.code = code


@dataclass(frozen=True)
class Report:
    """What a deploy did: *applied* migrations by name, and *left_over* objects.

    Left over is a function or view of the two schemas that no file of `sql/` creates.
    """

    applied: list[str]
    left_over: list[str]


def deploy(conninfo: str = "", *, lock_timeout: float = 5.0, tries: int = TRIES) -> Report:
    """Deploy to the database at *conninfo* (libpq's; what is missing comes from PG* variables).

    *lock_timeout* is in seconds and holds for each lock of each try. Raises PgwhenError where there
    is no server, and DeployError, having changed nothing.
    """
    for left in reversed(range(tries)):
        with (
            _connect(conninfo) as conn,
            _watched(conninfo, conn.info.backend_pid) as blockers,
        ):
            try:
                return _deploy(conn, lock_timeout)
            except psycopg.Error as exc:
                if not _may_pass(exc):
                    raise DeployError(exc.sqlstate or "PW907", _primary(exc)) from exc
                cause = exc
                conn.rollback()
        if left:
            log.warning("waiting for %s; %d more tries", _named(blockers), left)
            time.sleep(PAUSE)
    message = f"gave up after {tries} tries ({_primary(cause)}); in the way: {_named(blockers)}"
    hint = (
        "End that transaction, or deploy when it has ended. A longer --lock-timeout also lets "
        "everybody who queues behind the deploy wait longer."
    )
    raise DeployError("PW906", message, hint) from cause


def plan(conninfo: str = "", *, lock_timeout: float = 5.0) -> str:
    """Return the SQL that `deploy` would run now. Raises as `deploy` does; changes nothing."""
    with _connect(conninfo) as conn:
        pending = _pending(conn)
    state = [_recorded(script) for script in sources.migrations() if script.name in pending]
    return _page(state, lock_timeout)


def installer(lock_timeout: float = 5.0) -> str:
    """Return one file for psql that does what `deploy` does, whatever the database has so far."""
    state = [
        f"select '{script.name}' = any(string_to_array(current_setting('pgwhen.pending'), ','))"
        f" as pgwhen_pending \\gset\n\\if :pgwhen_pending\n{_recorded(script)}\n\\endif"
        for script in sources.migrations()
    ]
    return "\\set ON_ERROR_STOP on\n\n" + _page(state, lock_timeout)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the subcommand `deploy`."""
    parser = subparsers.add_parser(
        "deploy",
        help="install pgwhen in a database, or bring it to this version",
        description="Install pgwhen, or bring it to this version, in one transaction.",
    )
    parser.add_argument("--dsn", default=os.environ.get("PGWHEN_DSN", ""), help="libpq's")
    parser.add_argument("--dry-run", action="store_true", help="print the SQL, change nothing")
    parser.add_argument(
        "--lock-timeout",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="how long each try waits for a lock (default: 5)",
    )
    parser.set_defaults(func=command)


def command(args: argparse.Namespace) -> int:
    """Run `pgwhen deploy` and return its exit status. Raises PgwhenError."""
    if args.dry_run:
        sys.stdout.write(plan(args.dsn, lock_timeout=args.lock_timeout))
        return 0
    report = deploy(args.dsn, lock_timeout=args.lock_timeout)
    for name in report.applied:
        sys.stdout.write(f"applied {name}\n")
    for name in report.left_over:
        sys.stderr.write(
            f"left over: {name} (no file of sql/ creates it; drop it in a migration)\n"
        )
    sys.stdout.write("deployed\n")
    return 0


def _connect(conninfo: str, *, autocommit: bool = False) -> psycopg.Connection:
    try:
        return psycopg.connect(conninfo, autocommit=autocommit, application_name="pgwhen deploy")
    except psycopg.OperationalError as exc:
        hint = "Name a server that is there: by --dsn, PGWHEN_DSN, or PGHOST and its like."
        raise PgwhenError(str(exc).strip(), hint=hint) from exc


def _deploy(conn: psycopg.Connection, lock_timeout: float) -> Report:
    conn.execute(_opening(lock_timeout).encode())
    pending = _pending(conn)
    applied = [script for script in sources.migrations() if script.name in pending]
    for script in applied:
        _run(conn, script)
        conn.execute(RECORD.format(name=script.name, digest=script.digest).encode())
    *creating, grants = sources.behaviour()
    for script in creating:
        _run(conn, script)
    left_over = [row[0] for row in conn.execute(LEFT_OVER)]
    _run(conn, grants)
    conn.commit()
    return Report([script.name for script in applied], left_over)


def _pending(conn: psycopg.Connection) -> list[str]:
    """Refuse what preflight.sql refuses, and return the names of the migrations to run."""
    try:
        conn.execute(_preflight().encode())
    except psycopg.Error as exc:
        raise DeployError(exc.sqlstate or "", _primary(exc), exc.diag.message_hint) from exc
    row = conn.execute("select current_setting('pgwhen.pending')").fetchone()
    assert row is not None
    return str(row[0]).split(",")


def _run(conn: psycopg.Connection, script: Script) -> None:
    try:
        conn.execute(script.text.encode())
    except psycopg.Error as exc:
        if _may_pass(exc):
            raise
        message = f"{_place(script, exc)}: {exc.sqlstate} {_primary(exc)}"
        raise DeployError("PW907", message, exc.diag.message_hint) from exc


def _place(script: Script, exc: psycopg.Error) -> str:
    """Where in *script* the server stopped, as far as it says."""
    position = exc.diag.statement_position
    if position is None:
        return script.name
    return f"{script.name}, line {script.text.count(chr(10), 0, int(position) - 1) + 1}"


def _may_pass(exc: psycopg.Error) -> bool:
    """Whether *exc* is about somebody else at work, so that the same deploy may pass later."""
    if isinstance(exc, errors.UniqueViolation):  # the same role, made by a deploy next door
        return exc.diag.schema_name == "pg_catalog"
    if isinstance(exc, errors.InternalError_):
        return _primary(exc) == "tuple concurrently updated"
    return isinstance(exc, errors.LockNotAvailable | errors.DeadlockDetected)


def _primary(exc: psycopg.Error) -> str:
    return exc.diag.message_primary or str(exc)


def _opening(lock_timeout: float) -> str:
    milliseconds = max(1, round(lock_timeout * 1000))
    return f"{SETTINGS.format(lock_timeout=milliseconds)}\n{LOCK}\n"


def _preflight() -> str:
    known = json.dumps([[script.name, script.digest] for script in sources.migrations()])
    text = Path(__file__).with_name("preflight.sql").read_text(encoding="utf-8")
    return text.replace("@known@", known)


def _recorded(script: Script) -> str:
    record = RECORD.format(name=script.name, digest=script.digest)
    return f"-- migrations/{script.name}.sql\n\n{script.text}\n{record}\n"


def _page(state: list[str], lock_timeout: float) -> str:
    """One transaction that psql runs: *state*, then the behaviour."""
    behaviour = [f"-- {script.name}\n\n{script.text}" for script in sources.behaviour()]
    return "\n".join(
        ["begin;", _opening(lock_timeout), _preflight(), *state, *behaviour, "commit;", ""]
    )


@contextmanager
def _watched(conninfo: str, pid: int) -> Iterator[list[str]]:
    """Yield a list that holds, while backend *pid* waits for locks, who held them last."""
    seen: list[str] = []
    done = threading.Event()
    with _connect(conninfo, autocommit=True) as conn:

        def look() -> None:
            with suppress(psycopg.OperationalError):  # seeing less must not end a deploy
                while not done.wait(LOOK):
                    now = [row[0] for row in conn.execute(BLOCKERS, [pid])]
                    seen[:] = now or seen

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            done.set()
            thread.join()


def _named(blockers: list[str]) -> str:
    return "; ".join(blockers) or "a session that has ended"
