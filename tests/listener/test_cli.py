"""The commands that look: status and tail."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from psycopg.rows import dict_row

from pgwhen.cli import main
from pgwhen.tail import Follower

from .conftest import Shop

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database


@pytest.fixture
def pgwhen(db: Database) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs `pgwhen` with some arguments."""

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pgwhen", *args],
            env={**db.env, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_status_says_what_to_do(
    pgwhen: Callable[..., subprocess.CompletedProcess[str]], shop: Shop
) -> None:
    """A type that nobody serves is named, with the remedy below it."""
    shop.rule("nobody_serves_this")
    told = pgwhen("status")

    assert told.returncode == 0
    lines = told.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if "nobody_serves_this" in line)
    assert lines[at + 1].lstrip().startswith("-> ")


@pytest.mark.parametrize("command", ["status", "tail"])
def test_looking_where_nothing_is(
    pgwhen: Callable[..., subprocess.CompletedProcess[str]], empty_db: Database, command: str
) -> None:
    """No server, or no pgwhen there: one line that says so, and a status."""
    away = pgwhen(command, PGHOST="/nowhere")
    bare = pgwhen(command, PGDATABASE=empty_db.name)

    assert (away.returncode, bare.returncode) == (1, 1)
    assert away.stderr.startswith("pgwhen: ")
    assert 'schema "pgwhen" does not exist' in bare.stderr
    assert "hint: Is pgwhen of this version deployed here?" in bare.stderr
    assert "Traceback" not in away.stderr + bare.stderr


def test_bad_setting_and_bad_source_are_told(
    pgwhen: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """The command line shows words and hint, not a traceback."""
    setting = pgwhen("run", PGWHEN_THREADS="none")
    source = pgwhen("run", "no_such_module_at_all")

    assert (setting.returncode, source.returncode) == (1, 1)
    assert "PGWHEN_THREADS=none cannot be used\nhint: Give it a number from 1" in setting.stderr
    assert "cannot import no_such_module_at_all: ModuleNotFoundError" in source.stderr
    assert "Traceback" not in setting.stderr + source.stderr


def test_command_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage names those that do."""
    with pytest.raises(SystemExit):
        main(["frobnicate"])

    assert "invalid choice: 'frobnicate'" in capsys.readouterr().err


def log(shop: Shop, user: str) -> None:
    """Write an outcome, as the engine does."""
    shop.conn.execute(
        "insert into pgwhen.trigger_log (created_date, line_oa_id, user_id, action_type, status)"
        " values (clock_timestamp(), 'default', %s, 'hello', 'success')",
        [user],
    )


def test_tail_shows_outcomes_as_they_come(shop: Shop, db: Database) -> None:
    """One line each, with the rule, until it is interrupted."""
    shop.rule("add_to_audience", {"audience": "a"}, form="join")
    log(shop, "before\n")
    tail = subprocess.Popen(
        [sys.executable, "-m", "pgwhen", "tail"], env=db.env, stdout=subprocess.PIPE, text=True
    )
    assert tail.stdout is not None
    with tail, tail.stdout:
        assert tail.stdout.readline()[9:] == "success    hello for before\\n\n"
        shop.submit("join")
        shop.conn.execute("select pgwhen.tick()")
        assert tail.stdout.readline()[9:] == (
            "success    add_to_audience for u1 by rule join, on form_submitted:join\n"
        )
        tail.send_signal(signal.SIGINT)
        assert tail.wait(10) == 0


def test_tail_misses_nothing_that_commits_late(
    shop: Shop, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that got its id first and commits last is shown, and every row once."""
    monkeypatch.setattr("pgwhen.tail.LOOK", 0.0)
    monkeypatch.setattr("pgwhen.tail.PAGE", 3)
    follower = Follower()
    late = db.connect(autocommit=False)
    reader = cast("psycopg.Connection[dict[str, Any]]", db.connect(row_factory=dict_row))

    def look() -> list[str]:
        return [row["user_id"] for row in follower.look(reader)]

    log(Shop(late), "late")
    log(shop, "a")
    assert look() == ["a"]
    assert look() == []
    late.commit()
    log(shop, "b")
    assert look() == ["late", "b"]
    for user in "cdefg":
        log(shop, user)
    assert [user for _ in range(5) for user in look()] == list("cdefg")
