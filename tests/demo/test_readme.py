"""The README: what it shows is what happens, and what it names is there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen.settings import Settings
from tests.support import ROOT, Database, psql, wait_until

if TYPE_CHECKING:
    from pathlib import Path

README = (ROOT / "README.md").read_text(encoding="utf-8")
SCREEN = README.split("\n\n## ", 1)[0]
BLOCKS = dict(re.findall(r"```(\w+)\n(.*?)```", SCREEN, re.DOTALL))


def table(header: str) -> list[list[str]]:
    """Return the cells of the table whose first line begins with *header*."""
    lines = README[README.index(header) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_first_screen_is_forty_lines() -> None:
    screen, rest = README.split("\n\n## ", 1)
    assert len(screen.splitlines()) <= 40
    assert all(command in screen for command in ("`make run`", "`make test`"))
    assert "make run" not in rest
    assert len(BLOCKS["sql"].splitlines()) == 8
    assert len(BLOCKS["python"].splitlines()) == 6


def test_sql_gives_the_rows_that_are_shown(db: Database, tmp_path: Path) -> None:
    script = tmp_path / "readme.sql"
    script.write_text(BLOCKS["sql"])
    done = psql(db, "-P", "footer=off", "-f", str(script))
    assert done.returncode == 0, done.stderr
    shown = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    assert "\n".join(shown) == BLOCKS["text"].strip("\n")
    assert 'nobody serves the action type "greet"' in done.stderr


def test_handler_serves_what_the_sql_left_waiting(db: Database, tmp_path: Path) -> None:
    handlers = tmp_path / "handlers.py"
    handlers.write_text(BLOCKS["python"])
    assert psql(db, input=BLOCKS["sql"]).returncode == 0
    command = [sys.executable, "-u", "-m", "pgwhen", "run", str(handlers)]
    with subprocess.Popen(
        command, env=db.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as listener:
        try:
            wait_until(
                db.connect(),
                "select count(*) = 1 from pgwhen.trigger_log"
                " where action_type = 'greet' and status = 'success'",
            )
        finally:
            listener.terminate()
        output, errors = listener.communicate(timeout=30)
    assert listener.returncode == 0, errors
    assert re.fullmatch(r"Thank you, ann \([0-9a-f]{8}-[0-9a-f]{4}-8[-0-9a-f]+\)\n", output)


def test_explain_line_answers(db: Database) -> None:
    assert psql(db, input=BLOCKS["sql"]).returncode == 0
    (query,) = re.findall(r"^    (select \* from pgwhen\.explain.*)$", README, re.MULTILINE)
    done = psql(db, "-c", query)
    assert done.returncode == 0, done.stderr
    assert "once_per_day" in done.stdout


@pytest.mark.parametrize("condition", re.findall(r'`(\{"user\.points.*?\})`', README, re.DOTALL))
def test_condition_is_one_and_true_of_whom_it_means(db: Database, condition: str) -> None:
    facts = (
        """{"user": {"points": 100, "last_purchase": "2020-01-01"}, "event": {"old": "silver"}}"""
    )
    rows = db.connect().execute(
        "select pgwhen.matches(%s::jsonb, %s::jsonb, '2026-01-01')", (condition, facts)
    )
    assert rows.fetchone() == (True,)


def test_emit_call_emits(db: Database) -> None:
    (call,) = re.findall(r"`(pgwhen\.emit\(.*?\))`", README)
    conn = db.connect()
    conn.execute(f"select {call}".encode())
    assert conn.execute("select type, user_id from pgwhen.event").fetchall() == [
        ("order_paid", "ann")
    ]


def test_what_is_not_in_this_version_is_refused(db: Database) -> None:
    with pytest.raises(psycopg.Error, match="not served by this version") as refused:
        db.connect().execute(
            "insert into pgwhen.trigger_rule"
            " (name, source_type, source_config, action_type, action_config)"
            """ values ('later', 'schedule', '{"cron": "0 9 * * 1"}', 'log_message',"""
            """ '{"text": "Monday"}')"""
        )
    assert refused.value.diag.message_hint


def test_names_every_setting_with_its_default(db: Database) -> None:
    row = db.connect().execute("select _pgwhen.default_settings()").fetchone()
    assert row is not None
    defaults = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in row[0].items()
    }
    shown: dict[str, str] = {}
    for names, default, _ in table("| name | default | |\n|---|---|---|\n| `batchSize`"):
        found = re.findall(r"`(\w+)`", names)
        values = default.removesuffix(" days").split(", ")
        unit = " days" if default.endswith(" days") else ""
        shown |= {name: value + unit for name, value in zip(found, values, strict=True)}
    assert shown == defaults


def test_names_every_variable_with_its_default() -> None:
    shown = {
        name.strip("`"): default
        for name, default, _ in table("| name | default | |\n|---|---|---|\n| `PGWHEN_DSN`")
    }
    assert shown.keys() == {f"PGWHEN_{setting.name.upper()}" for setting in fields(Settings)}
    default = Settings()
    for name in ("pool_size", "max_in_flight", "threads", "grace", "statement_timeout"):
        assert float(shown[f"PGWHEN_{name.upper()}"]) == getattr(default, name)
    assert shown["PGWHEN_LOG_LEVEL"].upper() == default.log_level


def test_names_every_role(db: Database) -> None:
    rows = db.connect().execute(
        "select distinct p.grantee::regrole::text"
        " from pg_namespace as n cross join aclexplode(n.nspacl) as p"
        " where n.nspname = 'pgwhen' and p.grantee <> n.nspowner"
    )
    assert {name.strip("`") for name, _ in table("| role | can |")} == {row[0] for row in rows}


def test_names_views_that_are_there(db: Database) -> None:
    names = re.findall(
        r"`(\w+)`", README[README.index("the views") : README.index("and `pgwhen tail`")]
    )
    assert len(names) > 3
    for name in names:
        db.connect().execute(f"select from pgwhen.{name}".encode())


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
