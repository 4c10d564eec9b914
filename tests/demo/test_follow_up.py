"""The example that follows purchases up: small, in real time, and what its totals rest on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen.embedded import Server
from tests.support import ROOT, import_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import Database

EXAMPLE = ROOT / "examples" / "follow_up"
CUSTOMERS, DAYS = 200, 4


counter, shop, totals, example = import_from(EXAMPLE, "count", "shop", "totals", "run")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory for a server; other users can reach it."""
    path = Path(tempfile.mkdtemp(prefix="pgwhen-test-"))
    path.chmod(0o711)
    yield path / "follow-up"
    Server(path / "follow-up").stop()
    shutil.rmtree(path)


def run(directory: Path, day: float) -> subprocess.CompletedProcess[str]:
    """Run the example small."""
    options = {"customers": CUSTOMERS, "days": DAYS, "day": day, "dir": directory}
    return subprocess.run(
        [sys.executable, EXAMPLE / "run.py", *(f"--{name}={to}" for name, to in options.items())],
        capture_output=True,
        text=True,
        check=False,
    )


def test_small_run_agrees_with_the_count(directory: Path) -> None:
    """A machine that was too slow for short days is given longer ones, not other totals."""
    done = run(directory, 1.5)
    if "too slow to tell" in done.stdout:
        done = run(directory, 4)
    assert done.returncode == 0, done.stdout + done.stderr
    wanted: Counter[str] = sum(counter.expected(CUSTOMERS, DAYS).values(), Counter())
    for name in counter.COUNTS:
        row = re.search(rf"^{name} +(\d.*)$", done.stdout, re.MULTILINE)
        assert row is not None, done.stdout
        assert set(row[1].split()) == {f"{wanted[name]:,}"}
        assert wanted[name] > 0
    assert f"all counts agree, for each of {CUSTOMERS} customers" in done.stdout
    assert not Server(directory).running


def bought(*days: int, cds: int = 1) -> list[tuple[date, int]]:
    """Return purchases on these days; the first is of so many CDs, the others of three."""
    return [
        (date(1997, 1, 1) + timedelta(day), 3 if place else cds) for place, day in enumerate(days)
    ]


@pytest.mark.parametrize(
    ("purchases", "sent", "replaced"),
    [
        (bought(0), 1, 0),
        (bought(0, 0), 1, 1),
        (bought(0, 2), 1, 1),
        (bought(0, 3), 2, 0),
        (bought(0, 1, 4), 1, 2),
        (bought(0, 4), 2, 0),
        (bought(0, 9, 10), 2, 0),
    ],
    ids=["once", "same-day", "two-days", "three-and-a-half", "two-and-a-half", "four", "cut"],
)
def test_follow_ups_counted_by_hand(
    purchases: list[tuple[date, int]], sent: int, replaced: int
) -> None:
    counts = counter.of_customer(purchases, 10)
    assert (counts["follow-ups sent"], counts["follow-ups replaced"]) == (sent, replaced)


@pytest.mark.parametrize(
    ("cds", "wanted"),
    [
        (1, {"offers sent": 1, "offers not clicked": 1, "offers sent again": 1}),
        (2, {"offers sent": 1, "offers clicked": 1}),
        (
            3,
            {
                "offers sent": 1,
                "offers not clicked": 1,
                "offers sent again": 1,
                "offers clicked late": 1,
            },
        ),
    ],
    ids=["never", "in-time", "late"],
)
def test_offers_counted_by_hand(cds: int, wanted: dict[str, int]) -> None:
    counts = counter.of_customer(bought(0, cds=cds), 10)
    assert {name: n for name, n in counts.items() if name.startswith("offers")} == wanted


def test_nothing_in_the_shop_is_close_to_what_it_decides() -> None:
    """Neither a purchase to the end of three days, nor a click to the send or its 24 hours."""
    for customer, purchases in shop.purchases().items():
        done = sorted(shop.first_days(customer, purchases, counter.DAYS))
        buys = [step.at for step in done if step.statement == shop.BUY]
        clicks = [step.at for step in done if step.statement == shop.CLICK]
        assert all(abs(then - now - 3) >= shop.MARGIN for now, then in pairwise(buys))
        assert all(min(at, abs(at - 1)) >= shop.MARGIN for at in clicks)


def test_shop_takes_the_customers_that_are_counted() -> None:
    steps = shop.steps(CUSTOMERS, DAYS)
    wanted = counter.expected(CUSTOMERS, DAYS)
    assert {step.customer for step in steps} == wanted.keys()
    purchases = Counter(step.customer for step in steps if step.statement == shop.BUY)
    assert purchases == {
        name: counts["follow-ups sent"] + counts["follow-ups replaced"]
        for name, counts in wanted.items()
    }


def test_only_the_times_of_the_rules_are_scaled(db: Database) -> None:
    conn = db.connect()
    conn.execute((EXAMPLE / "rules.sql").read_bytes())
    configs = "select name, action_config from pgwhen.trigger_rule order by name"
    before: dict[str, Any] = dict(conn.execute(configs.encode()).fetchall())
    conn.execute(example.SCALE.encode(), [4.0])
    after: dict[str, Any] = dict(conn.execute(configs.encode()).fetchall())
    assert before["follow up"]["delay"].pop("seconds") == 3 * 86400
    assert after["follow up"]["delay"].pop("seconds") == 3 * 4
    assert before["offer"]["delay"].pop("expiresSeconds") == 86400
    assert after["offer"]["delay"].pop("expiresSeconds") == 4
    assert after == before


def test_page_can_be_asked(db: Database) -> None:
    """The SQL of the README runs as it stands."""
    conn = db.connect()
    conn.execute((EXAMPLE / "rules.sql").read_bytes())
    (page,) = re.findall(r"```sql\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    for statement in page.split(";\n"):
        conn.execute(statement.encode())


WANTED = {"0001": counter.of_customer(bought(0, 2, cds=3), 10)}
MESSAGES = {
    "0001": Counter({"follow-ups sent": 1, "offers sent": 1, "offers sent again": 1}),
}


def test_accounts_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert totals.compare(WANTED, MESSAGES, WANTED) == 0
    assert "all counts agree, for each of 1 customers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tables", "messages"),
    [
        ({}, MESSAGES),
        (WANTED, {}),
        ({"0001": WANTED["0001"] + Counter(["unexpected"])}, MESSAGES),
        (WANTED, {"0001": MESSAGES["0001"] + Counter(["offers sent again"])}),
        ({"0002": WANTED["0001"]}, {"0002": MESSAGES["0001"]}),
    ],
    ids=["nothing-logged", "nothing-delivered", "unexpected", "delivered-twice", "to-another"],
)
def test_accounts_differ(
    tables: dict[str, Counter[str]],
    messages: dict[str, Counter[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert totals.compare(tables, messages, WANTED) > 0
    assert "DIFFERENT" in capsys.readouterr().out
