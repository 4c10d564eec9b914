"""
The next runs of cron expressions against cronsim, over expressions × zones × years.

cronsim follows Debian's cron. ``test_cronsim`` asks it as it is, and ``test_policies`` only for the
calendar: the times that a wall would show if no clock were ever changed, from which Python's own
zones then make instants under each policy. These differences are intended:

* A time that does not exist is as much later as the clock went forward, 02:30 is 03:30, as in
  delays and in Postgres. Debian runs all such times at once, at the first minute that there is:
  ``0,30 2 * * *`` runs twice here and once there. ``test_cronsim`` asks for no time of day within a
  day of a clock that goes forward.
* cronsim reads a time of day without its fold: begun in the second of two hours that look alike,
  it repeats what ran in the first. Nor does ``test_cronsim`` begin there.
* A rhythm (minute or hour with a star) runs when the wall shows its time. cronsim jumps to the
  midnight of a day, which in Beirut may not exist, or be the second of two, and may never come back
  from where a whole day is skipped; and through a day in steps of a whole hour, by which it misses
  what the wall shows after a change by half an hour, as in Lord Howe, or at a quarter to three, as
  in Chatham. ``test_cronsim`` asks for no rhythm within a day of a change that is no whole hour, at
  none or at midnight; ``test_policies`` does, and there cronsim knows no zones.
* Refused here and read by cronsim, so not generated: six fields, a step without a range (``5/15``),
  a step longer than the field (``*/90``), numbers of three digits, ``L/2``. ``5-5/2`` is 5 here, as
  in Vixie's cron, and 5-59/2 there.
* Read here and refused by cronsim: ``FRIL``.

`BATCHES` batches of `BATCH` cases are tried, each in one round trip; instead of a shrunk batch, the
shortest case of it that fails is told.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim, CronSimError
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support import ROOT, SOAK

from .zones import (
    DAY,
    FIRST_YEAR,
    LAST_YEAR,
    UTC,
    ZONES,
    changes,
    changes_between,
    largest_move,
    move,
    offset,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from random import Random

    import psycopg

BATCHES = 500 if SOAK else 50
BATCH = 100
RUNS = 4

batches = settings(max_examples=BATCHES, phases=[Phase.generate])
seeds = st.randoms(use_true_random=True)

NOTHING, SECOND, HOUR = timedelta(), timedelta(seconds=1), timedelta(hours=1)
NAMES = {
    4: ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    5: ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
}
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
LOWEST = {1: 0, 2: 0, 3: 1, 4: 1, 5: 0}
HIGHEST = {1: 59, 2: 23, 3: 31, 4: 12, 5: 7}


@dataclass(frozen=True)
class Case:
    """A schedule, and the instant after which its runs are asked for."""

    cron: str
    timezone: str
    gap: str
    overlap: str
    after: str

    @property
    def since(self) -> datetime:
        """The instant as Python has it."""
        return datetime.fromisoformat(self.after)

    @property
    def is_rhythm(self) -> bool:
        """Whether policies do not apply, as in Vixie's cron."""
        return any(field.startswith("*") for field in self.cron.split()[:2])


# Expressions ----------------------------------------------------------------------------------


def number(random: Random, n: int, least: int | None = None) -> str:
    """Return a value of the field, by name where it has one, sometimes."""
    value = random.randint(LOWEST[n] if least is None else least, HIGHEST[n])
    if n in NAMES and random.random() < 0.3 and value - LOWEST[n] < len(NAMES[n]):
        name: str = NAMES[n][value - LOWEST[n]]
        return random.choice([name, name.lower(), name.title()])
    return f"{value:02}" if random.random() < 0.1 else str(value)


def span(random: Random, n: int) -> str:
    """Return a range of at least two values, by a step or not."""
    first = random.randint(LOWEST[n], HIGHEST[n] - 1)
    made = f"{first}-{random.randint(first + 1, HIGHEST[n])}"
    return made if random.random() < 0.6 else f"{made}/{random.randint(1, 7)}"


def item(random: Random, n: int) -> str:
    """Return one item of a list."""
    kind = random.random()
    if kind < 0.12:
        return f"*/{random.randint(1, HIGHEST[n])}"
    if kind < 0.3:
        return span(random, n)
    if kind < 0.45 and n == 3:
        return random.choice(["L", "LW", "l", "29", "30", "31"])
    if kind < 0.5 and n == 5:
        return f"{number(random, n)}#{random.randint(1, 5)}"
    if kind < 0.6 and n == 5:
        return f"{random.randint(0, 7)}L"
    return number(random, n)


