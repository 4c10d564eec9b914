"""`pgwhen tail`: what happens, live, one line for each outcome."""

from __future__ import annotations

import signal
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from .logs import visible
from .settings import Settings, backoff

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

#: Seconds between two looks.
LOOK = 0.5
#: Outcomes asked for at a time.
PAGE = 500
#: Seconds that a transaction may stay open after its outcome got an id, and the outcome be shown.
PATIENCE = 10.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the subcommand `tail`."""
    parser = subparsers.add_parser(
        "tail",
        help="show what happens, live",
        description="Show what actions came to, as it is logged, until Ctrl-C.",
    )
    parser.set_defaults(func=command)


def command(_: argparse.Namespace) -> int:
    """Print outcomes until interrupted. A database that goes away is waited for."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    follower = Follower()
    dsn = Settings.from_environment().dsn
    pauses = backoff()
    connected = False
    while True:
        try:
            with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as conn:
                connected, pauses = True, backoff()
                while True:
                    _print(follower.look(conn))
        except psycopg.OperationalError as exc:
            if not connected:
                raise
            sys.stderr.write(f"connection lost, trying again: {exc}\n")
            time.sleep(next(pauses))
        except (KeyboardInterrupt, BrokenPipeError):
            return 0


class Follower:
    """Reads the log onward, each outcome once, also those that commit late."""

    def __init__(self) -> None:
        #: All up to this id has been shown, or will never be.
        self._floor: int | None = None
        self._shown: set[int] = set()
        self._marks: deque[tuple[float, int]] = deque()

    def look(self, conn: psycopg.Connection[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield what is new; wait a little if there is no more at once."""
        rows = conn.execute("select * from pgwhen.tail(%s, %s)", [self._floor, PAGE]).fetchall()
        yield from (row for row in rows if row["id"] not in self._shown)
        self._shown.update(row["id"] for row in rows)
        if len(rows) == PAGE:
            self._floor = rows[-1]["id"]
        else:
            self._marks.append((time.monotonic(), max(self._shown, default=0)))
            time.sleep(LOOK)
        while self._marks and self._marks[0][0] < time.monotonic() - PATIENCE:
            self._floor = max(self._floor or 0, self._marks.popleft()[1])
        self._shown = {shown for shown in self._shown if shown > (self._floor or 0)}


def _print(rows: Iterator[Mapping[str, Any]]) -> None:
    for row in rows:
        when = row["created_date"].astimezone().strftime("%H:%M:%S")
        what = f"{row['action_type']} for {row['user_id']}"
        if row["line_oa_id"] != "default":
            what += f" in {row['line_oa_id']}"
        if row["rule"] is not None:
            what += f" by rule {row['rule']}"
        if row["trigger_on"] is not None:
            what += f", on {row['trigger_on']}"
        if row["error_message"] is not None:
            what += f": {row['error_message']}"
        sys.stdout.write(visible(f"{when} {row['status']:10} {what}") + "\n")
    sys.stdout.flush()
