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

WEEK = timedelta(days=7)
MONTH = timedelta(days=30)
HALF_A_YEAR = timedelta(days=180)

RULES = (
    "welcome", "third purchase", "spent 100", "spent 500", "thank you", "big basket", "back again",
)  # fmt: skip


class Customer:
    """What the shop knows of one customer, and when each rule last fired for them."""

    def __init__(self) -> None:
        """Start with nobody known."""
        self.purchases = 0
        self.total = Decimal(0)
        self.last_purchase: date | None = None
        self.last_fired: dict[str, date] = {}


def buy(customer: Customer, day: date, amount: Decimal) -> list[tuple[str, timedelta | None]]:
    """Book one purchase.

    Returns the rules whose source and condition it satisfies, each with the period of its limit:
    None for no limit, timedelta.max for once.
    """
    purchases = customer.purchases + 1
    total = customer.total + amount
    absence = day - customer.last_purchase if customer.last_purchase else timedelta(0)
    wanted = {
        "welcome": (purchases == 1, timedelta.max),
        "third purchase": (purchases == 3, timedelta.max),  # noqa: PLR2004
        "spent 100": (customer.total < 100 <= total, timedelta.max),  # noqa: PLR2004
        "spent 500": (customer.total < 500 <= total, timedelta.max),  # noqa: PLR2004
        "thank you": (True, WEEK),
        "big basket": (amount >= 50, MONTH),  # noqa: PLR2004
        "back again": (absence > HALF_A_YEAR, None),
    }
    customer.purchases, customer.total, customer.last_purchase = purchases, total, day
    return [(rule, period) for rule, (is_wanted, period) in wanted.items() if is_wanted]


def allowed(customer: Customer, rule: str, day: date, period: timedelta | None) -> bool:
    """Whether the rule's limit lets it fire; remembers the day if so."""
    last = customer.last_fired.get(rule)
    if period is not None and last is not None and day - last < period:
        return False
    customer.last_fired[rule] = day
    return True


def expected(path: Path = DATA, customers: int | None = None) -> dict[str, dict[str, int]]:
    """Count firings and suppressions per rule, in time order.

    customers: only the first so many customers of the file; None for all.
    """
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    known = {name: Customer() for name in sorted({line[1] for line in lines})[:customers]}
    counts = {rule: Counter(fired=0, suppressed=0) for rule in RULES}
    for _, name, day, _, amount in sorted(lines, key=lambda line: line[2]):
        if name not in known:
            continue
        customer = known[name]
        on = datetime.strptime(day, "%Y%m%d").date()  # noqa: DTZ007 - a day of the calendar
        for rule, period in buy(customer, on, Decimal(amount)):
            fires = allowed(customer, rule, on, period)
            counts[rule]["fired" if fires else "suppressed"] += 1
    return {rule: dict(count) for rule, count in counts.items()}


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description="What the rules of rules.sql must do.")
    parser.add_argument("--customers", type=int, help="only the first so many customers")
    print(f"{'rule':<16}{'fired':>8}{'suppressed':>12}")
    for rule, count in expected(customers=parser.parse_args().customers).items():
        print(f"{rule:<16}{count['fired']:>8,}{count['suppressed']:>12,}")


if __name__ == "__main__":
    main()