def field(random: Random, n: int) -> str:
    """Return a field: any value, one item, or a list of them."""
    if random.random() < {1: 0.1, 2: 0.25, 3: 0.5, 4: 0.7, 5: 0.5}[n]:
        return "*"
    return ",".join(item(random, n) for _ in range(random.choice([1, 1, 1, 2, 3])))


def expression(random: Random) -> str:
    """Return an expression of which cronsim knows what it means."""
    return join(random, [field(random, n) for n in range(1, 6)])


def join(random: Random, fields: list[str]) -> str:
    """Put fields together by what may stand between them."""
    return random.choice([" ", " ", "  ", "\t"]).join(fields)


def any_cases(random: Random, zones: list[str]) -> Iterator[Case]:
    """Yield schedules that come to a run, and instants, without end; the policies are default.

    As a rule there is a change of clocks near the instant, and often the schedule is about it.
    """
    while True:
        zone = random.choice(zones)
        cron, after = expression(random), any_moment(random)
        near = [change for change in changes(zone) if change.year <= LAST_YEAR]
        if near and random.random() < 0.8:
            change = random.choice(near)
            after = change + random.choice([SECOND, HOUR, DAY]) * random.uniform(-1, 1)
            if random.random() < 0.6:
                cron = expression_about(random, zone, change)
                after = change - random.choice([HOUR, DAY, DAY]) * random.uniform(-0.1, 1)
        if ever_comes(cron):
            yield Case(cron, zone, "shift", "first", after.isoformat())


def any_moment(random: Random) -> datetime:
    """Return an instant, any one."""
    first = datetime(FIRST_YEAR, 1, 2, tzinfo=UTC)
    return first + timedelta(days=365.2 * (LAST_YEAR - FIRST_YEAR)) * random.random()


def expression_about(random: Random, zone: str, change: datetime) -> str:
    """Return an expression with an hour that clocks go over, forward or back, at *change*."""
    moved = abs(move(zone, change))
    over = min(change - SECOND + offset(zone, at) for at in (change - SECOND, change))
    hour = (over + SECOND + moved * random.random()).hour
    hours = random.choice([str(hour), str(hour), f"{hour},{item(random, 2)}", f"{hour}-{hour}"])
    days = [field(random, n) if random.random() < 0.2 else "*" for n in (3, 4, 5)]
    return join(random, [field(random, 1), hours, *days])


# What the oracles say -------------------------------------------------------------------------


def walls(cron: str, after: datetime) -> Iterator[datetime]:
    """Yield what a wall shows at each run, if no clock is ever changed."""
    assert after.tzinfo is None
    return iter(CronSim(cron, after))


def ever_comes(cron: str) -> bool:
    """Whether cronsim finds any run in the fifty years that it looks."""
    try:
        return next(walls(cron, datetime(2000, 1, 1)), None) is not None  # noqa: DTZ001
    except CronSimError:
        return False


def instants(case: Case, wall: datetime) -> list[datetime]:
    """Return the instants that a time on the wall stands for, by Python's zones."""
    zone = ZoneInfo(case.timezone)
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return [first]
    exists = first.astimezone(zone).replace(tzinfo=None) == wall
    if case.is_rhythm:
        return [first, second] if exists else []
    if not exists:
        return [first] if case.gap == "shift" else []
    return {"first": [first], "second": [second], "both": [first, second]}[case.overlap]


def runs_by_policy(case: Case) -> list[datetime]:
    """Return the next runs: times on the wall by cronsim, their instants by Python's zones.

    Near a change the order of walls is not that of instants: all walls that a clock could show so
    much earlier or later are looked at.
    """
    since = case.since
    local = since.astimezone(ZoneInfo(case.timezone)).replace(tzinfo=None)
    found: list[datetime] = []
    for wall in walls(case.cron, local - largest_move(case.timezone, since, since)):
        fresh = (run for run in instants(case, wall) if run > since)
        found = sorted({*found, *fresh})[:RUNS]
        if len(found) == RUNS:
            last = found[-1]
            shown = wall.replace(tzinfo=UTC) - offset(case.timezone, last)
            if shown >= last + 2 * largest_move(case.timezone, since, last):
                break
    return found


def runs_by_cronsim(case: Case) -> list[datetime]:
    """Return the next runs as cronsim tells them."""
    local = case.since.astimezone(ZoneInfo(case.timezone))
    return [run.astimezone(UTC) for run in islice(CronSim(case.cron, local), RUNS)]


def cronsim_can_be_asked(case: Case) -> bool:
    """Whether none of the intended differences plays a part; the module says which there are."""
    zone, since = case.timezone, case.since
    near = changes_between(zone, since - DAY, runs_by_policy(case)[-1] + DAY)
    if case.is_rhythm:
        return not any(is_odd(zone, change) for change in near)
    in_first = since.astimezone(ZoneInfo(zone)).fold == 0
    return in_first and all(move(zone, at) < NOTHING for at in near)


