"""What must come out, counted from the list of staff alone.

Plain Python over the file: this module imports nothing of pgwhen and reads none of its tables, so
that its counts can contradict it.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from decimal import Decimal
from pathlib import Path

STAFF = Path(__file__).parent / "staff.csv"

#: The banks, and the branch whose salaries each of them pays.
BANKS = {"modern": "Bangkok", "old": "Chiang Mai", "evening": "Phuket"}
MONTHS = 2


def read() -> list[dict[str, str]]:
    """Read the list of staff; its first line names the columns."""
    with STAFF.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def periods(months: int) -> list[str]:
    """Name so many months, from January 2026."""
    return [f"{2026 + month // 12}-{month % 12 + 1:02}" for month in range(months)]


def satang(baht: str) -> int:
    """Turn an amount as people write it into a hundred times as many satang."""
    return int(Decimal(baht) * 100)


def expected_book(bank: str, months: int = MONTHS) -> Counter[tuple[str, str, int]]:
    """Say what a bank must have booked: reference, account, satang; each of them once.

    A salary for each member of staff and month, but for those whose account is closed.
    """
    return Counter(
        (f"{period}-{person['employee_id']}", person["account"], satang(person["salary_baht"]))
        for person in read()
        if person["branch"] == BANKS[bank] and person["account_is"] == "open"
        for period in periods(months)
    )


def expected_refusals(bank: str, months: int = MONTHS) -> set[str]:
    """Say which payments a bank must have refused, by their references."""
    return {
        f"{period}-{person['employee_id']}"
        for person in read()
        if person["branch"] == BANKS[bank] and person["account_is"] == "closed"
        for period in periods(months)
    }


def main() -> None:
    """Print the totals."""
    parser = argparse.ArgumentParser(description="What must come out.")
    parser.add_argument("--months", type=int, default=MONTHS, help="payrolls (%(default)s)")
    months = parser.parse_args().months
    for bank, branch in BANKS.items():
        book = expected_book(bank, months)
        total = sum(amount for *_, amount in book)
        refused = len(expected_refusals(bank, months))
        print(f"{branch:<12}{len(book):>8,} payments{total:>18,} satang{refused:>6,} refused")


if __name__ == "__main__":
    main()
