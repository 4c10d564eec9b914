"""Paying salaries: a payroll in one action by key, and single transfers that are asked for first.

Where the banks are is in the environment: BANK_MODERN, BANK_OLD and BANK_EVENING, as host:port.
"""

from __future__ import annotations

import os
from contextlib import closing
from datetime import timedelta
from typing import Any
from uuid import uuid5

import psycopg
from bank_client import Bank, CannotSay, KeyTaken, Payment, Refused

from pgwhen import ActionError, Context, Retry, Unknown, action

PAYMENTS = """
select p.reference, p.account, p.satang
from payroll.payment as p
where p.branch = %s and p.period = %s
order by p.reference
"""
#: Seconds to wait for a bank's answer: far below the time that an attempt has.
TIMEOUT = 0.4
#: What a bank does not do now it may do later: it is asked for as long as it takes.
PATIENT = Retry(initial_interval=1, maximum_interval=60, maximum_attempts=0)
#: Configs are small: what is large stays in a table of the company's.
TEXT = {"type": "string", "maxLength": 50}
PAYROLL = {
    "type": "object",
    "required": ["bank", "branch", "period"],
    "properties": {"bank": TEXT, "branch": TEXT, "period": TEXT},
    "additionalProperties": False,
}
TRANSFER = {
    "type": "object",
    "required": ["bank", "reference", "account", "satang"],
    "properties": {
        "bank": TEXT,
        "reference": TEXT,
        "account": TEXT,
        "satang": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}


@action(
    "bulk_payout",
    start_to_close=timedelta(hours=2),
    heartbeat=timedelta(minutes=2),
    retry=PATIENT,
    config_schema=PAYROLL,
)
def bulk_payout(ctx: Context, config: dict[str, Any]) -> dict[str, Any]:
    """Pay the salaries of a `branch` for a `period`, each under a key of its own.

    What the heartbeats keep is how many payments are done, and which of them the bank has refused:
    a closed account must not keep the others from their salary.
    """
    payments = payments_of(config)
    done, refused = ctx.heartbeat_details or (0, [])
    if done:
        ctx.logger.info("resumes after payment %d of %d", done, len(payments))
    with closing(bank_of(config)) as bank:
        for number, payment in enumerate(payments[done:], done + 1):
            if not pay(ctx, bank, payment):
                refused.append(payment.reference)
            ctx.heartbeat([number, refused])
    return {"paid": len(payments) - len(refused), "refused": refused}


def pay(ctx: Context, bank: Bank, payment: Payment) -> bool:
    """Pay one salary of a payroll, once; returns false where the bank has refused."""
    # The same at every attempt, and another one for each payment.
    key = uuid5(ctx.idempotency_uuid, payment.reference)
    try:
        bank.transfer(payment, key=str(key))
    except Refused:
        return False
    except KeyTaken as exc:
        message = f"{payment.reference} has changed since it was sent"
        raise ActionError(message, type="PaymentChanged", non_retryable=True) from exc
    return True


def find_existing(_ctx: Context, config: dict[str, Any]) -> dict[str, int] | None:
    """Ask whether an earlier attempt has arrived. For banks that book on receipt, or say Unknown.

    On a connection of its own: what came before on others has arrived before.
    """
    with closing(bank_of(config)) as bank:
        try:
            receipt = bank.find(config["reference"])
        except CannotSay as exc:
            raise Unknown(str(exc)) from exc
    return None if receipt is None else {"receipt": receipt}


@action("transfer", start_to_close=30, retry=PATIENT, check=find_existing, config_schema=TRANSFER)
def transfer(ctx: Context, config: dict[str, Any]) -> dict[str, int]:
    """Pay one salary at a bank that knows no keys."""
    payment = Payment(config["reference"], config["account"], config["satang"])
    with closing(bank_of(config)) as bank:
        # Raises Cancelled if this attempt's time is over: the next one may be asking already.
        ctx.heartbeat()
        try:
            receipt = bank.transfer(payment)
        except Refused as exc:
            raise ActionError(str(exc), type="BankRejected", non_retryable=True) from exc
    return {"receipt": receipt}


def bank_of(config: dict[str, Any]) -> Bank:
    """Return a connection to the bank that the config names."""
    return Bank(os.environ[f"BANK_{config['bank'].upper()}"], timeout=TIMEOUT)


def payments_of(config: dict[str, Any]) -> list[Payment]:
    """Read what a payroll has to pay, always in the same order: heartbeats count along it."""
    with psycopg.connect() as conn:
        rows = conn.execute(PAYMENTS, [config["branch"], config["period"]])
        return [Payment(*row) for row in rows]
