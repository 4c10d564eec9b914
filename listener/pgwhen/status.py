"""`pgwhen status`: what is going on, and what to do about it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import psycopg

from .logs import visible
from .settings import Settings

if TYPE_CHECKING:
    import argparse


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the subcommand `status`."""
    parser = subparsers.add_parser(
        "status",
        help="say what is going on, and what to do about it",
        description="Say what is going on; where something wants doing, the line below says what.",
    )
    parser.set_defaults(func=command)


def command(_: argparse.Namespace) -> int:
    """Print `pgwhen.status()`."""
    with psycopg.connect(Settings.from_environment().dsn, autocommit=True) as conn:
        rows = conn.execute("select item, value, remedy from pgwhen.status()").fetchall()
    width = max(len(visible(item)) for item, _, _ in rows)
    for item, value, remedy in rows:
        sys.stdout.write(f"{visible(item):{width}}  {visible(value or '')}\n")
        if remedy:
            sys.stdout.write(f"{'':{width}}  -> {visible(remedy)}\n")
    return 0
