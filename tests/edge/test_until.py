"""
When an action is due that waits until a time of its user's: Python's zoneinfo must say the same.

The times are such as people write, with and without an offset, in zones that put their clocks
forward and back in every way there is; half of them are chosen so that they, or the moments that
the offset leads to, fall upon an hour that does not exist or that there is twice.
"""

from __future__ import annotations

import calendar
import itertools
import json
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support import CASES

if TYPE_CHECKING:
    from random import Random

    from tests.support import Database

BATCH = 50
UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Half an hour of summer, a day that never was, a summer interrupted by Ramadan, two hours of it,
#: midnights that do not exist, standard time that moved; and some of the plain ones.
ZONES = (
    "Africa/Cairo", "Africa/Casablanca", "America/Caracas", "America/New_York", "America/Sao_Paulo",
    "America/St_Johns", "Antarctica/Troll", "Asia/Bangkok", "Asia/Beirut", "Asia/Kathmandu",
    "Asia/Pyongyang", "Asia/Tehran", "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin",
    "Europe/Moscow", "Pacific/Apia", "Pacific/Chatham", "UTC",
)  # fmt: skip
#: Past years, of which every edition of the zone files tells the same.
FIRST, LAST = date(1995, 1, 1), date(2021, 12, 31)


@dataclass(frozen=True)
class Offset:
    """What an `until` adds, and how the rule writes it."""

    months: int
    days: int
    seconds: int
    written: str | int


@lru_cache
def changes(zone: str) -> list[datetime]:
    """Return the wall times at which the clocks of *zone* were changed, by the old offset."""
    info = ZoneInfo(zone)
    start = datetime.combine(FIRST, time(), info).astimezone(UTC)
    days = [start + timedelta(days=n) for n in range((LAST - FIRST).days)]
    found = []
    for day, next_day in itertools.pairwise(days):
        offset = day.astimezone(info).utcoffset()
        if offset is not None and next_day.astimezone(info).utcoffset() != offset:
            moment = day
            while moment.astimezone(info).utcoffset() == offset:
                moment += timedelta(minutes=15)
            found.append((moment + offset).replace(tzinfo=None))
    return found


def an_offset(random: Random) -> Offset:
    """Return months, days and seconds, each of either sign, written as interval text or seconds."""
    seconds = random.choice([0, 0, 3600, 1800, random.randint(-200_000, 200_000)])
    if random.random() < 0.4:
        return Offset(0, 0, seconds, seconds)
    months = random.choice([0, 0, 1, -1, random.randint(-30, 30)])
    days = random.choice([0, 1, -1, random.randint(-400, 400)])
    return Offset(months, days, seconds, f"{months} months {days} days {seconds} seconds")


def a_wall(random: Random, zone: str, offset: Offset) -> datetime:
    """Return a wall time; often one from which the days of *offset* lead to a change of clocks."""
    if changes(zone) and random.random() < 0.7:
        near = random.choice(changes(zone)) + timedelta(minutes=random.randint(-90, 90))
        return near - timedelta(days=offset.days if random.random() < 0.7 else 0)
    day = FIRST + timedelta(days=random.randrange((LAST - FIRST).days))
    clock = timedelta(microseconds=random.randrange(86_400_000_000))
    return datetime.combine(day, time()) + clock


def written(random: Random, wall: datetime, zone: str) -> tuple[str, datetime | None]:
    """Return *wall* as a text, with the instant that it is if it names an offset."""
    shape = random.random()
    if shape < 0.15:
        return wall.date().isoformat(), None
    if shape < 0.4:
        return wall.isoformat(sep=random.choice("T ")), None
    fold = random.randrange(2)
    if shape < 0.8:  # as an application writes that knows the user's zone
        instant = wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)
    else:
        instant = wall.replace(tzinfo=UTC)
    elsewhere = timezone(timedelta(minutes=15 * random.randint(-48, 56)))
    return instant.astimezone(elsewhere).isoformat(), instant


def expected(text: str, instant: datetime | None, zone: str, offset: Offset) -> datetime:
    """Return what is due: the calendar part in *zone*, then the seconds of the clock."""
    info = ZoneInfo(zone)
    if instant is None or offset.months or offset.days:
        if instant is None:
            wall = datetime.fromisoformat(text)
        else:
            wall = instant.astimezone(info).replace(tzinfo=None)
        wall = in_months(wall, offset.months) + timedelta(days=offset.days)
        instant = wall.replace(tzinfo=info, fold=0).astimezone(UTC)
    return instant + timedelta(seconds=offset.seconds)


def in_months(wall: datetime, months: int) -> datetime:
    """Return the same day *months* later, or the last of that month where it has no such day."""
    year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return wall.replace(year=year, month=month + 1, day=min(wall.day, last))


@settings(max_examples=max(1, CASES // 10), phases=[Phase.generate])
@given(st.randoms(use_true_random=True))
def test_until(db: Database, random: Random) -> None:
    """The moment is Python's, whatever the session's own zone and style."""
    cases = []
    for _ in range(BATCH):
        zone, offset = random.choice(ZONES), an_offset(random)
        text, instant = written(random, a_wall(random, zone, offset), zone)
        moment = expected(text, instant, zone, offset)
        cases.append(
            {
                "until": {"field": "event.data.at", "offset": offset.written},
                "value": text,
                "zone": zone,
                "epoch": (moment - EPOCH) // timedelta(microseconds=1),
            }
        )
    with db.connect() as session:
        session.execute("set timezone = 'America/Lima'; set intervalstyle = 'sql_standard'")
        session.execute("set datestyle = 'SQL, DMY'")
        wrong = session.execute(
            """
            select c.value::text, d.due_at::text
            from jsonb_array_elements(%s) as c (value)
            cross join lateral _pgwhen.due_at(
                _pgwhen.compiled_delay(jsonb_build_object('until', c.value -> 'until')),
                '0001-01-01 00:00Z', c.value -> 'value', c.value ->> 'zone'
            ) as d (due_at)
            where d.due_at is distinct from
                to_timestamp(0) + make_interval(secs => (c.value -> 'epoch')::numeric / 1000000)
            """,
            [json.dumps(cases)],
        ).fetchall()
    assert not wrong
