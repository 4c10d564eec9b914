"""Run this example on a server of its own; exits non-zero where a count differs.

The clock is the real one and so are the waits; what is scaled is how long a day lasts.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from count import COUNTS, DAYS, expected
from shop import MARGIN, Step, steps, trade

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
OUTCOMES = """
select l.user_id, r.name, a.parent_id is not null, l.status, count(*)
from pgwhen.trigger_log as l
inner join pgwhen.trigger_rule as r on r.id = l.trigger_rule_id
left join pgwhen.scheduled_action as a on a.id = l.action_id
group by l.user_id, r.name, a.parent_id is not null, l.status
"""
#: What a row of trigger_log counts as, by rule, whether it follows a wait, and status.
MEANS = {
    ("follow up", False, "success"): ("follow-ups sent",),
    ("follow up", False, "cancelled"): ("follow-ups replaced",),
    ("offer", False, "success"): ("offers sent", "offers clicked"),
    ("offer", False, "expired"): ("offers sent", "offers not clicked"),
    ("offer", False, "late_click"): ("offers clicked late",),
    ("offer", True, "success"): ("offers sent again",),
}
#: What a message in the listener's log counts as, by how it begins.
MESSAGES = {
    "How do you like it?": "follow-ups sent",
    "Ten per cent off": "offers sent",
    "Once more": "offers sent again",
}
MESSAGE = re.compile(rf"log_message: to (\w+): ({'|'.join(map(re.escape, MESSAGES))})")
#: From a purchase to its actions, from an action's time to its end, and from an offer to its send.
LATE = """
select extract(epoch from max(greatest(
    a.created_date - (a.event ->> 'at')::timestamptz,
    case when a.wait is null and a.status = 'done' then a.executed_at - a.execute_at end,
    case when a.wait is not null then a.executed_at - a.created_date end
)))
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
            demo.wait(conn, progress.look)
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


def logged(conn: psycopg.Connection) -> dict[str, Counter[str]]:
    """Count for each customer what trigger_log says."""
    found: dict[str, Counter[str]] = {}
    for customer, *what, number in conn.execute(OUTCOMES):
        for name in MEANS.get(tuple(what), (f"unexpected: {what}",)):
            found.setdefault(customer, Counter())[name] += number
    return found


def delivered(log: Path) -> dict[str, Counter[str]]:
    """Count for each customer the messages that the listener's log has."""
    found: dict[str, Counter[str]] = {}
    for customer, beginning in MESSAGE.findall(log.read_text()):
        found.setdefault(customer, Counter())[MESSAGES[beginning]] += 1
    return found


def compare(
    found: dict[str, Counter[str]],
    messages: dict[str, Counter[str]],
    wanted: dict[str, Counter[str]],
) -> int:
    """Print the totals side by side; returns for how many customers anything differs."""
    totals = [sum(counts.values(), Counter()) for counts in (found, messages, wanted)]
    demo.say(f"\n{'':<22}{'pgwhen':>10}{'messages':>10}{'file':>10}")
    for name in dict.fromkeys([*COUNTS, *totals[0]]):
        ours, seen, file = (f"{total[name]:,}" for total in totals)
        is_message = name in MESSAGES.values()
        demo.say(f"{name:<22}{ours:>10}{seen if is_message else '':>10}{file:>10}")
    customers = sorted(found.keys() | messages.keys() | wanted.keys())
    different = [name for name in customers if not agree(found, messages, wanted, name)]
    if different:
        few = ", ".join(different[:5])
        demo.say(f"\nDIFFERENT for {len(different):,} of {len(customers):,} customers: {few} …")
    else:
        demo.say(f"\nall counts agree, for each of {len(customers):,} customers")
    return len(different)


def agree(
    found: dict[str, Counter[str]],
    messages: dict[str, Counter[str]],
    wanted: dict[str, Counter[str]],
    customer: str,
) -> bool:
    """Whether table, log and file say the same of one customer."""
    mine, seen, file = (counts.get(customer, Counter()) for counts in (found, messages, wanted))
    return mine == file and seen == Counter(
        {name: number for name, number in file.items() if name in MESSAGES.values()}
    )


if __name__ == "__main__":
    sys.exit(main())
