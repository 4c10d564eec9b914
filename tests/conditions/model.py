"""
What MongoDB's query language means, as a page of Python.

Written from the documented behaviour and the server's own order of things: a path *emits* the
values that it leads to, once per array element on the way, and a leaf holds when any emitted value
satisfies it. It knows nothing of SQL, so that agreement with it means something. Slow, for tests.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = Any

MISSING = object()
"""What a path emits that ends nowhere. It equals null and nothing else."""

EPOCH = datetime(2024, 3, 31, 12, tzinfo=timezone.utc)
"""The moment that ``{"$now": seconds}`` counts from, unless a caller says otherwise."""

NEGATIONS = {"$ne": "$eq", "$nin": "$in"}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda value, operand: value == operand,
    "$gt": lambda value, operand: value > operand,
    "$gte": lambda value, operand: value >= operand,
    "$lt": lambda value, operand: value < operand,
    "$lte": lambda value, operand: value <= operand,
}
FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


def matches(
    condition: dict[str, Json],
    document: dict[str, Json],
    now: datetime = EPOCH,
    audiences: frozenset[str] = frozenset(),
) -> bool:
    """Tell whether *condition* holds of *document*."""

    def sub(clause: dict[str, Json]) -> bool:
        return matches(clause, document, now, audiences)

    def holds(name: str, operand: Json) -> bool:
        if name == "$and":
            return all(map(sub, operand))
        if name == "$or":
            return any(map(sub, operand))
        if name == "$nor":
            return not any(map(sub, operand))
        if name == "$not":
            return not sub(operand)
        if name == "$audience":
            return operand in audiences
        return _beside_field(operand, list(_emitted(document, name.split("."))), now)

    return all(holds(name, operand) for name, operand in condition.items())


def _emitted(item: dict[str, Json], parts: list[str]) -> Iterator[Json]:
    head, *rest = parts
    value = item.get(head, MISSING)
    if not rest or value is MISSING:
        yield value
    elif isinstance(value, dict):
        yield from _emitted(value, rest)
    elif isinstance(value, list):
        for element in value:
            if isinstance(element, dict):
                yield from _emitted(element, rest)
    else:
        yield MISSING


def _beside_field(predicate: Json, wholes: list[Json], now: datetime) -> bool:
    """*wholes*: emitted values, arrays not yet looked into."""
    operators = predicate if isinstance(predicate, dict) else {"$eq": predicate}
    looked_into = [
        value for whole in wholes for value in (*(whole if isinstance(whole, list) else ()), whole)
    ]
    return _operators(operators, looked_into, wholes, now)


def _operators(
    operators: dict[str, Json], values: list[Json], wholes: list[Json], now: datetime
) -> bool:
    def holds(name: str, operand: Json) -> bool:
        if name in NEGATIONS:
            return not holds(NEGATIONS[name], operand)
        if name == "$not":
            return not _operators(operand, values, wholes, now)
        if name == "$exists":
            return bool(operand) == any(value is not MISSING for value in values)
        if name == "$all":
            return bool(operand) and all(holds("$eq", each) for each in operand)
        if name in ("$size", "$elemMatch"):
            return any(isinstance(w, list) and _array(name, operand, w, now) for w in wholes)
        return any(_single(name, operand, operators, value, now) for value in values)

    return all(holds(name, operand) for name, operand in operators.items() if name != "$options")


def _array(name: str, operand: Json, array: list[Json], now: datetime) -> bool:
    if name == "$size":
        return bool(len(array) == operand)
    if any(key.startswith("$") and key not in ("$and", "$or", "$nor") for key in operand):
        return any(_operators(operand, [element], [element], now) for element in array)
    return any(matches(operand, e, now) for e in array if isinstance(e, dict))


def _single(
    name: str, operand: Json, operators: dict[str, Json], value: Json, now: datetime
) -> bool:
    if name == "$in":
        return any(_compare("$eq", value, each, now) for each in operand)
    if name == "$type":
        return _type(value) in (operand if isinstance(operand, list) else [operand])
    if name == "$regex":
        flags = re.RegexFlag(0)
        for letter in operators.get("$options", ""):
            flags |= FLAGS[letter]
        return isinstance(value, str) and re.search(operand, value, flags) is not None
    if name == "$mod":
        divisor, remainder = operand
        return _type(value) == "number" and _remainder(int(value), divisor) == remainder
    return _compare(name, value, operand, now)


def _remainder(dividend: int, divisor: int) -> int:
    size = abs(dividend) % abs(divisor)
    return size if dividend >= 0 else -size


def _compare(name: str, value: Json, operand: Json, now: datetime) -> bool:
    if isinstance(operand, dict):
        instant = _instant(value)
        moment = now + timedelta(seconds=operand["$now"])
        return instant is not None and COMPARISONS[name](instant, moment)
    if operand is None:
        return (value is None or value is MISSING) and name in ("$eq", "$gte", "$lte")
    return (
        _type(value) == _type(operand)
        and not isinstance(value, (dict, list))
        and COMPARISONS[name](value, operand)
    )


def _type(value: Json) -> str:
    kinds = {str: "string", bool: "bool", int: "number", float: "number", dict: "object"}
    if value is None:
        return "null"
    return kinds.get(type(value), "array" if isinstance(value, list) else "missing")


def _instant(value: Json) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        instant = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)
