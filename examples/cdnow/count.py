"""What the rules of this example must do, counted from the purchases alone.

Plain Python over the file: this module imports nothing of pgwhen and reads none of its tables, so
that its counts can contradict it. Each rule of rules.sql is written out a second time, by hand.
"""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

DATA = Path(__file__).with_name("cdnow_sample.txt")

HALF_A_YEAR = timedelta(days=180)

ONCE = timedelta.max
ALWAYS = timedelta(0)
#: How long a rule that fired for a customer does not fire for them again.
PERIODS = {
    "welcome": ONCE,
    "third purchase": ONCE,
    "spent 100": ONCE,
    "spent 500": ONCE,
    "thank you": timedelta(days=7),
    "big basket": timedelta(days=30),
    "back again": ALWAYS,
}
VERDICTS = ("fired", "suppressed", "condition_false")


class Customer:
    """What the shop knows of one customer, and when each rule last fired for them."""

    def __init__(self) -> None:
        """Start with nobody known."""
        self.purchases = 0
        self.total = Decimal(0)
        self.last_purchase: date | None = None
        self.last_fired: dict[str, date] = {}


def buy(customer: Customer, day: date, amount: Decimal) -> list[tuple[str, str]]:
    """Book one purchase; returns what became of each rule that asks for the change, and which."""
    purchases = customer.purchases + 1
    total = customer.total + amount
    before = customer.last_purchase
    asked_and_true = {
        "welcome": (purchases == 1, True),
        "third purchase": (purchases == 3, True),  # noqa: PLR2004
        "spent 100": (customer.total < 100 <= total, True),  # noqa: PLR2004
        "spent 500": (customer.total < 500 <= total, True),  # noqa: PLR2004
        "thank you": (True, True),
        "big basket": (True, amount >= 50),  # noqa: PLR2004
        "back again": (day != before, before is not None and day - before > HALF_A_YEAR),
    }
    customer.purchases, customer.total, customer.last_purchase = purchases, total, day
    return [
        (rule, limited(customer, rule, day) if is_true else "condition_false")
        for rule, (is_asked, is_true) in asked_and_true.items()
        if is_asked
    ]


def limited(customer: Customer, rule: str, day: date) -> str:
    """Say whether the rule's limit lets it fire on that day, and remember the day if so."""
    period, last = PERIODS[rule], customer.last_fired.get(rule)
    if last is not None and day - last < period:
        return "suppressed"
    customer.last_fired[rule] = day
    return "fired"


def expected(path: Path = DATA, customers: int | None = None) -> dict[str, dict[str, int]]:
    """Count per rule how often it fired, was suppressed, or found its condition false.

    customers: only the first so many customers of the file; None for all.
    """
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    known = {name: Customer() for name in sorted({line[1] for line in lines})[:customers]}
    counts = {rule: Counter(dict.fromkeys(VERDICTS, 0)) for rule in PERIODS}
    for _, name, day, _, amount in sorted(lines, key=lambda line: line[2]):
        if name in known:
            on = datetime.strptime(day, "%Y%m%d").date()  # noqa: DTZ007 - a day of the calendar
            for rule, verdict in buy(known[name], on, Decimal(amount)):
                counts[rule][verdict] += 1
    return {rule: dict(count) for rule, count in counts.items()}


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description="What the rules of rules.sql must do.")
    parser.add_argument("--customers", type=int, help="only the first so many customers")
    print(f"{'rule':<16}", *(f"{verdict:>16}" for verdict in VERDICTS))
    for rule, count in expected(customers=parser.parse_args().customers).items():
        print(f"{rule:<16}", *(f"{count[verdict]:>16,}" for verdict in VERDICTS))


if __name__ == "__main__":
    main()
