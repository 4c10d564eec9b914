r"""
Regular expressions against Python's, over generated expressions and texts.

Python's ``re`` with ASCII classes means what PCRE means for all that is generated here. The two
differ in ``^`` with option m behind a last newline, in ``\B`` of an empty text (until Python 3.14)
and in ``\Z`` and ``\z``: those stand in ``tests/conditions.json``.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support import CASES

from .model import FLAGS

if TYPE_CHECKING:
    from random import Random

    import psycopg

BATCH = 50

ATOMS = [
    "a",
    "b",
    "A",
    "1",
    "_",
    "-",
    "[ #]",
    "\\#",
    "ก",
    ".",
    "\\d",
    "\\D",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
]
ATOMS += [
    "[ab]",
    "[^a]",
    "[^\\n]",
    "[\\d_]",
    "[a-c-]",
    "[]a]",
    "[^]a]",
    "\\.",
    "\\-",
    "\\\\",
    "\\n",
]
ANCHORS = ["^", "$", "\\b", "\\B", "\\A"]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "??"]
TEXTS = "aabbA1_- .#]\\\nก"


def pattern(random: Random, gaps: list[str], depth: int = 2) -> str:
    """Return one to three pieces with *gaps* between them, or two such in alternation."""
    if depth and random.random() < 0.2:
        return f"{pattern(random, gaps, depth - 1)}|{pattern(random, gaps, depth - 1)}"
    pieces = (piece(random, gaps, depth) for _ in range(random.randint(1, 3)))
    return "".join(made + random.choice(gaps) for made in pieces)


def piece(random: Random, gaps: list[str], depth: int) -> str:
    """Return an anchor, or an atom or a group with or without a quantifier."""
    if random.random() < 0.2:
        return random.choice(ANCHORS)
    made = random.choice(ATOMS)
    if depth and random.random() < 0.3:
        made = f"{random.choice(['(', '(?:'])}{pattern(random, gaps, depth - 1)})"
    return made + random.choice(QUANTIFIERS) if random.random() < 0.3 else made


@settings(max_examples=max(1, CASES // 10), phases=[Phase.generate])
@given(st.randoms(use_true_random=True))
def test_regex(session: psycopg.Connection, random: Random) -> None:
    """A regular expression finds what it finds elsewhere."""
    cases = []
    for _ in range(BATCH):
        options = "".join(letter for letter in "imsx" if random.random() < 0.3)
        text = random.choice("ab1- ") + "".join(random.choices(TEXTS, k=random.randrange(6)))
        gaps = ["", " ", "\t# a|b)\n"] if "x" in options else ["", "", " ", "#"]
        expression = pattern(random, gaps)
        cases.append((expression, options, text.rstrip("\n") if "m" in options else text))
    rows = session.execute(
        """
        select pgwhen.matches(
            jsonb_build_object(
                'user.a', jsonb_build_object('$regex', c.example -> 0, '$options', c.example -> 1)
            ),
            jsonb_build_object('user', jsonb_build_object('a', c.example -> 2))
        )
        from jsonb_array_elements(%s) with ordinality as c (example, place)
        order by c.place
        """,
        [json.dumps(cases)],
    ).fetchall()
    quarrels = []
    for (expression, options, text), (found,) in zip(cases, rows, strict=True):
        flags = re.ASCII
        for letter in options:
            flags |= FLAGS[letter]
        if found is not bool(re.search(expression, text, flags)):
            quarrels.append(repr((expression, options, text)))
    assert not quarrels, min(quarrels, key=len)
