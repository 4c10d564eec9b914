"""Time zones as Python sees them: their offsets, and when these change."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

UTC = timezone.utc
DAY = timedelta(hours=25)
"""Longer than any change of a clock, by a margin."""

FIRST_YEAR, LAST_YEAR = 1970, 2100

#: Zones with something odd about them, and some that people live in.
ZONES = [
    "Africa/Cairo",  # changes at midnight
    "Africa/Casablanca",  # goes back for Ramadan: two more changes a year, at odd dates
    "Africa/Monrovia",  # 44 minutes and 30 seconds behind UTC until 1972
    "America/Asuncion",  # changed at midnight
    "America/Caracas",  # moved by half an hour, and back
    "America/Nuuk",  # changes at the EU's instant, which is the evening before there
    "America/Havana",  # changes at midnight
    "America/Los_Angeles",
    "America/New_York",
    "America/Noronha",  # a summer of one week, in 2000
    "America/Sao_Paulo",  # changed at midnight
    "America/Scoresbysund",  # moved and changed its clock in one night, in 2024
    "America/St_Johns",  # half an hour, and changed at 00:01; by two hours in 1988
    "Antarctica/Casey",  # moved by three hours
    "Antarctica/Troll",  # changes by two hours
    "Asia/Amman",  # changed at midnight
    "Asia/Bangkok",
    "Asia/Beirut",  # changes at midnight
    "Asia/Gaza",  # has changes a week apart
    "Asia/Kathmandu",  # went 15 minutes ahead
    "Asia/Pyongyang",  # moved by half an hour, and back
    "Asia/Tehran",  # changed at midnight
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Lord_Howe",  # changes by half an hour
    "Australia/Sydney",
    "Europe/Berlin",
    "Europe/Dublin",  # calls its summer time the standard one
    "Europe/London",
    "Pacific/Apia",  # skipped 30 December 2011
    "Pacific/Chatham",  # 45 minutes
    "Pacific/Kanton",  # skipped a day in 1994
    "Pacific/Kwajalein",  # skipped a day in 1993
    "UTC",
]


def offset(zone: str, at: datetime) -> timedelta:
    """Return how far the clocks of *zone* are ahead of UTC at an instant."""
    ahead = at.astimezone(ZoneInfo(zone)).utcoffset()
    assert ahead is not None
    return ahead


@cache
def changes(zone: str) -> list[datetime]:
    """List the instants at which the offset of *zone* changes, to the second."""
    found = []
    step = timedelta(days=3)
    at, end = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC), datetime(LAST_YEAR + 60, 1, 1, tzinfo=UTC)
    while at < end:
        if offset(zone, at) != offset(zone, at + step):
            found.append(_change_between(zone, at, at + step))
        at += step
    return found


def _change_between(zone: str, before: datetime, after: datetime) -> datetime:
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
        if offset(zone, middle) == offset(zone, before):
            before = middle
        else:
            after = middle
    return after


def changes_between(zone: str, since: datetime, until: datetime) -> list[datetime]:
    """List the changes from *since* until *until*, both included."""
    listed = changes(zone)
    return listed[bisect_left(listed, since) : bisect_right(listed, until)]


def move(zone: str, change: datetime) -> timedelta:
    """Return how far the clock goes forward at a change; less than nothing for back."""
    return offset(zone, change) - offset(zone, change - timedelta(seconds=1))


def largest_move(zone: str, since: datetime, until: datetime) -> timedelta:
    """Return how far a clock goes forward or back within a day of that time, at most."""
    near = changes_between(zone, since - DAY, until + DAY)
    return max((abs(move(zone, change)) for change in near), default=timedelta())
