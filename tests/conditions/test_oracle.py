"""
Conditions against two oracles, over generated conditions and documents.

``model.py`` is MongoDB's documented meaning as a page of Python. It is compared without exception.

mongomock is somebody else's reading of MongoDB. It is compared where it follows the server; these
gaps of mongomock 4.3 are kept out of what it is asked:

* ``True == 1`` in Python, while MongoDB's bool is no number: no 0 or 1 among the numbers.
* ``{"$gte": null}`` and ``{"$lte": null}`` hold of a missing field in MongoDB, as ``$eq`` does, and
  not in mongomock: no null beside a range operator.
* ``{"$all": []}`` holds of nothing in MongoDB, of a missing field in mongomock, and
  ``{"$all": [null]}`` is ``$eq`` null in MongoDB, false of a missing field in mongomock: no empty
  list, no null in it.
* ``$size`` is of arrays alone; in mongomock a scalar has size 1: sizes from 2.
* ``$mod`` and ``{"$type": "null"}`` are missing from mongomock.
* Behind an array of objects ``$all`` raises, ``$type`` looks at the list of what was found,
  ``{"$exists": false}`` holds if one element lacks the field, and operators beside each other are
  asked of one element: there stands one operator, none of these.
* ``$elemMatch`` takes an element that is an array as a whole in MongoDB, and mongomock looks into
  it: no arrays in arrays.
* A path that runs into a scalar ends in a missing value in MongoDB; one that runs into an array
  without objects ends in nothing, which is not even missing. mongomock decides by operator.
  Documents for it have an object wherever a path goes on.

mongoquery 1.4 was weighed and left out: it raises on ``$mod`` and ``$in`` of a missing field, and
does not take a missing field for null.

``PGWHEN_CASES`` / 10 examples are tried; each is a batch of 50 cases, decided in one round trip.
Hypothesis draws one seed for a batch, so that a batch is made as fast as it is decided; instead of
a shrunk batch, the shortest case of it that fails is told.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mongomock.filtering import filter_applies

from tests.support import CASES

from . import model

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    import psycopg

Json = Any
Case = tuple[dict[str, Json], dict[str, Json]]
"""A condition and a document."""

BATCH = 50

batches = settings(max_examples=max(1, CASES // 10), phases=[Phase.generate])
seeds = st.randoms(use_true_random=True)


def compare(
    session: psycopg.Connection, cases: list[Case], oracle: Callable[[Json, Json], Any]
) -> None:
    """Fail with the shortest case of which *oracle* says something else than the database."""
    rows = session.execute(
        """
        select pgwhen.matches(c.pair -> 0, c.pair -> 1, as_of => %s)
        from jsonb_array_elements(%s) with ordinality as c (pair, place)
        order by c.place
        """,
        [model.EPOCH, json.dumps(cases)],
    ).fetchall()
    quarrels = [
        json.dumps(case)
        for case, (holds,) in zip(cases, rows, strict=True)
        if holds is not bool(oracle(*case))
    ]
    assert not quarrels, min(quarrels, key=len)


def logic(random: Random, clause: Callable[[], dict[str, Json]], depth: int) -> dict[str, Json]:
    """Return a clause, with *depth* chances of $and, $or and $nor around or beside it."""
    made = clause()
    for _ in range(depth):
        if random.random() < 0.4:
            listed = [made, *(clause() for _ in range(random.randrange(2)))]
            made = {random.choice(["$and", "$or", "$nor"]): listed}
        elif random.random() < 0.2:
            made = made | clause()
    return made


# Anything that is JSON, however odd where a path goes ------------------------------------------

SCALARS: list[Json] = [None, True, False, 0, 1, 2, 1.0, 1.5, -3, "", "a", "ab", "1"]
MOMENTS: list[Json] = [
    "2024-03-31T12:00:00Z",
    "2024-03-31",
    "2024-03-31T19:00:00+07:00",
    "2024-03-31T13:00:00+07:00",
]
TYPES = ["string", "number", "bool", "null", "object", "array"]
PATTERNS = ["^a", "b$", "a|1", ".", "^$", "[^a]"]
COMPARISONS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]


def any_value(random: Random, depth: int = 3) -> Json:
    """Return a scalar, or an array or object of what is one less deep."""
    shape = random.random()
    if shape < 0.2 and depth:
        return [any_value(random, depth - 1) for _ in range(random.randrange(4))]
    if shape < 0.45 and depth:
        return any_object(random, depth - 1)
    return random.choice(SCALARS + MOMENTS)


def any_object(random: Random, depth: int = 3) -> dict[str, Json]:
    """Return an object of up to three fields."""
    return {name: any_value(random, depth) for name in random.sample("abc", random.randrange(4))}


def any_field(random: Random) -> str:
    """Return a path of one to three steps."""
    return ".".join(random.choice("abc") for _ in range(random.choice([1, 1, 2, 2, 3])))


def any_scalars(random: Random) -> list[Json]:
    """Return up to three scalars."""
    return random.choices(SCALARS, k=random.randrange(4))


def any_clause(random: Random, root: str = "user.", depth: int = 2) -> dict[str, Json]:
    """Return one field with what stands beside it."""
    predicate = random.choice(SCALARS) if random.random() < 0.2 else any_operators(random, depth)
    return {root + any_field(random): predicate}


def any_operators(random: Random, depth: int) -> dict[str, Json]:
    """Return one operator, or two beside each other."""
    operators = any_operator(random, depth)
    return operators if random.random() < 0.7 else operators | any_operator(random, depth)


def any_operator(random: Random, depth: int) -> dict[str, Json]:
    """Return one operator with its operand; $not and $elemMatch need depth."""
    name = random.choice(
        [*COMPARISONS, "$in", "$nin", "$all", "$exists", "$type", "$regex", "$size", "$mod"]
        + ["$not", "$elemMatch", "$elemMatch"] * (depth > 0)
    )
    if name == "$elemMatch" and random.random() < 0.5:
        return {name: any_clause(random, "", depth - 1)}
    if name in ("$not", "$elemMatch"):
        return {name: any_operators(random, depth - 1)}
    operands: dict[str, Callable[[], Json]] = {
        "$exists": lambda: random.random() < 0.5,
        "$type": lambda: random.choice([*TYPES, random.sample(TYPES, 2)]),
        "$regex": lambda: random.choice(PATTERNS),
        "$size": lambda: random.randrange(4),
        "$mod": lambda: [random.choice([2, 3, -2]), random.randint(-1, 1)],
    }
    if name in operands:
        return {name: operands[name]()}
    if name in COMPARISONS:
        return {name: random.choice([*SCALARS, *MOMENTS, {"$now": 0}, {"$now": -43200}])}
    return {name: any_scalars(random)}


@batches
@given(seeds)
def test_model(session: psycopg.Connection, random: Random) -> None:
    """A condition means what MongoDB documents, whatever the document."""

    def condition() -> dict[str, Json]:
        made = logic(random, lambda: any_clause(random), 2)
        return {"$not": made} if random.random() < 0.1 else made

    compare(
        session, [(condition(), {"user": any_object(random)}) for _ in range(BATCH)], model.matches
    )


# What mongomock can be asked ------------------------------------------------------------------

DEFINITE: list[Json] = [True, False, 2, 3, 2.0, 2.5, -3, "", "abcd", "bcde", "2222"]
PLAIN = [None, *DEFINITE]


def plain_value(random: Random) -> Json:
    """Return a scalar or an array of scalars."""
    if random.random() < 0.3:
        return random.choices(PLAIN, k=random.randrange(4))
    return random.choice(PLAIN)


def plain_object(random: Random) -> dict[str, Json]:
    """Return an object of up to two fields."""
    return {name: plain_value(random) for name in random.sample("xy", random.randrange(3))}


def plain_user(random: Random) -> dict[str, Json]:
    """Return attributes, some missing, with objects wherever a path of plain_clause goes on."""
    user = {
        "x": plain_value(random),
        "o": plain_object(random),
        "deep": {"o": plain_object(random)} if random.random() < 0.8 else {},
        "list": [plain_object(random) for _ in range(random.randint(1, 3))],
    }
    return {name: value for name, value in user.items() if random.random() < 0.8}


def plain_clause(random: Random) -> dict[str, Json]:
    """Return one field with what stands beside it, of what mongomock knows there."""
    kind = random.random()
    if kind < 0.2:
        field, predicate = random.choice(["list.x", "list.y"]), listed_operator(random)
    elif kind < 0.4:
        inner = {name: listed_operator(random) for name in random.sample("xy", 2)}
        field, predicate = "list", {"$elemMatch": inner}
    else:
        field = random.choice(["x", "o.x", "o.y", "deep.o.x"])
        predicate = plain_operator(random) | plain_operator(random)
        if random.random() < 0.3:
            predicate = {"$not": predicate}
    return {f"user.{field}": predicate}


def listed_operator(random: Random) -> dict[str, Json]:
    """Return an operator that mongomock knows behind an array of objects."""
    name = random.choice([*COMPARISONS, "$in", "$nin", "$regex"])
    if name == "$regex":
        return {name: random.choice(["^a", "d$", "a|2", ".", "^$", "[^a]"])}
    if name in ("$in", "$nin"):
        return {name: random.choices(PLAIN, k=random.randrange(4))}
    return {name: random.choice(PLAIN if name in ("$eq", "$ne") else DEFINITE)}


def plain_operator(random: Random) -> dict[str, Json]:
    """Return any operator that mongomock knows."""
    name = random.choice(["$exists", "$all", "$type", "$size", "$elemMatch", "", "", "", ""])
    operands: dict[str, Callable[[], Json]] = {
        "$exists": lambda: random.random() < 0.5,
        "$all": lambda: random.choices(DEFINITE, k=random.randint(1, 3)),
        "$type": lambda: random.choice(["string", "number", "bool", "array"]),
        "$size": lambda: random.randint(2, 3),
        "$elemMatch": lambda: {random.choice(["$gt", "$lte"]): random.choice(DEFINITE)},
    }
    return {name: operands[name]()} if name else listed_operator(random)


@batches
@given(seeds)
def test_mongomock(session: psycopg.Connection, random: Random) -> None:
    """A condition means what mongomock takes it to mean, where mongomock follows MongoDB."""

    def condition() -> dict[str, Json]:
        return logic(random, lambda: plain_clause(random), 2)

    compare(
        session, [(condition(), {"user": plain_user(random)}) for _ in range(BATCH)], filter_applies
    )
