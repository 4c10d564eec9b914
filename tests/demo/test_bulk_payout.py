"""The example that pays salaries: whoever is killed, each of them is paid once."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgwhen import demo
from pgwhen.embedded import Server
from pgwhen.testing import run, run_twice, run_until_done
from tests.demo.checklist import unmet_points
from tests.support import ROOT, SOAK, import_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from tests.support import Database

EXAMPLE = ROOT / "examples" / "bulk_payout"
#: 250 payments a month at either of two banks; the third one has 20.
MONTHS, KILLS = (200, 60) if SOAK else (8, 6)
SEED = random.randrange(2**32) if SOAK else 1

teller, client, company, counter, handlers, processes, storms, totals = import_from(
    EXAMPLE, "bank", "bank_client", "company", "count", "handlers", "processes", "storm", "totals"
)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory for a server; other users can reach it."""
    path = Path(tempfile.mkdtemp(prefix="pgwhen-test-"))
    path.chmod(0o711)
    yield path / "payout"
    Server(path / "payout").stop()
    shutil.rmtree(path)


def row(name: str, output: str) -> list[int]:
    """Return the numbers of a row of the table: of the modern bank, the old, the evening's."""
    found = re.search(rf"^{name} +(\d.*)$", output, re.MULTILINE)
    assert found is not None, output
    return [int(number.replace(",", "")) for number in found[1].split()]


@pytest.mark.timeout(0 if SOAK else 300)
def test_each_payment_is_made_once_whoever_is_killed(directory: Path) -> None:
    """P2. By key, and by asking first; payrolls go on from the heartbeat, not from the beginning.

    The example itself fails unless kills have hit payrolls and transfers that were being made, all
    of which were tried again, and payrolls among them that went on after a payment.
    """
    options = {"months": MONTHS, "kills": KILLS, "seed": SEED, "dir": directory}
    done = subprocess.run(
        [sys.executable, EXAMPLE / "run.py", *(f"--{name}={to}" for name, to in options.items())],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"seed {SEED}\n{done.stdout}")
    assert done.returncode == 0, done.stdout + done.stderr
    wanted = [sum(counter.expected_book(bank, MONTHS).values()) for bank in counter.BANKS]
    assert wanted == [250 * MONTHS, 250 * MONTHS, 20 * MONTHS]
    assert row("payments due", done.stdout) == row("made once", done.stdout) == wanted
    assert row("made more than once", done.stdout) == [0, 0, 0]
    assert row("satang due", done.stdout) == row("satang booked", done.stdout)
    for misfortune in ("silent", "late", "twice", "lost", "busy"):
        modern, old, _ = row(totals.REQUESTS_AS[misfortune], done.stdout)
        assert modern > 0
        assert old > 0
    asked = row(totals.REQUESTS_AS["asked"], done.stdout)
    assert asked[0] == 0
    assert asked[1] > 0
    assert re.search(
        r"^\d+ payments are parked: the evening bank cannot say", done.stdout, re.MULTILINE
    )
    assert not Server(directory).running


# What makes a run fail -----------------------------------------------------------------------


def test_kills_must_find_work(db: Database) -> None:
    """A run in which all is done before the kills proves nothing, and says so."""
    bank = type("Bank", (), {"booked": lambda _: 5})()
    idle = type("Listener", (), {"check": lambda _: None, "worker": "nobody"})()
    kills = [storms.Kill(3, "modern", "listener")]
    with pytest.raises(demo.DemoError, match="all work is done"):
        storms.storm(db.connect(), idle, {"modern": bank}, kills)


def test_plan_kills_the_listener_at_either_bank_and_both_banks() -> None:
    planned = storms.plan(6, MONTHS, random.Random(2))
    assert Counter((kill.bank, kill.victim) for kill in planned) == {
        ("modern", "listener"): 2,
        ("modern", "modern"): 1,
        ("old", "listener"): 2,
        ("old", "old"): 1,
    }
    assert all(0 < kill.after < 250 * MONTHS for kill in planned)


