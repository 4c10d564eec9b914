"""Spans of time as handlers declare them: seconds, or a timedelta."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

#: Seconds, as the database takes them.
SHORTEST = 0.001
LONGEST = 315_360_000


def seconds(span: Any) -> Any:
    """Return *span* in seconds; what is no timedelta, as it is."""
    return span.total_seconds() if isinstance(span, timedelta) else span


def fits(value: Any, least: float, most: float) -> bool:
    """Whether *value* is None or a number between the bounds, which NaN is not."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value is None or (is_number and least <= value <= most)
