"""Run this example on a server of its own; exits non-zero where an entry or a balance differs."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from count import COPIES, expected_totals, expected_wallets
from front import ask_for_all, open_wallets
from psycopg.conninfo import make_conninfo
from totals import MADE_BY, compare, totals, wallets

from pgwhen import demo
from pgwhen.deploy import deploy
from pgwhen.embedded import Server, only_user
from pgwhen.errors import PgwhenError

HERE = Path(__file__).parent
DIRECTORY = Path(tempfile.gettempdir()) / f"pgwhen-wallet-{os.getuid()}"

LISTENERS = 3
THREADS = 4


def main() -> int:
    """Run the example as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description="Credit wallets, once for each payment.")
    parser.add_argument("--lines", type=int, metavar="N", help="only the first N of top_ups.csv")
    parser.add_argument("--copies", type=int, default=COPIES, help="front ends (%(default)s)")
    parser.add_argument("--dir", type=Path, default=DIRECTORY, help="of the server (%(default)s)")
    args = parser.parse_args()
    server = Server(args.dir)
    try:
        with only_user(server.directory), demo.interruptible(), demo.away_from_other_servers():
            return run(server, args.lines, args.copies)
    except PgwhenError as exc:
        sys.stderr.write(f"{exc}\n{exc.hint or ''}\n")
        return 1
    except KeyboardInterrupt:
        return 130


def run(server: Server, lines: int | None, copies: int) -> int:
    """Go from an empty server to the compared balances; returns the exit status."""
    wanted = expected_totals(lines, copies)
    server.create()
    with demo.started(server), demo.connected(server) as conn:
        deploy(server.conninfo)
        conn.execute((HERE / "schema.sql").read_bytes())
        open_wallets(conn)
        demo.say(
            f"{copies} front ends ask for the same payments, {wanted['requests']:,} requests;"
            f" {LISTENERS} listeners do them"
        )
        with ExitStack() as processes:
            for number in range(LISTENERS):
                processes.enter_context(
                    demo.listening(
                        server,
                        str(HERE / "handlers.py"),
                        name=f"listener-{number}",
                        PGUSER="shop_worker",
                        PGWHEN_THREADS=str(THREADS),
                        PGWHEN_MAX_IN_FLIGHT=str(8 * THREADS),
                    )
                )
            requests = ask_for_all(make_conninfo(server.conninfo, user="shop_front"), lines, copies)
            demo.wait(conn)
        entitled = expected_wallets(lines)
        differ = compare(totals(conn, requests), wanted, wallets(conn), entitled)
        for made_by, entries in conn.execute(MADE_BY):
            demo.say(f"{entries:,} entries made by {made_by}")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
