"""docs/coming-from-worker-go.md: every name of pgwhen's on it exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import Database

PAGE = (ROOT / "docs" / "coming-from-worker-go.md").read_text(encoding="utf-8")

#: The keys of a delay, from its schema: those of objects in it too.
NAMES = """
with recursive key (name, schema) as (
    select 'delay', _pgwhen.delay_schema()
    union all
    select k.key, k.value
    from key
    cross join lateral jsonb_each(key.schema -> 'properties') as k
)
select name from key
union
select jsonb_object_keys(_pgwhen.default_settings())
union
select c.relname from pg_class as c where c.relnamespace = 'pgwhen'::regnamespace
union
select a.attname
from pg_attribute as a
inner join pg_class as c on c.oid = a.attrelid
where c.relnamespace = 'pgwhen'::regnamespace and c.relkind in ('r', 'p', 'v') and a.attnum > 0
union
select r.rolname from pg_roles as r where r.rolname like 'pgwhen%%'
"""
QUALIFIED = """
select
    exists (
        select from pg_proc as p
        where p.pronamespace = %(schema)s::regnamespace and p.proname = %(name)s
    ),
    exists (
        select from pg_class as c
        where c.relnamespace = %(schema)s::regnamespace and c.relname = %(name)s
    )
"""


def ours() -> Iterator[str]:
    """Yield what the page says in code; the first cells of its tables are about worker-go."""
    for line in PAGE.splitlines():
        text = line.split("|", 2)[2] if line.startswith("|") else line
        yield from re.findall(r"`([^`]+)`", text)


OURS = sorted(set(ours()))


@pytest.fixture(scope="module")
def sources() -> str:
    """Return all SQL and Python of pgwhen."""
    files = [*(ROOT / "sql").rglob("*.sql"), *(ROOT / "listener" / "pgwhen").glob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def test_page_names_what_there_is(db: Database, sources: str) -> None:
    """A function, relation, column, setting or key; else a word that the sources have in quotes."""
    conn = db.connect()
    known = {row[0] for row in conn.execute(NAMES.encode())}
    unknown = []
    for name in OURS:
        if qualified := re.fullmatch(r"(_?pgwhen)\.(\w+)(\(\))?", name):
            schema, bare, called = qualified.groups()
            row = conn.execute(QUALIFIED.encode(), {"schema": schema, "name": bare}).fetchone()
            is_there = row is not None and row[0 if called else 1]
        elif name.startswith("PW"):
            is_there = f"'{name}'" in sources
        elif command := re.fullmatch(r"pgwhen (\w+)", name):
            is_there = (ROOT / "listener" / "pgwhen" / f"{command[1]}.py").exists()
        elif "/" in name:
            is_there = (ROOT / name).exists()
        elif " " in name:
            is_there = name in sources
        else:
            is_there = set(name.split(".")) <= known or re.search(f"['\"]{name}['\"]", sources)
        if not is_there:
            unknown.append(name)
    assert unknown == []


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", PAGE))))
def test_page_links_to_what_there_is(link: str) -> None:
    assert (ROOT / "docs" / link).exists()


@pytest.mark.parametrize(
    "name",
    [
        "ScheduleAction", "ProcessDueActions", "recoverStaleProcessing", "claimBatch",
        "processAction", "handleExpired", "updateStatus", "getLineUser", "TriggerExecutor",
        "EvaluateConditions", "ExecuteAction", "ScheduledActionScannerService",
        "ActionSchedulerService", "ProcessScheduledActionFire", "handleScheduledActionExpired",
        "runTriggerWorker", "checkAndCompleteDelayWait", "scheduled_action_fire", "action_execute",
        "Redis", "RabbitMQ", "batchSize", "maxRetries", "staleProcessingMinute", "sourceConfig",
        "waitForTracking",
    ],
)  # fmt: skip
def test_page_has_each_name_of_the_go_worker(name: str) -> None:
    """In the first cell of a row, whose second cell says what does it here."""
    rows = re.findall(r"^\|([^|]*)\|([^|]*)\|", PAGE, re.MULTILINE)
    assert any(name in there and here.strip() for there, here in rows)
