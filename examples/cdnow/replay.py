"""The shop: writes what its customers buy into pgwhen.line_user, as any application would.

One transaction a day, with the day as the time of its events. It knows no rule and calls nothing
but pgwhen.event_time().
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HERE = Path(__file__).parent

BUY = """
insert into pgwhen.line_user as u (user_id, attributes)
select
    b.customer,
    jsonb_build_object(
        'purchases', 1, 'total_spent', b.amount,
        'last_purchase', %(day)s::date, 'last_amount', b.amount
    )
from unnest(%(customers)s::text[], %(amounts)s::numeric[]) as b (customer, amount)
on conflict on constraint line_user_pkey do update set
    attributes = u.attributes || excluded.attributes || jsonb_build_object(
        'purchases', (u.attributes -> 'purchases')::integer + 1,
        'total_spent',
        (u.attributes -> 'total_spent')::numeric
        + (excluded.attributes -> 'last_amount')::numeric
    )
"""


class Purchase(NamedTuple):
    """One line of the file: the day as YYYYMMDD, the amount in US dollars."""

    day: str
    customer: str
    amount: str


def read_purchases(
    path: Path = HERE / "cdnow_sample.txt", customers: int | None = None
) -> list[Purchase]:
    """Read the purchases in time order; customers: only those of the first so many."""
    with path.open() as lines:
        fields = [line.split() for line in lines if line.strip()]
    chosen = set(sorted({customer for _, customer, *_ in fields})[:customers])
    found = [Purchase(f[2], f[1], f[4]) for f in fields if f[1] in chosen]
    return sorted(found, key=lambda purchase: purchase.day)


def load_rules(conn: psycopg.Connection) -> None:
    """Insert the rules of rules.sql, in one transaction."""
    with conn.transaction():
        conn.execute((HERE / "rules.sql").read_bytes())


def replay(
    conn: psycopg.Connection,
    purchases: Sequence[Purchase],
    on_progress: Callable[[str, int], None] = lambda _day, _done: None,
) -> None:
    """Book the purchases, a day a transaction.

    Goes on where the database stands, so that it can be called again with the same purchases
    after a lost connection. on_progress is called after each commit with the day and the number
    of purchases booked so far.
    """
    done = booked(conn)
    for day, bought in groupby(purchases[done:], key=lambda purchase: purchase.day):
        with conn.transaction():
            conn.execute("select pgwhen.event_time(%s::timestamp at time zone 'UTC')", (day,))
            for statement in one_each(bought):
                conn.execute(
                    BUY,
                    {
                        "day": day,
                        "customers": [purchase.customer for purchase in statement],
                        "amounts": [purchase.amount for purchase in statement],
                    },
                )
                done += len(statement)
        on_progress(day, done)


def booked(conn: psycopg.Connection) -> int:
    """Count the purchases that the database has."""
    with conn.transaction():
        row = conn.execute(
            "select coalesce(sum((attributes -> 'purchases')::integer), 0) from pgwhen.line_user"
        ).fetchone()
    return int(row[0]) if row else 0


def one_each(purchases: Iterable[Purchase]) -> list[list[Purchase]]:
    """Part a day's purchases into statements with at most one purchase of a customer each."""
    statements: defaultdict[int, list[Purchase]] = defaultdict(list)
    so_far: Counter[str] = Counter()
    for purchase in purchases:
        statements[so_far[purchase.customer]].append(purchase)
        so_far[purchase.customer] += 1
    return list(statements.values())


def main() -> None:
    """Book the whole file in the database that the PG* variables name."""
    with psycopg.connect("") as conn:
        replay(conn, read_purchases(), print)


if __name__ == "__main__":
    main()
