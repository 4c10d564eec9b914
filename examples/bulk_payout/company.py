"""The payroll office: writes what is owed, and asks for it to be paid.

It asks twice, as people do who are not sure whether they have pressed the button. Each payroll and
each single payment has a deduplication key, so that the second request finds the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from count import BANKS, periods, read, satang
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    import psycopg

#: A kill must cost seconds here. handlers.py has what the real ones would say.
QUICK = {"retryPolicy": {"initialInterval": 0.05, "maximumInterval": 0.1}}
QUICK_PAYROLL = QUICK | {"timeouts": {"heartbeat": 1}}
QUICK_TRANSFER = QUICK | {"timeouts": {"startToClose": 3}}

OWE = "insert into payroll.payment values (%s, %s, %s, %s, %s)"
ASK_FOR_PAYROLL = """
select pgwhen.schedule_action('bulk_payout', %s, %s, deduplication_key => %s)
"""
ASK_FOR_TRANSFERS = """
select pgwhen.schedule_actions(
    'transfer', array_agg(p.reference), array_agg(
        %s || jsonb_build_object(
            'bank', %s::text, 'reference', p.reference, 'account', p.account, 'satang', p.satang
        )
    ),
    deduplication_keys => array_agg(p.reference)
)
from payroll.payment as p
where p.branch = %s
"""


def owe(conn: psycopg.Connection, months: int) -> None:
    """Write down the salaries of so many months."""
    payments = [
        (
            f"{period}-{person['employee_id']}", person["branch"], period,
            person["account"], satang(person["salary_baht"]),
        )
        for person in read()
        for period in periods(months)
    ]  # fmt: skip
    with conn.cursor() as cursor:
        cursor.executemany(OWE, payments)


def ask(conn: psycopg.Connection, months: int) -> int:
    """Ask for all that is owed; returns the number of actions, however often it is called.

    A payroll for each month at the modern bank, an action for each payment at the others.
    """
    actions = set()
    branch = BANKS["modern"]
    for period in periods(months):
        config = {"bank": "modern", "branch": branch, "period": period, **QUICK_PAYROLL}
        answer = conn.execute(
            ASK_FOR_PAYROLL, [branch, Jsonb(config), f"payroll {period} {branch}"]
        )
        actions.update(answer.fetchall())
    for bank in ("old", "evening"):
        answer = conn.execute(ASK_FOR_TRANSFERS, [Jsonb(QUICK_TRANSFER), bank, BANKS[bank]])
        actions.update(answer.fetchall())
    return len(actions)
