"""docs/races.md has each pair, and a test for each that can meet."""

from __future__ import annotations

import ast
import re
from itertools import combinations_with_replacement
from pathlib import Path

from tests.support import ROOT

HERE = Path(__file__).parent
WORDS = [
    "click", "expiry", "cancel", "claim", "re-evaluation", "recovery", "acknowledgement", "retry",
    "pause", "disable", "wait", "heartbeat",
]  # fmt: skip
PAGE = (ROOT / "docs" / "races.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\S+) × (\S+) \|(.*)\|$", re.MULTILINE)
TEST = re.compile(r"\b(test_\w+\.py)::(test_\w+)`")


def rows() -> list[tuple[tuple[str, str], str]]:
    """List the pairs of the page, each with the rest of its row."""
    return [((one, other), rest) for one, other, rest in ROW.findall(PAGE)]


def list_tests(file: Path) -> set[tuple[str, str]]:
    """Return the tests in *file*."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        (file.name, node.name)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_pair_stands_there_once() -> None:
    """Sixty-six pairs, and two of each."""
    assert sorted(pair for pair, _ in rows()) == sorted(combinations_with_replacement(WORDS, 2))


def test_each_pair_has_a_test_or_a_reason() -> None:
    """Who is not said to be unable to meet is seen to meet."""
    without = [
        pair
        for pair, rest in rows()
        if not TEST.search(rest)
        and "cannot meet" not in rest
        and not ("…" in rest and {"pause", "disable"} & {*pair})
    ]
    assert without == []


def test_each_test_exists() -> None:
    """Tests are renamed; the page follows."""
    there = {test for file in HERE.glob("test_*.py") for test in list_tests(file)}
    assert set(TEST.findall(PAGE)) - there == set()


def test_the_page_knows_the_tests_that_are_there_for_it() -> None:
    """A pair that somebody has found to meet stands on the page."""
    for_it = list_tests(HERE / "test_races.py") | list_tests(HERE / "test_switches.py")
    assert for_it - set(TEST.findall(PAGE)) == set()
