"""The shop's front ends: each asks for every top-up of the file, at the same time as the others.

They have heard of the same payments, and know nothing of each other; nor do they agree on who is to
do it, or whether a request has a deduplication key.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier
from typing import TYPE_CHECKING

import psycopg
from count import TYPES, read, satang
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Sequence

WALLET = """
insert into shop.wallet (wallet_id, owner, limit_satang, frozen) values (%s, %s, %s, %s)
"""
ASK = """
select
    pgwhen.schedule_action(%(type)s, %(wallet)s, %(config)s),
    pgwhen.schedule_action(%(type)s, %(wallet)s, %(config)s, deduplication_key => %(key)s)
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
    requests = list(product(TYPES, read("top_ups.csv")[:lines]))
    together = Barrier(copies)

    def front_end(number: int) -> int:
        mine = random.Random(number).sample(requests, len(requests))  # noqa: S311 - an order
        with psycopg.connect(conninfo, autocommit=True) as conn:
            together.wait()
            return ask(conn, mine)

    with ThreadPoolExecutor(copies) as threads:
        return sum(threads.map(front_end, range(copies)))


def ask(conn: psycopg.Connection, requests: Sequence[tuple[str, dict[str, str]]]) -> int:
    """Ask an action type for a top-up, each twice, in this order; returns the number of answers."""
    answered = 0
    for action_type, top_up in requests:
        transaction = top_up["transaction_id"]
        config = {"transactionId": transaction, "amountSatang": satang(top_up["amount_baht"])}
        request = {
            "type": action_type,
            "wallet": top_up["wallet_id"],
            "config": Jsonb(config),
            "key": f"{action_type} {transaction}",
        }
        for answers in conn.execute(ASK.encode(), request):
            answered += sum(action_id is not None for action_id in answers)
    return answered