def test_hits_must_be_followed_by_another_attempt(db: Database) -> None:
    conn = db.connect()
    [[action_id]] = conn.execute(b"select pgwhen.schedule_action('transfer', 'U1')").fetchall()
    hit = processes.Hit(action_id, "transfer", 1)
    assert totals.unscathed(conn, [hit]) == [hit]
    conn.execute(b"update pgwhen.scheduled_action set retry_count = 1")
    assert totals.unscathed(conn, [hit]) == []


def test_payrolls_that_begin_anew_do_not_count_as_going_on() -> None:
    hits = [processes.Hit(7, "bulk_payout", 1), processes.Hit(8, "bulk_payout", 3)]
    assert totals.went_on(hits, {(8, 4): 41, (7, 3): 12}) == [41]


def test_log_says_where_a_payroll_went_on() -> None:
    line = (
        "2026-12-01T04:11:20+0000 INFO    pgwhen.action.bulk_payout: resumes after payment 41 of"
        " 253 action=8 attempt=4 rule=None user=Bangkok"
    )
    assert processes.RESUMED.findall(line) == [("41", "8", "4")]


# The comparison ------------------------------------------------------------------------------

Book = Counter[tuple[str, str, int]]


def compare(books: dict[str, Book], refused: dict[str, set[str]]) -> int:
    """Compare for one month; the requests do not matter."""
    requests: dict[str, dict[str, int]] = {bank: {} for bank in counter.BANKS}
    differ: int = totals.compare(books, refused, requests, 1)
    return differ


def right() -> tuple[dict[str, Book], dict[str, set[str]]]:
    """Return books and refusals as they must be for one month."""
    return (
        {bank: counter.expected_book(bank, 1) for bank in counter.BANKS},
        {bank: counter.expected_refusals(bank, 1) for bank in counter.BANKS},
    )


def test_books_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(*right()) == 0
    assert "every payment was made exactly once" in capsys.readouterr().out


def twice(books: dict[str, Book], _: Any) -> None:
    books["old"][next(iter(books["old"]))] += 1


def never(books: dict[str, Book], _: Any) -> None:
    del books["modern"][next(iter(books["modern"]))]


def to_another(books: dict[str, Book], _: Any) -> None:
    (reference, _account, satang), *_ = books["evening"]
    del books["evening"][reference, _account, satang]
    books["evening"][reference, "000-0-00000-0", satang] += 1


def refused_too_many(_: Any, refused: dict[str, set[str]]) -> None:
    refused["old"].add("2026-01-E1260")


