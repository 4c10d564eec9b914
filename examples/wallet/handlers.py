"""Crediting a wallet from Python: effect_once and the entry in one transaction.

In two ways. With a connection of the handlers' own the transaction is over before pgwhen hears of
it: every first attempt fails after its commit, which is the worst moment, for the entry is there
and pgwhen has heard of nothing but the failure. With `ctx.connection()` the transaction is that in
which pgwhen notes that the action is done: where a first attempt fails, for every other payment,
all has been written, and nothing of it is there.
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
values (%s, 'credit', %s, %s, %s)
"""
BALANCE = "select balance_satang from shop.balance where wallet_id = %s"
RECEIPT = "insert into shop.receipt (action_id, balance_satang) values (%s, %s)"


#: Configs are small, and hold nothing else.
TOP_UP = {
    "type": "object",
    "required": ["transactionId", "amountSatang"],
    "properties": {
        "transactionId": {"type": "string", "maxLength": 50},
        "amountSatang": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}


@cache
def pool() -> ConnectionPool:
    """Connect where the PG* variables point: a connection for each thread that runs handlers.

    No wait is longer than 10 s, far below the time that an attempt has.
    """
    options = {"options": "-c lock_timeout=10s -c statement_timeout=20s"}
    size = int(os.environ["PGWHEN_THREADS"])
    return ConnectionPool(kwargs=options, min_size=1, max_size=size, timeout=10, open=True)


@action("credit_wallet", start_to_close=30, config_schema=TOP_UP)
def credit_wallet(ctx: Context, config: dict[str, Any]) -> dict[str, int]:
    """Credit the wallet with `amountSatang`, once for each `transactionId`, whoever asks."""
    with pool().connection() as conn:
        balance = credit(conn, ctx, config)
    if ctx.attempt == 1:
        raise ConnectionError("the answer is lost, after the commit")
    return {"balanceSatang": balance}


@action("credit_wallet_joined", start_to_close=30, config_schema=TOP_UP)
def credit_wallet_joined(ctx: Context, config: dict[str, Any]) -> dict[str, int]:
    """Do the same, and write a receipt for the action: a row that no key keeps from coming twice.

    The commit is pgwhen's, and comes with the note that the action is done.
    """
    conn = ctx.connection()
    balance = credit(conn, ctx, config)
    conn.execute(RECEIPT, [ctx.action_id, balance])
    if ctx.attempt == 1 and is_odd(config):
        raise ConnectionError("the answer is lost, before the commit")
    return {"balanceSatang": balance}


def credit(conn: psycopg.Connection, ctx: Context, config: dict[str, Any]) -> int:
    """Write the entry, if nobody has, and return the balance.

    A refusal rolls back the note of effect_once too, for nothing was done.
    """
    transaction_id, satang = config["transactionId"], config["amountSatang"]
    if ask(conn, ONCE, transaction_id):
        if refusal := ask(conn, REFUSAL, ctx.user_id, satang):
            raise ActionError("not credited", type=refusal, non_retryable=True)
        conn.execute(ENTRY, [transaction_id, ctx.user_id, satang, ctx.action_type])
    return int(ask(conn, BALANCE, ctx.user_id))


def is_odd(config: dict[str, Any]) -> bool:
    """Tell payments apart, by the number of the transaction."""
    return int(config["transactionId"][-1]) % 2 == 1


def ask(conn: psycopg.Connection, query: str, *params: Any) -> Any:
    """Return the one value that the query gives."""
    return conn.execute(query.encode(), params).fetchone()[0]
