"""docs/schedules.md: what it shows is what pgwhen takes, and does."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support import ROOT

if TYPE_CHECKING:
    import psycopg

PAGE = (ROOT / "docs" / "schedules.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("shown", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_examples_have_no_fault(session: psycopg.Connection, shown: str) -> None:
    """The schedules on the page are schedules."""
    faults = "select to_json(_pgwhen.schedule_faults(%s, ''))"
    assert session.execute(faults, [shown]).fetchone() == ([],)


def test_query_answers_as_shown(session: psycopg.Connection) -> None:
    """The query on the page returns the rows below it."""
    (query,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"\n```\n +local_time.*?\n-+\+-+\n(.*?)```", PAGE, re.DOTALL)
    rows = [f"{local} | {note or ''}".rstrip() for local, note in session.execute(query.encode())]
    assert rows == [line.strip() for line in shown.splitlines()]


def test_every_key_is_explained(session: psycopg.Connection) -> None:
    """None is left out."""
    row = session.execute("select _pgwhen.source_schema('schedule')").fetchone()
    assert row is not None
    for key in row[0]["properties"]:
        assert f"`{key}`" in PAGE or f'"{key}":' in PAGE, key


@pytest.mark.parametrize(
    ("said", "plain"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_macros_are_listed(session: psycopg.Connection, said: str, plain: str) -> None:
    """Each macro stands on the page with what it is short for."""
    same = "select _pgwhen.cron_parsed(%s) = _pgwhen.cron_parsed(%s)"
    assert session.execute(same, [said, plain]).fetchone() == (True,)
    assert f"`{said}`" in PAGE
    assert f"`{plain}`" in PAGE


def test_table_tells_the_truth(session: psycopg.Connection) -> None:
    """Each row of the table is what next_runs() says of that day."""
    table = re.findall(
        r"^\| `(.*?)` \| (\S+/\S+) \| (\S+) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE
    )
    assert len(table) > 5
    for cron, zone, day, there, in_utc in table:
        runs = session.execute(
            "select to_char(r.local_time, 'HH24:MI'),"
            " to_char(r.scheduled_at at time zone 'UTC', 'HH24:MI')"
            " from pgwhen.next_runs(source => %s, after => %s::timestamp at time zone %s"
            " - interval '1 second') as r where r.local_time::date = %s::date",
            [json.dumps({"cron": cron, "timezone": zone}), day, zone, day],
        ).fetchall()
        for column, told in enumerate([there, in_utc]):
            listed = told.split(", ")
            found = [run[column] for run in runs]
            if listed[-1] == "…":
                listed, found = listed[:-1], found[: len(listed) - 1]
            assert found == listed, (cron, zone, day)
