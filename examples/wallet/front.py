"""The shop's front ends: each asks for every top-up of the file, at the same time as the others.

They have heard of the same payments, and know nothing of each other; nor do they agree on who is to
do it, or whether a request has a deduplication key.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import psycopg
from count import read, satang
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Sequence

WALLET = """
insert into shop.wallet (wallet_id, owner, limit_satang, frozen) values (%s, %s, %s, %s)
"""
ASK = """
select
    pgwhen.schedule_action(t.name, %(wallet)s, %(config)s),
    pgwhen.schedule_action(
        t.name, %(wallet)s, %(config)s, deduplication_key => t.name || ' ' || %(transaction)s
    )
from unnest(array['credit_wallet', 'credit_wallet_sql']) as t (name)
"""


def open_wallets(conn: psycopg.Connection) -> None:
    """Make the wallets of wallets.csv."""
    with conn.cursor() as cursor:
        cursor.executemany(
            WALLET,
            [
                [w["wallet_id"], w["owner"], satang(w["limit_baht"]), w["frozen"] == "yes"]
                for w in read("wallets.csv")
            ],
        )


def ask_for_all(conninfo: str, lines: int | None, copies: int) -> int:
    """Let so many front ends ask for the first so many lines of the file (None: all).

    Returns the number of requests, each of which was answered with the id of an action.
    """
    top_ups = read("top_ups.csv")[:lines]
    together = Barrier(copies)

    def front_end(number: int) -> int:
        mine = random.Random(number).sample(top_ups, len(top_ups))  # noqa: S311 - an order
        with psycopg.connect(conninfo, autocommit=True) as conn:
            together.wait()
            return ask(conn, mine)

    with ThreadPoolExecutor(copies) as threads:
        return sum(threads.map(front_end, range(copies)))


def ask(conn: psycopg.Connection, top_ups: Sequence[dict[str, str]]) -> int:
    """Ask for each top-up, in this order, a transaction each; returns the number of requests."""
    answered = 0
    for top_up in top_ups:
        transaction = top_up["transaction_id"]
        config = {"transactionId": transaction, "amountSatang": satang(top_up["amount_baht"])}
        answers = conn.execute(
            ASK.encode(),
            {"wallet": top_up["wallet_id"], "config": Jsonb(config), "transaction": transaction},
        )
        answered += sum(action_id is not None for row in answers for action_id in row)
    return answered
