"""What came out, by the banks' own books, beside what the list of staff says."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from count import BANKS, expected_book, expected_refusals

if TYPE_CHECKING:
    import psycopg
    from processes import BankProcess, Hit

BOOKED = "select reference, account, satang from transfer where booked"
REQUESTS = "select fate, count(*) from request group by fate"
#: In the order of the table, what it says of the requests.
REQUESTS_AS = {
    "answered": "requests answered",
    "busy": "refused for now",
    "lost": "lost on their way",
    "silent": "taken, never answered",
    "late": "taken, answered too late",
    "twice": "taken, answered twice",
    "asked": "asked about, before acting",
}

ENDS = """
select
    a.action_config ->> 'bank', a.status, a.result -> 'refused', a.action_config ->> 'reference',
    split_part(a.error_message, ':', 1)
from pgwhen.scheduled_action as a
"""
ATTEMPTS = "select a.id, a.retry_count + 1 from pgwhen.scheduled_action as a where a.id = any(%s)"


def books(banks: dict[str, BankProcess]) -> dict[str, Counter[tuple[str, str, int]]]:
    """Return what each bank has booked, how often."""
    return {name: Counter(bank.ask(BOOKED)) for name, bank in banks.items()}


def refusals(conn: psycopg.Connection) -> dict[str, set[str]]:
    """Return the payments that pgwhen says were refused, for each bank; and what went wrong."""
    found: dict[str, set[str]] = {name: set() for name in BANKS}
    for bank, status, refused, reference, error in conn.execute(ENDS):
        if status == "done":
            found[bank].update(refused or [])
        elif error == "BankRejected":
            found[bank].add(reference)
        else:
            found[bank].add(f"{reference}: {status}, {error}")
    return found


def unscathed(conn: psycopg.Connection, hits: list[Hit]) -> list[Hit]:
    """Return those of the hit attempts that no other attempt has followed: there should be none."""
    attempts = dict(conn.execute(ATTEMPTS, [[hit.action_id for hit in hits]]).fetchall())
    return [hit for hit in hits if attempts[hit.action_id] <= hit.attempt]


def went_on(hits: list[Hit], resumed: dict[tuple[int, int], int]) -> list[int]:
    """Return where payrolls that a kill had hit went on, that did not have to begin anew."""
    return [
        resumed[hit.action_id, hit.attempt + 1]
        for hit in hits
        if (hit.action_id, hit.attempt + 1) in resumed
    ]


def compare(
    found: dict[str, Counter[tuple[str, str, int]]],
    refused: dict[str, set[str]],
    requests: dict[str, dict[str, int]],
    months: int,
) -> int:
    """Print the banks side by side; returns at how many of them anything differs."""
    wanted = {name: expected_book(name, months) for name in BANKS}
    show("", {name: name for name in BANKS})
    show("payments due", {name: len(wanted[name]) for name in BANKS})
    show("made once", {name: sum(n == 1 for n in found[name].values()) for name in BANKS})
    show("made more than once", {name: sum(n > 1 for n in found[name].values()) for name in BANKS})
    show("satang due", {name: total(wanted[name]) for name in BANKS})
    show("satang booked", {name: total(found[name]) for name in BANKS})
    show("account closed, refused", {name: len(refused[name]) for name in BANKS})
    for fate, meaning in REQUESTS_AS.items():
        show(meaning, {name: requests[name].get(fate, 0) for name in BANKS})
    differ = [
        name
        for name in BANKS
        if found[name] != wanted[name] or refused[name] != expected_refusals(name, months)
    ]
    if differ:
        print(f"\nDIFFERENT: {', '.join(differ)}")
    else:
        print("\nevery payment was made exactly once, and every sum agrees")
    return len(differ)


def show(name: str, row: dict[str, str] | dict[str, int]) -> None:
    """Print a row of the table."""
    cells = (f"{cell:,}" if isinstance(cell, int) else cell for cell in row.values())
    print(f"{name:<26}" + "".join(f"{cell:>16}" for cell in cells))


def total(book: Counter[tuple[str, str, int]]) -> int:
    """Sum up a book."""
    return sum(satang * times for (*_, satang), times in book.items())
