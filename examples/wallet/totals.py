"""What came out, by the ledger and by pgwhen's log, beside what the files say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from count import Wallet

if TYPE_CHECKING:
    import psycopg

WALLETS = "select wallet_id, entries, balance_satang from shop.balance"
#: Why a top-up was refused stands in the error; any other error stands for itself.
OUTCOMES = """
select
    case l.status
        when 'success' then 'done'
        else coalesce(
            'refused: ' || r.reason,
            l.status || ': ' || split_part(l.error_message, e'\\n', 1)
        )
    end,
    count(*)
from pgwhen.trigger_log as l
left join (values ('AccountFrozen'), ('LimitExceeded'), ('NoSuchWallet')) as r (reason)
    on l.error_message like '%' || r.reason || '%'
group by 1
"""
TRIED_AGAIN = """
select count(*)
from pgwhen.scheduled_action as a
where
    a.action_type in ('credit_wallet', 'credit_wallet_joined')
    and a.status = 'done' and a.retry_count = 1
"""
#: An action that has two of them counts as unexpected.
RECEIPTS = """
select
    case when r.n = 1 then 'receipts, of actions' else r.n || ' receipts of an action' end,
    count(*)
from (select count(*) as n from shop.receipt group by action_id) as r
group by 1
"""
MADE_BY = "select made_by, count(*) from shop.ledger_entry group by made_by order by made_by"


def wallets(conn: psycopg.Connection) -> dict[str, Wallet]:
    """Return what each wallet has."""
    return {name: Wallet(*rest) for name, *rest in conn.execute(WALLETS)}


def totals(conn: psycopg.Connection, requests: int) -> Counter[str]:
    """Count what became of so many requests."""
    counts = Counter({"requests": requests})
    outcomes = dict(conn.execute(OUTCOMES).fetchall())
    counts["actions"] = sum(outcomes.values())
    counts.update(outcomes)
    counts["done by Python, tried again"] = conn.execute(TRIED_AGAIN).fetchone()[0]
    counts.update(dict(conn.execute(RECEIPTS).fetchall()))
    has = wallets(conn).values()
    counts["ledger entries"] = sum(wallet.entries for wallet in has)
    counts["satang in all wallets"] = sum(wallet.satang for wallet in has)
    return counts


def compare(
    found: Counter[str],
    wanted: Counter[str],
    has: dict[str, Wallet],
    entitled: dict[str, Wallet],
) -> int:
    """Print the totals side by side; returns how many of them, and of the wallets, differ."""
    print(f"\n{'':<30}{'pgwhen':>14}{'files':>14}")
    for name in dict.fromkeys([*wanted, *found]):
        print(f"{name:<30}{found[name]:>14,}{wanted[name]:>14,}")
    names = sorted(has.keys() | entitled.keys())
    wrong = [name for name in names if has.get(name) != entitled.get(name)]
    if wrong:
        print(f"\nDIFFERENT: {len(wrong)} of {len(names)} wallets: {', '.join(wrong[:5])} …")
    elif found != wanted:
        print("\nDIFFERENT: the wallets agree, the totals do not")
    else:
        print(f"\nall counts agree, and each of {len(names)} balances")
    return len(wrong) + sum(found[name] != wanted[name] for name in found.keys() | wanted.keys())
