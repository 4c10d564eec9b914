"""Crediting a wallet from Python: effect_once and the entry in one transaction.

The connection is the handlers' own. Every first attempt fails after its commit, which is the worst
moment: the entry is there, and pgwhen has heard of nothing but the failure.
"""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

from psycopg_pool import ConnectionPool

from pgwhen import ActionError, Context, action

if TYPE_CHECKING:
    import psycopg

ONCE = "select pgwhen.effect_once(%s, 'credit')"
REFUSAL = "select shop.refusal(%s, %s)"
ENTRY = """
insert into shop.ledger_entry (transaction_id, entry_type, wallet_id, amount_satang, made_by)
values (%s, 'credit', %s, %s, 'credit_wallet')
"""
BALANCE = "select balance_satang from shop.balance where wallet_id = %s"


@cache
def pool() -> ConnectionPool:
    """Connect where the PG* variables point: a connection for each thread that runs handlers.

    No wait is longer than 10 s, far below the time that an attempt has.
    """
    options = {"options": "-c lock_timeout=10s -c statement_timeout=20s"}
    return ConnectionPool(
        kwargs=options, min_size=1, max_size=int(os.environ["PGWHEN_THREADS"]), open=True
    )


@action("credit_wallet")
def credit_wallet(ctx: Context, config: dict[str, Any]) -> dict[str, int]:
    """Credit the wallet with `amountSatang`, once for each `transactionId`, whoever asks."""
    with pool().connection() as conn:
        if ask(conn, ONCE, config["transactionId"]):
            credit(conn, config["transactionId"], ctx.user_id, config["amountSatang"])
        balance = ask(conn, BALANCE, ctx.user_id)
    if ctx.attempt == 1:
        raise ConnectionError("the answer is lost, after the commit")
    return {"balanceSatang": balance}


def credit(conn: psycopg.Connection, transaction_id: str, wallet_id: str, satang: int) -> None:
    """Write the entry; a refusal rolls back the note of effect_once too, for nothing was done."""
    if refusal := ask(conn, REFUSAL, wallet_id, satang):
        raise ActionError("not credited", type=refusal, non_retryable=True)
    conn.execute(ENTRY, [transaction_id, wallet_id, satang])


def ask(conn: psycopg.Connection, query: str, *params: Any) -> Any:
    """Return the one value that the query gives."""
    return conn.execute(query.encode(), params).fetchone()[0]