def is_odd(zone: str, change: datetime) -> bool:
    """Whether a clock does not jump from hour to hour, or does over midnight, from it or to it."""
    before, after = (t.astimezone(ZoneInfo(zone)) for t in (change - SECOND, change))
    if move(zone, change) % HOUR or after.minute or after.second:
        return True
    return before.date() != after.date() or not {before.hour, after.hour}.isdisjoint({0, 23})


# Comparison -----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def zones(session: psycopg.Connection) -> list[str]:
    """List the zones of which the server and Python have the same idea."""
    moments = [
        datetime(year, month, day, tzinfo=UTC)
        for year in range(FIRST_YEAR, LAST_YEAR + 1)
        for month in range(1, 13)
        for day in (1, 15)
    ]
    agreed = []
    for zone in ZONES:
        rows = session.execute(
            "select m at time zone %s - m at time zone 'UTC' from unnest(%s::timestamptz[]) as m",
            [zone, moments],
        )
        if [ahead for (ahead,) in rows] == [offset(zone, moment) for moment in moments]:
            agreed.append(zone)
    assert len(agreed) > len(ZONES) / 2, "the server and Python have different zone files"
    return agreed


def compare(
    session: psycopg.Connection, cases: list[Case], oracle: Callable[[Case], list[datetime]]
) -> None:
    """Fail with the shortest case of which *oracle* says something else than the database."""
    rows = session.execute(
        """
        select pg_temp.runs(
            _pgwhen.compiled_schedule(c.spec || jsonb_build_object('dst', c.spec)),
            (c.spec ->> 'after')::timestamptz, %s
        )
        from jsonb_array_elements(%s) with ordinality as c (spec, place)
        order by c.place
        """,
        [RUNS, json.dumps([asdict(case) for case in cases])],
    ).fetchall()
    quarrels = []
    for case, (found,) in zip(cases, rows, strict=True):
        expected = oracle(case)
        if found != expected:
            quarrels.append(
                f"{case}\n  found    {' '.join(run.isoformat() for run in found)}"
                f"\n  expected {' '.join(run.isoformat() for run in expected)}"
            )
    assert not quarrels, min(quarrels, key=len)


@batches
@given(seeds)
def test_policies(session: psycopg.Connection, zones: list[str], random: Random) -> None:
    """The runs are those of cronsim's calendar, under each policy for changes of clocks."""
    cases = [
        replace(
            case,
            gap=random.choice(["shift", "skip"]),
            overlap=random.choice(["first", "second", "both"]),
        )
        for case in islice(any_cases(random, zones), BATCH)
    ]
    compare(session, cases, runs_by_policy)


@batches
@given(seeds)
def test_cronsim(session: psycopg.Connection, zones: list[str], random: Random) -> None:
    """The runs are cronsim's, but for the differences that are intended."""
    cases = filter(cronsim_can_be_asked, any_cases(random, zones))
    compare(session, list(islice(cases, BATCH)), runs_by_cronsim)


def test_crontab(session: psycopg.Connection, zones: list[str]) -> None:
    """The expressions by which next_run() is measured mean what cronsim takes them to mean."""
    lines = (ROOT / "bench" / "crontab.txt").read_text(encoding="utf-8").splitlines()
    crons = [MACROS.get(line, line) for line in lines if not line.startswith("#")]
    assert len(crons) == 200
    compare(
        session,
        [
            Case(cron, zone, "shift", "first", changes(zone)[-1].isoformat())
            for cron in crons
            for zone in ("Europe/Berlin", "Australia/Lord_Howe")
            if zone in zones
        ],
        runs_by_policy,
    )


@settings(max_examples=BATCHES // 10, phases=[Phase.generate])
@given(seeds)
def test_what_never_comes(session: psycopg.Connection, random: Random) -> None:
    """An expression is refused exactly where cronsim finds no run in fifty years."""
    crons = [" ".join(["0 0", *(field(random, n) for n in (3, 4, 5))]) for _ in range(4 * BATCH)]
    rows = session.execute(
        """
        select _pgwhen.cron_parsed(c.cron) is not null
        from unnest(%s::text[]) with ordinality as c (cron, place)
        order by c.place
        """,
        [crons],
    ).fetchall()
    quarrels = [
        cron for cron, (comes,) in zip(crons, rows, strict=True) if comes is not ever_comes(cron)
    ]
    assert not quarrels, min(quarrels, key=len)
