"""What must come out, counted from the two files alone.

Plain Python over the files: this module imports nothing of pgwhen and reads none of its tables, so
that its counts can contradict it. Who may be credited is written out a second time.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

#: The front ends, each of which asks for each line of each of the three action types twice: with a
#: deduplication key and without.
COPIES = 6
TYPES = ("credit_wallet", "credit_wallet_joined", "credit_wallet_sql")
#: How many of them write a receipt.
WITH_RECEIPT = 2


class Wallet(NamedTuple):
    """What a wallet must have in the end."""

    entries: int
    satang: int


def read(name: str) -> list[dict[str, str]]:
    """Read a file of this directory; its first line names the columns."""
    with (HERE / name).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def satang(baht: str) -> int:
    """Turn an amount as the bank writes it into a hundred times as many satang."""
    return int(Decimal(baht) * 100)


def refusal(wallet: dict[str, str] | None, baht: str) -> str | None:
    """Say why a top-up is refused, if it is."""
    if wallet is None:
        return "NoSuchWallet"
    if wallet["frozen"] == "yes":
        return "AccountFrozen"
    return "LimitExceeded" if Decimal(baht) > Decimal(wallet["limit_baht"]) else None


def expected_wallets(lines: int | None = None) -> dict[str, Wallet]:
    """Say what each wallet must have: every transaction once, however often it was sent.

    lines: only the first so many of the file; None for all.
    """
    wallets = {wallet["wallet_id"]: wallet for wallet in read("wallets.csv")}
    booked: dict[str, list[int]] = {name: [] for name in wallets}
    for line in {line["transaction_id"]: line for line in read("top_ups.csv")[:lines]}.values():
        if refusal(wallets.get(line["wallet_id"]), line["amount_baht"]) is None:
            booked[line["wallet_id"]].append(satang(line["amount_baht"]))
    return {name: Wallet(len(amounts), sum(amounts)) for name, amounts in booked.items()}


def expected_totals(lines: int | None = None, copies: int = COPIES) -> Counter[str]:
    """Count what must become of the requests, when copies front ends each ask for each line."""
    wallets = {wallet["wallet_id"]: wallet for wallet in read("wallets.csv")}
    sent = read("top_ups.csv")[:lines]
    counts: Counter[str] = Counter()
    for n, line in enumerate(sent):
        is_new = line["transaction_id"] not in {other["transaction_id"] for other in sent[:n]}
        actions = copies + is_new  # one for each request without a key, one for all with it
        why = refusal(wallets.get(line["wallet_id"]), line["amount_baht"])
        counts["requests"] += copies * 2 * len(TYPES)
        counts["actions"] += actions * len(TYPES)
        counts[f"refused: {why}" if why else "done"] += actions * len(TYPES)
        if why is None:
            # Of one type in Python all are, of the other those with an odd transaction id.
            is_odd = int(line["transaction_id"][-1]) % 2
            counts["done by Python, tried again"] += actions + actions * is_odd
            counts["receipts, of actions"] += actions * WITH_RECEIPT
    entitled = expected_wallets(lines).values()
    counts["ledger entries"] = sum(wallet.entries for wallet in entitled)
    counts["satang in all wallets"] = sum(wallet.satang for wallet in entitled)
    return counts


def main() -> None:
    """Print the totals."""
    parser = argparse.ArgumentParser(description="What must come out.")
    parser.add_argument("--lines", type=int, help="only the first so many lines")
    parser.add_argument("--copies", type=int, default=COPIES, help="front ends (%(default)s)")
    args = parser.parse_args()
    for name, number in expected_totals(args.lines, args.copies).items():
        print(f"{name:<30}{number:>14,}")


if __name__ == "__main__":
    main()
