"""
Nothing that is JSON makes a condition fail: neither as a document nor as a condition.

A condition without a fault compiles, and then is true or false of whatever document; a condition
with one has faults with a place, a hint and a code, and nothing else goes wrong.
"""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
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
OPERATORS = [
    "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$exists", "$type", "$regex",
    "$options", "$all", "$size", "$mod", "$elemMatch", "$not",
]
NAMES = [
    *OPERATORS,
    "$and", "$or", "$nor", "$audience", "$now", "$where", "$", "user.a", "user.a.b", "event.type",
    "event.data.a", "user", "user.", ".a", "a", "user.a.0", "tier", "user.it's",
    'user.say "hi"', "user.\\", "user.$v0", "user.ชื่อ", "user.🎉", "user.\n",
]
SCALARS: list[Json] = [
    None, True, False, 0, 1, -1, 1.5, 10**30, 1e300, "", "a", "x" * 20, "-7 days", "2024-02-30",
    "2024-01-01T10:00:00Z", "string", "i", "(", "(?=a)", "^a.[b-d]\\d$", "[", "\\", "$v0", '"',
    "' or 1 = 1", "%s", "ก", "🎉", "\n", "infinity", "user", "gold members",
]
# fmt: on


def any_json(random: Random, depth: int = 5) -> Json:
    """Return what a program might send that knows the words and not the grammar."""
    shape = random.random()
    if shape < 0.4 or not depth:
        return random.choice(SCALARS)
    if shape < 0.6:
        return [any_json(random, depth - 1) for _ in range(random.randrange(4))]
    names = random.sample(NAMES, random.choice([0, 1, 1, 1, 2]))
    return {name: any_json(random, depth - 1) for name in names}


def any_condition(random: Random) -> Json:
    """Return mostly an object that begins like a condition."""
    if random.random() < 0.1:
        return any_json(random)
    field = random.choice(["user.a", "user.b.c", "event.data.a", "user.🎉", "$nor"])
    operator = random.choice(OPERATORS)
    nearly = {
        field: random.choice([{operator: any_json(random, 2)}, [{"user.a": any_json(random)}]])
    }
    return nearly if random.random() < 0.8 else nearly | {random.choice(NAMES): any_json(random, 3)}


@batches
@given(seeds)
def test_conditions(session: psycopg.Connection, random: Random) -> None:
    """A condition has faults or holds, or does not hold, of any document."""
    cases = [(any_condition(random), any_json(random)) for _ in range(BATCH)]
    rows = session.execute(
        """
        select c.pair::text, case
            when not exists (select from _pgwhen.condition_faults(c.pair -> 0)) then (
                select _pgwhen.holds(
                    d.path, d.vars, d.needs, c.pair -> 1, '2024-03-31 12:00Z', array['gold members']
                ) is not null
                from _pgwhen.compile_condition(c.pair -> 0) as d
            )
            else true
        end
        from jsonb_array_elements(%s) as c (pair)
        """,
        [json.dumps(cases)],
    ).fetchall()
    for case, is_decided in rows:
        assert is_decided, case


@batches
@given(seeds)
def test_faults(session: psycopg.Connection, random: Random) -> None:
    """A fault has a place below the condition, a message, a hint and a code of its own class."""
    rows = session.execute(
        """
        select f.*
        from jsonb_array_elements(%s) as c (condition)
        cross join lateral _pgwhen.condition_faults(c.condition, 'here') as f
        """,
        [json.dumps([any_condition(random) for _ in range(BATCH)])],
    ).fetchall()
    for place, message, hint, code in rows:
        assert place.startswith("here")
        assert message
        assert hint[-1] in ".?"
        assert code.startswith("PW10")


# Times ----------------------------------------------------------------------------------------

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FORMS = ["T%H:%M:%S.%f", "t%H:%M:%S.%f", " %H:%M:%S.%f"]
SHAPE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(?:[Zz]|[+-](\d\d)(?::?(\d\d))?)?)?",
    re.ASCII,
)


def is_time(text: str) -> bool:
    """Tell whether *text* is a date, or a time with at most 15:59 between it and UTC."""
    shape = SHAPE.fullmatch(text)
    if not shape:
        return False
    year, month, day, hour, minute, second, *offset = (int(part or 0) for part in shape.groups())
    try:
        datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    except ValueError:
        return False
    return second <= 60 and offset[0] <= 15 and offset[1] < 60


@batches
@given(seeds)
def test_instants(session: psycopg.Connection, random: Random) -> None:
    """Every RFC 3339 text is the instant that it is to Python, whatever the session's settings."""
    texts, epochs = [], []
    for _ in range(BATCH):
        minutes = random.randint(-15 * 60, 15 * 60)
        instant = datetime(1, 1, 2, tzinfo=timezone(timedelta(minutes=minutes))) + timedelta(
            days=random.randrange(3652055), microseconds=random.randrange(86_400_000_000)
        )
        date_and_time = instant.date().isoformat() + instant.strftime(random.choice(FORMS))
        hours, rest = divmod(abs(minutes), 60)
        colon = random.choice([":", ""])
        texts.append(f"{date_and_time}{'-' if minutes < 0 else '+'}{hours:02}{colon}{rest:02}")
        epochs.append(f"{(instant - EPOCH) // timedelta(microseconds=1)} microseconds")
    with session.transaction():
        session.execute("set local timezone = 'Asia/Bangkok'; set local datestyle = 'SQL, DMY'")
        wrong = session.execute(
            """
            select t.text
            from unnest(%s::text[], %s::text[]) as t (text, epoch)
            where _pgwhen.to_instant(t.text) is distinct from to_timestamp(0) + t.epoch::interval
            """,
            [texts, epochs],
        ).fetchall()
    assert not wrong


@batches
@given(seeds)
def test_no_instants(session: psycopg.Connection, random: Random) -> None:
    """A text that is nearly a time is one or is none, and never an error."""
    texts = []
    for _ in range(BATCH):
        letters = list("2024-02-29T23:59:59.123456+14:30")
        for _ in range(random.randrange(4)):
            letters[random.randrange(len(letters))] = random.choice(
                [*"0123456789-:.TZ +", "", "๑", "z", "00"]
            )
        texts.append("".join(letters)[: random.choice([10, 16, 19, 26, 40])])
    rows = session.execute(
        "select t, _pgwhen.to_instant(t) is not null from unnest(%s::text[]) as t", [texts]
    ).fetchall()
    assert not [text for text, is_instant in rows if is_instant != is_time(text)]
