"""The command line. Each subcommand is a module with `add_parser`; only the one asked for loads."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import TYPE_CHECKING

import psycopg

from . import __version__
from .errors import PgwhenError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = ("deploy", "run", "check", "status", "tail", "demo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `pgwhen` with *arguments*, by default the process's, and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parser = argparse.ArgumentParser(
        prog="pgwhen",
        description="When X happens in Postgres, do Y: once, on time, and in the open.",
        epilog="The database is the one of libpq's PG* variables, or of PGWHEN_DSN.",
    )
    parser.add_argument("--version", action="version", version=f"pgwhen {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [name for name in COMMANDS if name in given[:1]] or COMMANDS:
        importlib.import_module(f"pgwhen.{name}").add_parser(subparsers)
    args = parser.parse_args(given)
    try:
        status: int = args.func(args)
    except PgwhenError as exc:
        return _complain(exc, exc.hint)
    except psycopg.Error as exc:
        undeployed = (exc.sqlstate or "")[:2] in {"3F", "42"}
        return _complain(exc, "Is pgwhen of this version deployed here?" if undeployed else None)
    except KeyboardInterrupt:
        return 130
    return status


def _complain(exc: Exception, hint: str | None) -> int:
    sys.stderr.write(f"pgwhen: {str(exc).strip()}\n" + (f"hint: {hint}\n" if hint else ""))
    return 1
