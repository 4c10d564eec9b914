"""
Nothing that is JSON makes a schedule fail.

A source_config without a fault compiles, and then comes to a run, whatever the instant; one with
faults has them with a place, a hint and a code, and nothing else goes wrong.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support import CASES

if TYPE_CHECKING:
    from random import Random

    import psycopg

Json = Any

BATCH = 50

batches = settings(max_examples=max(1, CASES // 10), phases=[Phase.generate])
seeds = st.randoms(use_true_random=True)

# fmt: off
KEYS = [
    "at", "cron", "every", "anchor", "timezone", "dst", "start", "end", "jitter", "overlap",
    "catchUp", "audience", "condition", "log", "gap", "policy", "window", "cap", "", "AT", "ชื่อ",
]
SCALARS: list[Json] = [
    None, True, False, 0, 1, -1, 1.5, 60, 10**30, 1e300, 1e-300, "", " ", "x" * 2000, "%s", "ก",
    "🎉", "\n", "\x01", "NaN", "infinity", "-infinity", "now", "today", "epoch", "skip", "first",
    "none", "last", "all", "2024-02-30", "2024-02-29", "2024-01-01T10:00:00Z",
    "2024-06-30T23:59:60Z",
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+00", "9999-12-31T23:59:59-12:00",
    "2026-03-29T02:30", "1 day", "-1 day", "1.5 months", "P1Y2M", "P", "1 fortnight", "1-2",
    "12:00", "1e3 seconds", "99999999999 years", "178000000 years", "2147483647 days",
    "UTC", "Europe/Berlin", "Asia/Bangkok", "Pacific/Apia", "Foo/Bar", "posix/UTC", "CET", "a b",
]
TOKENS = [
    "*", "*", "0", "5", "31", "32", "60", "99", "007", "L", "LW", "5L", "5#2", "5#9", "MON", "jan",
    "1-5", "5-1", "*/5", "*/0", "1-9/2", "/", "-", ",", "#", "?", "1,2,3", "@daily", "@", "15W",
    "٣", "\u017fun", "\t", "\u00a0", "--", "1--2", "*/*", "**", "18446744073709551616",
]
# fmt: on


def any_value(random: Random, depth: int = 2) -> Json:
    """Return a value that stands somewhere in a schedule, or nowhere."""
    shape = random.random()
    if shape < 0.6 or not depth:
        return random.choice(SCALARS)
    if shape < 0.8:
        return any_cron(random)
    if shape < 0.85:
        return [any_value(random, depth - 1)]
    return {random.choice(KEYS): any_value(random, depth - 1) for _ in range(random.randrange(3))}


def any_cron(random: Random) -> str:
    """Return tokens of cron expressions, five as a rule, joined by what may join them."""
    count = 5 if random.random() < 0.8 else random.randrange(8)
    return random.choice([" ", " ", " ", ""]).join(random.choice(TOKENS) for _ in range(count))


def any_schedule(random: Random) -> Json:
    """Return a schedule with something odd about it, as a rule."""
    kind = random.choice(["at", "cron", "every", "every"])
    made = {kind: any_cron(random) if kind == "cron" else random.choice(SCALARS)}
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        made[random.choice(KEYS)] = any_value(random)
    return made if random.random() < 0.95 else any_value(random)


@batches
@given(seeds)
def test_any_schedule(session: psycopg.Connection, random: Random) -> None:
    """Whatever the schedule, there is either a fault or a run."""
    cases = [any_schedule(random) for _ in range(BATCH)]
    rows = session.execute(
        """
        select
            f.faults,
            case when f.faults = '{}' then array(
                select _pgwhen.next_run(_pgwhen.compiled_schedule(c.source), a.after)
                from unnest(%s::timestamptz[]) as a (after)
            ) end
        from jsonb_array_elements(%s) with ordinality as c (source, place)
        cross join lateral (
            select array(
                select f.path || f.message || f.hint || f.code
                from unnest(_pgwhen.schedule_faults(c.source, 'source_config')) as f
            )
        ) as f (faults)
        order by c.place
        """,
        [["-infinity", "2026-03-29 01:10Z", "9998-12-31Z", "infinity"], json.dumps(cases)],
    ).fetchall()
    for case, (faults, runs) in zip(cases, rows, strict=True):
        assert None not in faults, case
        assert faults or runs[0] is not None, case