@pytest.mark.parametrize("spoil", [twice, never, to_another, refused_too_many])
def test_books_differ(
    spoil: Callable[[dict[str, Book], dict[str, set[str]]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    books, refused = right()
    spoil(books, refused)
    assert compare(books, refused) == 1
    assert "DIFFERENT" in capsys.readouterr().out


# The count, by hand --------------------------------------------------------------------------

STAFF = [
    {
        "employee_id": id_,
        "branch": branch,
        "account": id_ * 2,
        "salary_baht": baht,
        "account_is": is_,
    }
    for id_, branch, baht, is_ in [
        ("A", "Bangkok", "100.07", "open"),
        ("B", "Bangkok", "200.00", "closed"),
        ("C", "Phuket", "300.50", "open"),
    ]
]


def test_counted_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter, "read", lambda: STAFF)
    assert counter.periods(14)[11:] == ["2026-12", "2027-01", "2027-02"]
    assert counter.expected_book("modern", 2) == {
        ("2026-01-A", "AA", 10007): 1,
        ("2026-02-A", "AA", 10007): 1,
    }
    assert counter.expected_book("evening", 1) == {("2026-01-C", "CC", 30050): 1}
    assert counter.expected_book("old", 1) == {}
    assert counter.expected_refusals("modern", 2) == {"2026-01-B", "2026-02-B"}


# The bank ------------------------------------------------------------------------------------

ORDER = {"reference": "R", "account": "1", "satang": 5}


CLOSED = next(person["account"] for person in counter.read() if person["account_is"] == "closed")
KEY = "01234567-89ab-8def-8123-456789abcdef"


def meeting(fate: str, bank: str = "old") -> str:
    """Return a reference whose first request at a bank meets that fate, and the next ones none."""
    wanted = [fate, *["answered"] * 3]
    names = (f"R{number}" for number in range(100_000))
    return next(
        name
        for name in names
        if [teller.fate_of(name, number, teller.RARITY[bank]) for number in range(4)] == wanted
    )


@pytest.fixture
def founded(tmp_path: Path) -> Iterator[Callable[[str], Any]]:
    """Yield a function that opens a bank of a kind, each time with the book of before."""
    with ExitStack() as books:

        def found(kind: str) -> Any:
            bank = teller.Bank(kind, tmp_path / "book")
            books.callback(bank._book.close)
            return bank

        yield found


def book_of(bank: Any) -> list[tuple[Any, ...]]:
    """Return what is booked."""
    rows = bank._book.execute("select reference, satang from transfer where booked")
    return list(rows)


def test_modern_bank_books_once_under_a_key(founded: Callable[[str], Any]) -> None:
    bank = founded("modern")
    first = bank.transfer(ORDER, "k")
    assert bank.transfer(ORDER, "k").body == first.body
    assert bank.transfer({**ORDER, "satang": 6}, "k").body == {"code": "KEY_REUSED"}
    assert bank.transfer(ORDER, "other").body != first.body
    assert book_of(bank) == [("R", 5), ("R", 5)]


def test_old_bank_books_whatever_it_receives(founded: Callable[[str], Any]) -> None:
    bank = founded("old")
    assert bank.find("R").status == 404
    for _ in range(2):
        bank.transfer(ORDER, "k")
    assert book_of(bank) == [("R", 5), ("R", 5)]
    assert bank.find("R").body == {"receipt": 1}


def test_evening_bank_cannot_say_before_the_evening(founded: Callable[[str], Any]) -> None:
    bank = founded("evening")
    assert bank.find("R").status == 404
    bank.transfer(ORDER, None)
    assert bank.find("R").status == bank.find("another").status == 425
    assert book_of(bank) == []
    bank.evening()
    for reopened in (bank, founded("evening")):
        assert reopened.find("R").body == {"receipt": 1}
        assert reopened.find("another").status == 404
        assert reopened._books_at_once


def test_bank_forgets_nothing_when_it_is_opened_again(founded: Callable[[str], Any]) -> None:
    before = founded("modern").transfer(ORDER, "k")
    bank = founded("modern")
    assert bank.transfer(ORDER, "k").body == before.body
    assert book_of(bank) == [("R", 5)]


def test_bank_refuses_for_now_what_it_books_the_next_time(founded: Callable[[str], Any]) -> None:
    bank = founded("old")
    order = {**ORDER, "reference": meeting("busy")}
    assert bank.transfer(order, None).status == 503
    assert bank.transfer(order, None).status == 200


# The client, at a bank -----------------------------------------------------------------------


@contextmanager
def bank_at_work(kind: str, directory: Path) -> Iterator[Any]:
    """Run a bank for the length of a block; handlers find it."""
    bank = processes.BankProcess(kind, directory)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(f"BANK_{kind.upper()}", bank.address)
            yield bank
    finally:
        bank.kill()


@pytest.fixture
def old_bank(tmp_path: Path) -> Iterator[Any]:
    """Yield the process of an old bank."""
    with bank_at_work("old", tmp_path) as bank:
        yield bank


@pytest.fixture
def line(old_bank: Any) -> Iterator[Any]:
    """Yield a connection to it."""
    line = client.Bank(old_bank.address, handlers.TIMEOUT)
    yield line
    line.close()


def payment(reference: str, account: str = "1") -> Any:
    """Return a payment of five satang."""
    return client.Payment(reference, account, 5)


def test_client_takes_the_receipt(old_bank: Any, line: Any) -> None:
    reference = meeting("answered")
    assert line.find(reference) is None
    assert line.transfer(payment(reference)) == line.find(reference) == 1
    assert old_bank.booked() == 1


@pytest.mark.parametrize(("fate", "is_booked"), [("silent", 1), ("late", 1), ("lost", 0)])
def test_client_says_that_it_had_no_answer(
    old_bank: Any, line: Any, fate: str, is_booked: int
) -> None:
    with pytest.raises(ConnectionError):
        line.transfer(payment(meeting(fate)))
    assert old_bank.booked() == is_booked
    assert (line.find(meeting(fate)) is not None) == is_booked


def test_client_takes_no_answer_for_another(line: Any) -> None:
    """Of two answers to one request, the second must not be taken for that to the next."""
    said_twice, other = meeting("twice"), meeting("answered")
    assert line.transfer(payment(said_twice)) == 1
    assert line._http.sock.recv(1)  # the first byte of the second answer is there
    with pytest.raises(ConnectionError):
        line.transfer(payment(other))
    assert line.find(said_twice) == 1


def test_client_tells_what_is_final_from_what_may_pass(line: Any) -> None:
    with pytest.raises(client.Refused, match="ACCOUNT_CLOSED"):
        line.transfer(payment(meeting("answered"), CLOSED))
    with pytest.raises(ConnectionError, match="SERVICE_UNAVAILABLE"):
        line.transfer(payment(meeting("busy")))


def test_client_passes_on_that_the_bank_cannot_say(tmp_path: Path) -> None:
    with bank_at_work("evening", tmp_path) as bank:
        line = client.Bank(bank.address, handlers.TIMEOUT)
        line.transfer(payment("R1"))
        with pytest.raises(client.CannotSay):
            line.find("R1")
        bank.evening()
        assert line.find("R1") == 1
        line.close()


# The handlers, at a bank ---------------------------------------------------------------------


def order(fate: str, bank: str = "old", account: str = "1") -> dict[str, Any]:
    """Return the config of a transfer that meets that fate at first."""
    return {"bank": bank, "reference": meeting(fate, bank), "account": account, "satang": 5}


def test_transfer_twice_is_one_payment(old_bank: Any) -> None:
    outcome = run_twice(handlers.transfer, order("answered"), state=old_bank.booked)
    assert outcome.value == {"receipt": 1}
    assert old_bank.booked() == 1


@pytest.mark.parametrize("fate", ["silent", "late", "lost", "busy"])
def test_transfer_is_made_once_whatever_the_answer(old_bank: Any, fate: str) -> None:
    first, second = run_until_done(handlers.transfer, order(fate))
    assert first.status == "failed"
    assert second.value == {"receipt": 1}
    assert old_bank.booked() == 1


def test_transfer_to_a_closed_account_is_not_tried_again(old_bank: Any) -> None:
    (only,) = run_until_done(handlers.transfer, order("answered", account=CLOSED))
    assert (only.error_type, only.retry_state) == ("BankRejected", "non_retryable")
    assert old_bank.booked() == 0


def test_transfer_at_a_bank_that_cannot_say_is_parked(tmp_path: Path) -> None:
    with bank_at_work("evening", tmp_path) as bank:
        config = order("silent", "evening")
        *_, last = run_until_done(handlers.transfer, config)
        assert (last.error_type, last.retry_state) == ("OutcomeUnknown", "non_retryable")
        assert bank.ask("select count(*) from transfer") == [(1,)]
        bank.evening()
        by_hand = run(handlers.transfer, config, maybe_done=True)
        assert by_hand.value == {"receipt": 1}
        assert bank.booked() == 1


def test_transfer_whose_claim_is_lost_is_not_sent(old_bank: Any) -> None:
    assert run(handlers.transfer, order("answered"), lose_claim_after=1).status == "lost"
    assert old_bank.booked() == 0


@pytest.fixture
def payroll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a modern bank where a payroll of four is to be paid: one has no answer, one no account.

    The third payment is booked without an answer, the account of the second is closed.
    """
    fates = [("answered", "1"), ("twice", CLOSED), ("silent", "3"), ("busy", "4")]
    payments = [payment(meeting(fate, "modern"), account) for fate, account in fates]
    monkeypatch.setattr(handlers, "payments_of", lambda _: payments)
    with bank_at_work("modern", tmp_path) as bank:
        yield bank


PAYROLL = {"bank": "modern", "branch": "Bangkok", "period": "2026-01"}


def test_payroll_goes_on_after_the_last_payment_that_is_done(payroll: Any) -> None:
    outcomes = run_until_done(handlers.bulk_payout, PAYROLL)
    refused = [meeting("twice", "modern")]
    assert [outcome.heartbeat_details for outcome in outcomes[:-1]] == [
        [2, refused],
        [3, refused],
    ]
    assert outcomes[-1].value == {"paid": 3, "refused": refused}
    assert outcomes[-1].heartbeats == ([4, refused],)
    assert payroll.ask("select account, count(*) from transfer group by 1 order by 1") == [
        ("1", 1),
        ("3", 1),
        ("4", 1),
    ]


def test_payroll_twice_pays_once(payroll: Any) -> None:
    """Also where no heartbeat has survived, and all is asked for again."""
    run_until_done(handlers.bulk_payout, PAYROLL, idempotency_key=KEY)
    run_twice(handlers.bulk_payout, PAYROLL, idempotency_key=KEY, state=payroll.booked)
    assert payroll.booked() == 3


def test_payroll_with_a_payment_that_has_changed_is_for_a_person(
    payroll: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_until_done(handlers.bulk_payout, PAYROLL, idempotency_key=KEY)
    first, *others = handlers.payments_of(PAYROLL)
    changed = [first._replace(satang=first.satang + 1), *others]
    monkeypatch.setattr(handlers, "payments_of", lambda _: changed)
    (only,) = run_until_done(handlers.bulk_payout, PAYROLL, idempotency_key=KEY)
    assert (only.error_type, only.retry_state) == ("PaymentChanged", "non_retryable")
    assert payroll.booked() == 3


def test_payroll_stops_between_two_payments_when_it_is_cancelled(payroll: Any) -> None:
    outcome = run(handlers.bulk_payout, PAYROLL, cancel_after=1)
    assert outcome.cancelled
    assert payroll.booked() == 1


def test_handlers_lack_nothing_on_the_checklist() -> None:
    assert unmet_points(EXAMPLE / "handlers.py") == []


# The office, and the page --------------------------------------------------------------------


@pytest.fixture
def office(db: Database) -> Iterator[psycopg.Connection]:
    """Yield a session whose transaction has the example's schema and a month's salaries.

    It is rolled back, for roles belong to the cluster, and would outlive the database.
    """
    conn = db.connect(autocommit=False)
    conn.execute((EXAMPLE / "schema.sql").read_bytes())
    company.owe(conn, 1)
    yield conn
    conn.rollback()


def test_what_is_asked_for_twice_is_one_action(office: psycopg.Connection) -> None:
    assert company.ask(office, 1) == company.ask(office, 1) == 1 + 253 + 21
    [[number]] = office.execute(b"select count(*) from pgwhen.scheduled_action").fetchall()
    assert number == 1 + 253 + 21


def test_worker_cannot_change_a_payment(office: psycopg.Connection) -> None:
    """Heartbeats count along a list that must not change."""
    [[verbs]] = office.execute(
        b"select string_agg(privilege_type, ' ') from information_schema.role_table_grants"
        b" where table_name = 'payment' and grantee in ('payroll_worker', 'payroll_office')"
        b" and privilege_type in ('UPDATE', 'DELETE', 'TRUNCATE')"
    ).fetchall()
    assert verbs is None


def test_page_can_be_asked(office: psycopg.Connection) -> None:
    """The SQL of the README runs as it stands."""
    (page,) = re.findall(r"```sql\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    for statement in page.split(";\n"):
        office.execute(statement.encode())
