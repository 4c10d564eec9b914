"""Runs every pgTAP file below this directory: one file, one transaction, one test."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support import Database, psql

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
FILES = sorted(str(file.relative_to(HERE)) for file in HERE.rglob("*.sql"))

PLAN = re.compile(r"1\.\.(\d+)")
RESULT = re.compile(r"(not )?ok \d+( .*)?")
EXCUSED = re.compile(r"#\s*(todo|skip)\b", re.IGNORECASE)


@dataclass
class Tap:
    """What a TAP stream said: how many tests were *planned*, how many *ran*, which *failed*."""

    planned: int | None = None
    ran: int = 0
    failed: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, text: str) -> Tap:
        """Read a TAP stream; a failed test that is marked TODO counts as passed."""
        tap = cls()
        for line in text.splitlines():
            if plan := PLAN.fullmatch(line):
                tap.planned = int(plan[1])
            elif result := RESULT.fullmatch(line):
                tap.ran += 1
                if result[1] and not EXCUSED.search(line):
                    tap.failed.append(line)
        return tap

    @property
    def good(self) -> bool:
        """Whether something was planned, all of it ran, and none of it failed."""
        return bool(self.planned) and self.planned == self.ran and not self.failed


@pytest.fixture(scope="session")
def tap_database(create: Callable[..., Database], template: Database) -> Database:
    """Return the database in which pgTAP files run, one after the other."""
    database = create(template.name)
    with psycopg.connect(database.conninfo, autocommit=True) as conn:
        conn.execute("create extension pgtap")
        conn.execute("create extension plpgsql_check")
    return database


@pytest.mark.parametrize("file", FILES)
def test_file(file: str, tap_database: Database) -> None:
    """A pgTAP file runs to its end, as many tests as it planned, all of them ok."""
    run = psql(tap_database, "-At", "-f", str(HERE / file))
    tap = Tap.read(run.stdout)
    if run.returncode or not tap.good:
        pytest.fail(f"{tap}\n{run.stdout}\n{run.stderr}", pytrace=False)


@pytest.mark.parametrize(
    ("stream", "good"),
    [
        ("1..2\nok 1 - a\nok 2 - b\n", True),
        ("1..1\nnot ok 1 - a # TODO later\n", True),
        ("1..1\nnot ok 1 - a\n", False),
        ("1..2\nok 1 - a\n", False),
        ("1..1\nok 1 - a\nok 2 - b\n", False),
        ("ok 1 - a\n", False),
        ("1..0\n", False),
        ("", False),
    ],
)
def test_reader(stream: str, *, good: bool) -> None:
    """A stream is good only with a plan that was kept and no failure."""
    assert Tap.read(stream).good is good


def test_every_public_function_has_a_test(template: Database) -> None:
    """No function of schema pgwhen is missing from them; a procedure, which commits, cannot be."""
    texts = [(HERE / file).read_text() for file in FILES if file != "contract.sql"]
    with psycopg.connect(template.conninfo) as conn:
        names = conn.execute(
            "select distinct proname from pg_proc"
            " where pronamespace = 'pgwhen'::regnamespace and prokind = 'f'"
        ).fetchall()

    untested = [n for (n,) in names if not any(f"pgwhen.{n}(" in text for text in texts)]
    assert untested == []
