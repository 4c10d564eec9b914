"""JSON as jsonb may hold it, read with more patience than Python has."""

from __future__ import annotations

import json
import logging
import sys
from decimal import Decimal
from typing import Any

log = logging.getLogger(__name__)

#: Levels of nesting that are still read; from Python 3.12 on its own limit is lower, some 10,000.
DEEPEST = 50_000
#: Digits of a whole number that Python is willing to read.
LONGEST = 4_000
#: Stands for what even so cannot be read.
UNREADABLE = object()


def loads(text: str | bytes) -> Any:
    """Read JSON that is nested deeper, and has longer numbers, than Python likes.

    Raises RecursionError for what is nested deeper than DEEPEST.
    """
    if isinstance(text, bytes):
        text = text.decode()  # json.loads would look for the encoding first
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        usual = sys.getrecursionlimit()
        sys.setrecursionlimit(DEEPEST)
        try:
            return json.loads(text, parse_int=_whole_number)
        finally:
            sys.setrecursionlimit(usual)


def loads_if_readable(text: str | bytes) -> Any:
    """Read JSON for one of many: what cannot be read is UNREADABLE, and harms no other."""
    try:
        return loads(text)
    except RecursionError:
        log.error("JSON cannot be read: nested too deep")  # noqa: TRY400
        return UNREADABLE


def _whole_number(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < LONGEST else Decimal(digits)
