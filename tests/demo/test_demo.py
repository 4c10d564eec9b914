"""The demo: that it says what happened, and that its independent count is independent."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen import demo
from pgwhen.demo import Tally
from pgwhen.embedded import Server
from tests.support import Database, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CUSTOMERS = 300
shop = demo.example("replay")
counter = demo.example("count")
COUNTS = sorted(demo.EXAMPLE.parent.glob("*/count.py"))


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Yield the directory of a small demo that has run; other users can reach it."""
    path = Path(tempfile.mkdtemp(prefix="pgwhen-test-"))
    path.chmod(0o711)
    yield path / "demo"
    Server(path / "demo").stop()
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def output(directory: Path) -> str:
    """Return what the small demo printed."""
    done = subprocess.run(
        [*command(directory), "--customers", str(CUSTOMERS)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PGWHEN_DSN": "host=/nowhere", "PGHOST": "/nowhere", "PGPORT": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def command(directory: Path) -> list[str]:
    """Return the beginning of a command line."""
    return [sys.executable, "-m", "pgwhen", "demo", "--dir", str(directory)]


def test_small_demo_agrees_with_the_count(output: str) -> None:
    for rule, count in counter.expected(customers=CUSTOMERS).items():
        row = re.search(rf"^{rule} +\w+ +(.+)  ", output, re.MULTILINE)
        assert row is not None, output
        numbers = [f"{n:,}" for verdict in demo.VERDICTS for n in [count[verdict]] * 2]
        assert row[1].split() == numbers
    assert "all counts agree" in output
    assert "DIFFERENT" not in output


@pytest.mark.usefixtures("output")
def test_stops_its_server(directory: Path) -> None:
    assert not Server(directory).running


@pytest.mark.usefixtures("output")
def test_delivers_every_message(directory: Path) -> None:
    messages = sum(
        count["fired"]
        for rule, count in counter.expected(customers=CUSTOMERS).items()
        if rule != "third purchase"
    )
    log = (directory / "listener.log").read_text()
    assert len(re.findall(r"log_message: to \d{4}: ", log)) == messages


def test_names_an_event_whose_explanation_is_the_limit(output: str, directory: Path) -> None:
    (query,) = re.findall(r"^ +(select \* from pgwhen\.explain.*);$", output, re.MULTILINE)
    server = Server(directory)
    with demo.started(server), demo.connected(server) as conn:
        rows = conn.execute(query.encode()).fetchall()
    assert [(gate, verdict) for gate, verdict, *_ in rows if verdict == "stop"] == [
        ("frequency", "stop")
    ]


def test_refuses_to_open_what_never_ran(directory: Path) -> None:
    done = subprocess.run(
        [*command(directory.with_name("none")), "--open"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no demo in" in done.stderr


@contextmanager
def opened(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Bring the demo back, as `pgwhen demo --open` does, and wait until it says so."""
    with subprocess.Popen(
        [*command(directory), "--open"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            while "trigger_log" not in process.stdout.readline():
                assert process.poll() is None
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


@pytest.mark.usefixtures("output")
def test_opens_what_the_last_run_left(directory: Path) -> None:
    server = Server(directory)
    with opened(directory) as process, psycopg.connect(server.conninfo, autocommit=True) as conn:
        conn.execute(
            "insert into pgwhen.line_user (user_id, attributes)"
            " values ('me', jsonb_build_object('purchases', 1))"
        )
        wait_until(
            conn,
            "select count(*) = 2 from pgwhen.trigger_log"
            " where user_id = 'me' and status = 'success'",
        )
    assert process.returncode == 130
    assert not server.running


def test_fails_at_once_when_its_listener_ends(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(directory.with_name("no-listener"))
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with pytest.raises(demo.DemoError, match="the listener ended with status 1"):
        demo.run(server, customers=10)
    assert not server.running


def test_counts_differ_where_a_rule_does(capsys: pytest.CaptureFixture[str]) -> None:
    third, other = "third purchase", "other"
    wanted = {
        third: {"fired": 2, "suppressed": 0, "condition_false": 0},
        other: {"fired": 3, "suppressed": 1, "condition_false": 7},
    }
    right = {
        third: Tally("once", 0, {"success": 2}),
        other: Tally("always", 7, {"success": 2, "failed": 1, "suppressed": 1}),
    }
    assert demo.compare(right, 2, wanted) == 0
    assert "DIFFERENT" not in capsys.readouterr().out
    assert demo.compare(right, 1, wanted) == 1
    for wrong in (
        right | {other: Tally("always", 7, {"success": 2, "suppressed": 1})},
        right | {other: Tally("always", 7, {"success": 3})},
        right | {other: Tally("always", 8, {"success": 3, "suppressed": 1})},
        right | {"unexpected": Tally("once", 0, {"success": 1})},
        {other: right[other]},
    ):
        capsys.readouterr()
        assert demo.compare(wrong, 2, wanted) == 1
        assert "DIFFERENT" in capsys.readouterr().out


def test_gives_up_when_nothing_moves(db: Database) -> None:
    conn = db.connect()
    conn.execute("select pgwhen.emit('nobody_listens', 'U1')")
    looks: list[tuple[int, int]] = []
    with pytest.raises(demo.DemoError, match="nothing has moved"):
        demo.wait(conn, lambda events, actions: looks.append((events, actions)), patience=0)
    assert set(looks) == {(1, 0)}


@pytest.mark.parametrize("count", COUNTS, ids=lambda file: file.parent.name)
def test_count_imports_nothing_of_pgwhen(count: Path) -> None:
    tree = ast.parse(count.read_text())
    imported = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    plain = {
        "__future__",
        "argparse",
        "collections",
        "csv",
        "datetime",
        "decimal",
        "pathlib",
        "typing",
    }
    assert imported <= plain


def test_count_of_a_file_that_can_be_counted_by_hand(tmp_path: Path) -> None:
    """One customer: 1 and 2 January, 8 January for 50, 30 July; another one once, for 500."""
    file = tmp_path / "purchases.txt"
    file.write_text(
        "9 0001 19970101 1 49.99\n"
        "9 0001 19970102 1 0.00\n"
        "9 0001 19970108 1 50.01\n"
        "9 0001 19970708 1 50.00\n"
        "8 0002 19970101 1 500.00\n"
    )
    assert counter.expected(file) == {
        rule: dict(zip(("fired", "suppressed", "condition_false"), counts, strict=True))
        for rule, counts in {
            "welcome": (2, 0, 0),
            "third purchase": (1, 0, 0),
            "spent 100": (2, 0, 0),
            "spent 500": (1, 0, 0),
            "thank you": (4, 1, 0),
            "big basket": (3, 0, 2),
            "back again": (1, 0, 4),
        }.items()
    }


def attributes(conn: psycopg.Connection) -> Sequence[tuple[object, ...]]:
    """Return every user and what is known of them."""
    return conn.execute(
        "select user_id, attributes from pgwhen.line_user order by user_id"
    ).fetchall()


def test_an_interrupted_replay_goes_on_where_the_database_stands(db: Database) -> None:
    conn = db.connect()
    purchases = shop.read_purchases(customers=40)

    def fall_over(_day: str, done: int) -> None:
        if done > len(purchases) / 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        shop.replay(conn, purchases, fall_over)
    assert len(purchases) / 2 < shop.booked(conn) < len(purchases)
    shop.replay(conn, purchases)
    resumed, events = attributes(conn), demo.remaining(conn)
    conn.execute("truncate pgwhen.line_user, _pgwhen.outbox")
    shop.replay(conn, purchases)
    assert (attributes(conn), demo.remaining(conn)) == (resumed, events)


def test_the_shop_knows_what_its_customers_spent(db: Database) -> None:
    conn = db.connect()
    shop.replay(conn, shop.read_purchases(customers=40))
    rows = conn.execute(
        "select count(*), sum((attributes -> 'purchases')::integer),"
        " sum((attributes -> 'total_spent')::numeric)::text from pgwhen.line_user"
    ).fetchone()
    lines = [line.split() for line in (demo.EXAMPLE / "cdnow_sample.txt").read_text().splitlines()]
    mine = [line for line in lines if line[1] <= "0040"]
    cents = sum(int(line[4].replace(".", "")) for line in mine)
    assert rows == (40, len(mine), f"{cents // 100}.{cents % 100:02}")
