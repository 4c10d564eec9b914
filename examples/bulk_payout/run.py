"""Run this example on a server of its own; exits non-zero where a payment is not made just once."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from company import ask, owe
from count import MONTHS
from processes import BankProcess, Hit, ListenerProcess, open_banks
from storm import plan, storm
from totals import REQUESTS, books, compare, refusals, unscathed, went_on

from pgwhen import demo
from pgwhen.deploy import deploy
from pgwhen.embedded import Server, only_user
from pgwhen.errors import PgwhenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

HERE = Path(__file__).parent
DIRECTORY = Path(tempfile.gettempdir()) / f"pgwhen-bulk-payout-{os.getuid()}"
KILLS = 6
#: Seconds without progress: a minute is too short where fifty thousand payments are one action's.
PATIENCE = 120.0

PARKED = """
select a.id
from pgwhen.scheduled_action as a
where a.status = 'failed' and a.error_message like 'OutcomeUnknown:%'
"""
RETRY = "select pgwhen.retry_action(id, 'the bank has booked its day') from unnest(%s) as t (id)"


def main() -> int:
    """Run the example as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description="Pay salaries, each of them once.")
    parser.add_argument("--months", type=int, default=MONTHS, help="payrolls (%(default)s)")
    parser.add_argument("--kills", type=int, default=KILLS, help="kill -9s (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the kills' times (%(default)s)")
    parser.add_argument("--dir", type=Path, default=DIRECTORY, help="of the server (%(default)s)")
    args = parser.parse_args()
    server = Server(args.dir)
    try:
        with only_user(server.directory), demo.interruptible(), demo.away_from_other_servers():
            return run(server, args.months, args.kills, args.seed)
    except PgwhenError as exc:
        sys.stderr.write(f"{exc}\n{exc.hint or ''}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def run(server: Server, months: int, kills: int, seed: int) -> int:
    """Go from an empty server to the compared books; returns the exit status."""
    server.create()
    with demo.started(server), demo.connected(server) as conn:
        deploy(server.conninfo)
        conn.execute((HERE / "schema.sql").read_bytes())
        owe(conn, months)
        ask(conn, months)
        actions = ask(conn, months)
        demo.say(f"{actions:,} actions, each asked for twice; {kills} kills of who does them")
        with at_work(server) as (listener, banks):
            hits = storm(conn, listener, banks, plan(kills, months, random.Random(seed)))  # noqa: S311
            demo.wait(conn, patience=PATIENCE)
            is_hit = report(conn, listener, hits) or not kills
            settle_parked(conn, banks["evening"])
        requests = {name: dict(bank.ask(REQUESTS)) for name, bank in banks.items()}
        differ = compare(books(banks), refusals(conn), requests, months)
    return 1 if differ or not is_hit else 0


@contextmanager
def at_work(server: Server) -> Iterator[tuple[ListenerProcess, dict[str, BankProcess]]]:
    """Run the banks and the listener for the length of a block."""
    banks = open_banks(server.directory / "banks")
    try:
        listener = ListenerProcess(server, banks)
        try:
            yield listener, banks
        finally:
            listener.stop()
    finally:
        for bank in banks.values():
            bank.kill()


def report(conn: psycopg.Connection, listener: ListenerProcess, hits: list[Hit]) -> bool:
    """Say what the kills have hit; returns whether they hit work, which then went on."""
    payrolls = [hit for hit in hits if hit.action_type == "bulk_payout"]
    places = went_on(payrolls, listener.resumed())
    demo.say(
        f"kills hit {len(payrolls)} payrolls and {len(hits) - len(payrolls)} transfers that were"
        f" being made; {len(places)} payrolls went on where they were, after payment"
        f" {min(places, default=0)} to {max(places, default=0)}"
    )
    left = unscathed(conn, hits)
    if left:
        demo.say(f"NOT TRIED AGAIN: {left}")
    return bool(places) and len(hits) > len(payrolls) and not left


def settle_parked(conn: psycopg.Connection, bank: BankProcess) -> None:
    """Do what a person does about payments of which the bank cannot say what became of them."""
    parked = [action_id for (action_id,) in conn.execute(PARKED)]
    demo.say(f"{len(parked)} payments are parked: the evening bank cannot say; it is evening")
    bank.evening()
    conn.execute(RETRY, [parked])
    demo.wait(conn, patience=PATIENCE)


if __name__ == "__main__":
    sys.exit(main())
