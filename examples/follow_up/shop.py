"""The shop: writes purchases and clicks into pgwhen's tables, as any application would, on time.

The file has the days on which customers bought, and how many CDs; neither hours nor clicks. What it
leaves open is settled here, from the file alone, so that no two things that decide about each
other are less than half a day apart:

- A customer's days count from their first purchase, which is on day 0. The customers come one
  after the other in the first ARRIVALS days.
- Purchases of even days are at the hour of the first one, those of odd days twelve hours later. So
  nobody buys again after exactly three days: it is two and a half, or three and a half.
- Who bought one CD at first never clicks, who bought two clicks after 12 hours, who bought more
  after 36, which is too late.
"""

from __future__ import annotations

import time
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import psycopg

DATA = Path(__file__).parents[1] / "cdnow" / "cdnow_sample.txt"

#: Days in which all customers come.
ARRIVALS = 2.0
#: Days: the least distance between two things that decide about each other.
MARGIN = 0.5

BUY = """
insert into pgwhen.line_user as u (user_id, attributes)
values (%s, jsonb_build_object('purchases', 1))
on conflict on constraint line_user_pkey do update
set attributes = jsonb_build_object('purchases', (u.attributes -> 'purchases')::integer + 1)
"""
CLICK = "insert into pgwhen.campaign_click (user_id, link) values (%s, 'offer')"


class Step(NamedTuple):
    """What a customer does, and when: at so many days from the beginning."""

    at: float
    customer: str
    statement: str


def steps(customers: int | None, days: int) -> list[Step]:
    """Return what the first so many customers of the file (None: all) do in their first days."""
    bought = purchases()
    known = sorted(bought)[:customers]
    return sorted(
        step._replace(at=step.at + ARRIVALS * place / len(known))
        for place, customer in enumerate(known)
        for step in first_days(customer, bought[customer], days)
    )


def purchases(path: Path = DATA) -> dict[str, list[tuple[date, int]]]:
    """Read the purchases of each customer, in order: the day, and the number of CDs."""
    found: dict[str, list[tuple[date, int]]] = {}
    for line in path.read_text().splitlines():
        _, customer, day, cds, _ = line.split()
        on = datetime.strptime(day, "%Y%m%d").date()  # noqa: DTZ007 - a day of the calendar
        found.setdefault(customer, []).append((on, int(cds)))
    return {customer: sorted(bought, key=lambda b: b[0]) for customer, bought in found.items()}


def first_days(customer: str, bought: list[tuple[date, int]], days: int) -> Iterator[Step]:
    """Say what one customer does, counted from the first purchase."""
    first_day, cds = bought[0]
    if cds > 1:
        yield Step(0.5 if cds == 2 else 1.5, customer, CLICK)  # noqa: PLR2004
    for on, _ in bought:
        day = (on - first_day).days
        if day < days:
            yield Step(day + (0.5 if day % 2 else 0.0), customer, BUY)


def trade(
    conn: psycopg.Connection,
    planned: Iterable[Step],
    day: float,
    on_step: Callable[[Step], None],
) -> float:
    """Do each step when its time has come, by the real clock; returns the most it was late by.

    conn: in autocommit mode, so that each step is a transaction of its own.
    day: the seconds that a day lasts.
    """
    begun, late = time.monotonic(), 0.0
    for step in planned:
        due = begun + step.at * day
        time.sleep(max(0.0, due - time.monotonic()))
        conn.execute(step.statement.encode(), [step.customer])
        late = max(late, time.monotonic() - due)
        on_step(step)
    return late
