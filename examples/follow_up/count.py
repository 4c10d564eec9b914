"""What must come out, counted from the purchases alone.

Plain Python over the file: this module imports nothing of pgwhen and reads none of its tables, so
that its counts can contradict it. What the rules and the shop do is written out a second time.
"""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import date
from pathlib import Path

DATA = Path(__file__).parents[1] / "cdnow" / "cdnow_sample.txt"
DAYS = 10

#: In the order of the table.
COUNTS = (
    "follow-ups sent",
    "follow-ups replaced",
    "offers sent",
    "offers clicked",
    "offers not clicked",
    "offers sent again",
    "offers clicked late",
)


def expected(
    customers: int | None = None, days: int = DAYS, path: Path = DATA
) -> dict[str, Counter[str]]:
    """Count for each customer what must happen.

    customers: only the first so many of the file; None for all.
    days: only what they bought in so many days from their first purchase.
    """
    bought: dict[str, list[tuple[date, int]]] = {}
    for line in path.read_text().splitlines():
        _, name, day, cds, _ = line.split()
        on = date(int(day[:4]), int(day[4:6]), int(day[6:]))
        bought.setdefault(name, []).append((on, int(cds)))
    return {name: of_customer(bought[name], days) for name in sorted(bought)[:customers]}


def of_customer(bought: list[tuple[date, int]], days: int) -> Counter[str]:
    """Count what must happen to one customer."""
    bought = sorted(bought, key=lambda purchase: purchase[0])
    first_day, cds = bought[0]
    since = [(on - first_day).days for on, _ in bought]
    hours = [24 * day + 12 * (day % 2) for day in since if day < days]

    counts: Counter[str] = Counter()
    for now, then in zip(hours, [*hours[1:], None], strict=True):
        again = then is not None and then - now < 3 * 24
        counts["follow-ups replaced" if again else "follow-ups sent"] += 1

    counts["offers sent"] += 1
    clicked_after = {1: None, 2: 12}.get(cds, 36)
    if clicked_after is not None and clicked_after < 24:  # noqa: PLR2004
        counts["offers clicked"] += 1
        return counts
    counts["offers not clicked"] += 1
    counts["offers sent again"] += 1
    if clicked_after is not None:
        counts["offers clicked late"] += 1
    return counts


def main() -> None:
    """Print the totals."""
    parser = argparse.ArgumentParser(description="What the rules of rules.sql must do.")
    parser.add_argument("--customers", type=int, help="only the first so many customers")
    parser.add_argument("--days", type=int, default=DAYS, help="only so many of their days")
    args = parser.parse_args()
    totals = sum(expected(args.customers, args.days).values(), Counter())
    for name in COUNTS:
        print(f"{name:<22}{totals[name]:>8,}")


if __name__ == "__main__":
    main()
