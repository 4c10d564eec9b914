"""Run this example on a server of its own; exits non-zero where a count differs.

The clock is the real one and so are the waits; what is scaled is how long a day lasts.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from count import DAYS, expected
from shop import MARGIN, Step, steps, trade
from totals import compare, delivered, logged

from pgwhen import demo
from pgwhen.deploy import deploy
from pgwhen.embedded import Server, only_user
from pgwhen.errors import PgwhenError

if TYPE_CHECKING:
    import psycopg

HERE = Path(__file__).parent
DIRECTORY = Path(tempfile.gettempdir()) / f"pgwhen-follow-up-{os.getuid()}"

#: Seconds that a day lasts.
DAY = 4.0

SCALE = """
update pgwhen.trigger_rule as r
set action_config = r.action_config || jsonb_build_object('delay', (
    select jsonb_object_agg(
        d.key,
        case
            when d.key in ('seconds', 'expiresSeconds')
                then to_jsonb(d.value::numeric * %s / 86400)
            else d.value
        end
    )
    from jsonb_each(r.action_config -> 'delay') as d
))
"""
#: From a purchase to its actions, from an action's time to its end, and from an offer to its send.
LATE = """
select coalesce(extract(epoch from max(greatest(
    a.created_date - (a.event ->> 'at')::timestamptz,
    case when a.wait is null and a.status = 'done' then a.executed_at - a.execute_at end,
    case when a.wait is not null then a.executed_at - a.created_date end
))), 0)
from pgwhen.scheduled_action as a
where a.parent_id is null
"""
SERVED = "select exists (select from pgwhen.status() as s where s.item like 'worker %')"
TO_LOOK = """
PostgreSQL {version} in {directory}; a day lasts {day} s. To look at it meanwhile:

  export {variables}
  {psql}

Then README.md says what to ask.
"""


def main() -> int:
    """Run the example as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description="Follow purchases up, and chase links.")
    parser.add_argument("--customers", type=int, metavar="N", help="only the first N customers")
    parser.add_argument("--days", type=int, default=DAYS, help="of each customer (%(default)s)")
    parser.add_argument("--day", type=float, default=DAY, help="seconds of a day (%(default)s)")
    parser.add_argument("--dir", type=Path, default=DIRECTORY, help="of the server (%(default)s)")
    args = parser.parse_args()
    server = Server(args.dir)
    try:
        with only_user(server.directory), demo.interruptible(), demo.away_from_other_servers():
            return run(server, args.customers, args.days, args.day)
    except PgwhenError as exc:
        sys.stderr.write(f"{exc}\n{exc.hint or ''}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def run(server: Server, customers: int | None, days: int, day: float) -> int:
    """Go from an empty server to the compared counts; returns the exit status."""
    planned = steps(customers, days)
    server.create()
    with demo.started(server), demo.connected(server) as conn:
        deploy(server.conninfo)
        conn.execute((HERE / "rules.sql").read_bytes())
        conn.execute(SCALE.encode(), [day])
        demo.say(where_to_look(server, conn, day))
        with demo.listening(server) as listener:
            await_listener(conn, listener)
            progress = Progress(conn, listener, len(planned))
            shop_late = trade(conn, planned, day, progress.step)
            demo.wait(conn, progress.look, patience=demo.PATIENCE + 3 * day)
        pgwhen_late = float(conn.execute(LATE).fetchone()[0])
        differ = compare(logged(conn), delivered(listener.log), expected(customers, days))
    demo.say(
        f"\nThe shop was {shop_late:.3f} s late at most, pgwhen {pgwhen_late:.3f} s;"
        f" what must not be confused is {MARGIN * day:.1f} s apart."
    )
    if differ and shop_late + pgwhen_late > MARGIN * day:
        demo.say(f"That was too slow to tell. Let a day last longer: --day {2 * day:g}")
    return 1 if differ else 0


def await_listener(conn: psycopg.Connection, listener: demo.Listener) -> None:
    """Return when the listener serves; what it does not do yet would count as late."""
    while not conn.execute(SERVED).fetchone()[0]:
        listener.check()
        time.sleep(0.05)


def where_to_look(server: Server, conn: psycopg.Connection, day: float) -> str:
    """Say how to connect to the server while all this runs."""
    return TO_LOOK.format(
        version=conn.info.parameter_status("server_version"),
        directory=server.directory,
        day=day,
        variables=" ".join(f"{name}={shlex.quote(to)}" for name, to in server.environment.items()),
        psql=demo.callable_as("psql", server.installation.bin),
    )


class Progress:
    """Says every few seconds how far everything is."""

    def __init__(self, conn: psycopg.Connection, listener: demo.Listener, planned: int) -> None:
        """Begin to count."""
        self._conn = conn
        self._listener = listener
        self._planned = planned
        self._done = 0
        self._next = time.monotonic()

    def step(self, _step: Step) -> None:
        """Take note of a step of the shop."""
        self._done += 1
        self._say()

    def look(self, _events: int, _actions: int) -> None:
        """Take note that all steps are done, and something still waits."""
        self._say()

    def _say(self) -> None:
        self._listener.check()
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 5
        for_time, for_click = self._conn.execute(
            "select count(*) filter (where not a.waiting), count(*) filter (where a.waiting)"
            " from pgwhen.scheduled_action as a where a.status = 'pending'"
        ).fetchone()
        demo.say(
            f"  {self._done:>5,} of {self._planned:,} purchases and clicks;"
            f" {for_time:>5,} messages wait for their time, {for_click:>5,} links for a click"
        )


if __name__ == "__main__":
    sys.exit(main())
