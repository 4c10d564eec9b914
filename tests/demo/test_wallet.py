"""The example that credits wallets: small, and what its totals rest on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen.embedded import Server
from pgwhen.testing import run, run_twice
from tests.demo.checklist import unmet_points
from tests.support import ROOT, import_from

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support import Database

EXAMPLE = ROOT / "examples" / "wallet"
LINES, COPIES = 60, 3

counter, front, handlers, totals = import_from(EXAMPLE, "count", "front", "handlers", "totals")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory for a server; other users can reach it."""
    path = Path(tempfile.mkdtemp(prefix="pgwhen-test-"))
    path.chmod(0o711)
    yield path / "wallet"
    Server(path / "wallet").stop()
    shutil.rmtree(path)


def test_small_run_agrees_with_the_count(directory: Path) -> None:
    options = {"lines": LINES, "copies": COPIES, "dir": directory}
    done = subprocess.run(
        [sys.executable, EXAMPLE / "run.py", *(f"--{name}={to}" for name, to in options.items())],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = counter.expected_totals(LINES, COPIES)
    for name, number in wanted.items():
        row = re.search(rf"^{name} +(\d.*)$", done.stdout, re.MULTILINE)
        assert row is not None, done.stdout
        assert set(row[1].split()) == {f"{number:,}"}
    assert {"AccountFrozen", "LimitExceeded", "NoSuchWallet"} == {
        name.removeprefix("refused: ") for name in wanted if name.startswith("refused: ")
    }
    assert "all counts agree, and each of 30 balances" in done.stdout
    assert not Server(directory).running


# The count, by hand -------------------------------------------------------------------------

FILES = {
    "wallets.csv": [
        {"wallet_id": "W-1", "owner": "A", "limit_baht": "500.00", "frozen": "no"},
        {"wallet_id": "W-2", "owner": "B", "limit_baht": "500.00", "frozen": "yes"},
    ],
    "top_ups.csv": [
        {"transaction_id": id_, "wallet_id": wallet, "amount_baht": baht}
        for id_, wallet, baht in [
            ("T-1", "W-1", "500.00"),
            ("T-2", "W-1", "500.01"),
            ("T-1", "W-1", "500.00"),
            ("T-3", "W-1", "0.07"),
            ("T-4", "W-2", "1.00"),
            ("T-5", "W-3", "1.00"),
        ]
    ],
}


def test_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "read", FILES.__getitem__)
    assert counter.expected_wallets() == {
        "W-1": counter.Wallet(2, 50007),
        "W-2": counter.Wallet(0, 0),
    }
    assert counter.expected_totals(copies=3) == {
        "requests": 6 * 3 * 2 * 3,
        # Three without a key for each of six lines, one with it for each of five payments.
        "actions": 3 * (6 * 3 + 5),
        "done": 3 * (3 * 3 + 2),
        # The two of T-1 and the one of T-3, both odd.
        "done by Python, tried again": 2 * (3 * 3 + 2),
        "receipts, of actions": 2 * (3 * 3 + 2),
        "refused: LimitExceeded": 3 * 4,
        "refused: AccountFrozen": 3 * 4,
        "refused: NoSuchWallet": 3 * 4,
        "ledger entries": 2,
        "satang in all wallets": 50007,
    }


# The schema, and the page -------------------------------------------------------------------


@pytest.fixture
def shop(db: Database) -> Iterator[psycopg.Connection]:
    """Yield a session whose transaction has the example's schema and wallets; it is rolled back.

    For roles belong to the cluster, and would outlive the database.
    """
    conn = db.connect(autocommit=False)
    conn.execute((EXAMPLE / "schema.sql").read_bytes())
    front.open_wallets(conn)
    yield conn
    conn.rollback()


def test_ledger_refuses_a_second_entry_of_a_type(shop: psycopg.Connection) -> None:
    entry = (
        "insert into shop.ledger_entry"
        " (transaction_id, entry_type, wallet_id, amount_satang, made_by)"
        " values ('T-1', %s, 'W-1001', 100, 'hand')"
    )
    shop.execute(entry, ["credit"])
    shop.execute(entry, ["fee"])
    with pytest.raises(psycopg.errors.UniqueViolation):
        shop.execute(entry, ["credit"])


# The handlers, the second time --------------------------------------------------------------

TOP_UP = {"transactionId": "T-2", "amountSatang": 100}


def entries(shop: psycopg.Connection) -> list[tuple[str, int]]:
    """Return the ledger."""
    return shop.execute(b"select wallet_id, amount_satang from shop.ledger_entry").fetchall()


def test_credit_twice_is_one_entry(
    shop: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = SimpleNamespace(connection=lambda: nullcontext(shop))
    monkeypatch.setattr(handlers, "pool", lambda: pool)
    lost = run(handlers.credit_wallet, TOP_UP, user_id="W-1001")
    assert lost.error_type == "ConnectionError"
    again = run_twice(
        handlers.credit_wallet, TOP_UP, user_id="W-1001", attempt=2, state=lambda: entries(shop)
    )
    assert again.value == {"balanceSatang": 100}
    assert entries(shop) == [("W-1001", 100)]


def test_joined_credit_twice_is_one_entry(shop: psycopg.Connection) -> None:
    again = run_twice(
        handlers.credit_wallet_joined,
        TOP_UP,
        user_id="W-1001",
        connection=shop,
        state=lambda: entries(shop),
    )
    assert again.value == {"balanceSatang": 100}
    assert entries(shop) == [("W-1001", 100)]


def test_joined_credit_writes_before_it_fails(shop: psycopg.Connection) -> None:
    """What it has written is pgwhen's to roll back."""
    config = {**TOP_UP, "transactionId": "T-1"}
    lost = run(handlers.credit_wallet_joined, config, user_id="W-1001", connection=shop)
    assert lost.error_type == "ConnectionError"
    assert entries(shop) == [("W-1001", 100)]


def test_handlers_meet_the_checklist() -> None:
    """But for a timeout of the joined one, which waits for nothing but its connection."""
    (point,) = unmet_points(EXAMPLE / "handlers.py")
    assert point.startswith("cannot tell  timeout")


def test_page_can_be_asked(shop: psycopg.Connection) -> None:
    """The SQL of the README runs as it stands."""
    (page,) = re.findall(r"```sql\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    for statement in page.split(";\n"):
        shop.execute(statement.encode())


# The comparison -----------------------------------------------------------------------------

WANTED = Counter({"actions": 4, "done": 4, "ledger entries": 1})
ENTITLED = {"W-1": counter.Wallet(1, 500), "W-2": counter.Wallet(0, 0)}


def test_accounts_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert totals.compare(WANTED, WANTED, ENTITLED, ENTITLED) == 0
    assert "all counts agree, and each of 2 balances" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("found", "has"),
    [
        (Counter({"actions": 4, "done": 3, "failed: 23505": 1, "ledger entries": 1}), ENTITLED),
        (Counter({"actions": 4, "done": 4, "ledger entries": 2}), ENTITLED),
        (WANTED, ENTITLED | {"W-1": counter.Wallet(1, 501)}),
        (WANTED, ENTITLED | {"W-1": counter.Wallet(0, 0), "W-2": counter.Wallet(1, 500)}),
        (WANTED, {"W-1": counter.Wallet(1, 500)}),
    ],
    ids=["unexpected-error", "entry-too-many", "wrong-balance", "to-another", "wallet-missing"],
)
def test_accounts_differ(
    found: Counter[str], has: dict[str, tuple[int, int]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert totals.compare(found, WANTED, has, ENTITLED) > 0
    assert "DIFFERENT" in capsys.readouterr().out
