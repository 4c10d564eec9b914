"""docs/delays.md: what it shows is what pgwhen takes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.support import ROOT

if TYPE_CHECKING:
    from tests.support import Database

PAGE = (ROOT / "docs" / "delays.md").read_text(encoding="utf-8")


def test_rules_can_be_saved(db: Database) -> None:
    """The SQL on the page runs as it stands."""
    (statement,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    saved = db.connect().execute(statement.encode())
    assert saved.rowcount == 2


@pytest.mark.parametrize("shown", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_examples_have_no_fault(db: Database, shown: str) -> None:
    """The delays on the page are delays."""
    faults = "select to_json(_pgwhen.delay_faults(%s, ''))"
    assert db.connect().execute(faults, [shown]).fetchone() == ([],)


def test_every_key_is_explained(db: Database) -> None:
    """None is left out."""
    row = db.connect().execute("select _pgwhen.delay_schema()").fetchone()
    assert row is not None
    for key in row[0]["properties"]:
        assert key in PAGE


def test_table_tells_the_truth(db: Database) -> None:
    """Each row of the table is what due_at() says."""
    conn = db.connect()
    rows = re.findall(
        r"^\| `(20\S+)` \| `(.*?)` \| (\S+) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE
    )
    assert rows
    for value, offset, zone, there, in_utc in rows:
        due = conn.execute(
            "select to_char(d.due at time zone z.zone, 'FMDD FMMonth HH24:MI')"
            " from _pgwhen.due_at(_pgwhen.compiled_delay(%s), '-infinity', %s, %s) as d (due),"
            " unnest(array[%s, 'UTC']) as z (zone)",
            [
                json.dumps({"until": {"field": "event.at", "offset": offset}}),
                json.dumps(value), zone, zone,
            ],
        )  # fmt: skip
        assert due.fetchall() == [(there,), (in_utc,)]
