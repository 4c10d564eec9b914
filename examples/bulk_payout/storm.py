"""Kill -9 of the listener and of the banks, at random, while they are at work."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from count import expected_book
from processes import LOOK

from pgwhen import demo

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    import psycopg
    from processes import BankProcess, Hit, ListenerProcess

#: The banks at which there are kills, and what type of action pays there.
WORK = {"modern": "bulk_payout", "old": "transfer"}

AT_WORK = """
select exists (
    select from pgwhen.scheduled_action as a
    where
        a.status = 'processing' and a.worker = %s and a.action_type = %s
        and a.action_config ->> 'bank' = %s
)
"""


class Kill(NamedTuple):
    """Whom to kill, as soon as a bank has booked so many and the listener is at work for it."""

    after: int
    bank: str
    victim: str


def plan(kills: int, months: int, chance: random.Random) -> list[Kill]:
    """Plan so many kills at random moments, in turns at either bank; every third is the bank's."""
    planned = []
    for number in range(kills):
        bank = list(WORK)[number // 3 % 2]
        most = len(expected_book(bank, months))
        victim = bank if number % 3 == 2 else "listener"  # noqa: PLR2004
        planned.append(Kill(chance.randrange(most // 10, most * 3 // 4), bank, victim))
    return sorted(planned)


def storm(
    conn: psycopg.Connection,
    listener: ListenerProcess,
    banks: dict[str, BankProcess],
    planned: Sequence[Kill],
) -> list[Hit]:
    """Kill as planned, and start again who was killed; returns the attempts that were hit.

    A kill that has not hit what it was for is repeated. Raises DemoError where all work is done
    before that.
    """
    hits: list[Hit] = []
    waiting = list(planned)
    while waiting:
        listener.check()
        kill = next((kill for kill in waiting if is_time(conn, listener, banks, kill)), None)
        if kill is None:
            if not any(demo.remaining(conn)):
                raise demo.DemoError(f"all work is done, and these kills are not: {waiting}")
            time.sleep(LOOK)
            continue
        hit = do(conn, listener, banks, kill.victim)
        if kill.victim != "listener" or WORK[kill.bank] in {what.action_type for what in hit}:
            waiting.remove(kill)
        hits += hit
    return hits


def is_time(
    conn: psycopg.Connection,
    listener: ListenerProcess,
    banks: dict[str, BankProcess],
    kill: Kill,
) -> bool:
    """Whether the bank has booked enough, and there is work to be hit."""
    if banks[kill.bank].booked() < kill.after:
        return False
    row = conn.execute(AT_WORK.encode(), [listener.worker, WORK[kill.bank], kill.bank]).fetchone()
    return bool(row[0])


def do(
    conn: psycopg.Connection,
    listener: ListenerProcess,
    banks: dict[str, BankProcess],
    victim: str,
) -> list[Hit]:
    """Kill somebody and start them again; returns the attempts that were hit, of the listener's."""
    if victim == "listener":
        hits = listener.kill(conn)
        listener.start()
        return hits
    banks[victim].kill()
    banks[victim].start()
    return []
