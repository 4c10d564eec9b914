"""`pgwhen run`: the listener as a command."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from typing import TYPE_CHECKING

from .daemon import Daemon
from .errors import PgwhenError
from .loader import load
from .logs import set_up
from .settings import Settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from .handlers import Handler

log = logging.getLogger(__name__)

#: New objects after which Python looks for garbage.
GARBAGE = 20_000


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the subcommand `run`."""
    parser = subparsers.add_parser(
        "run",
        help="listen, process events, and run handlers",
        description=(
            "Listen, process events, and run the handlers of the given files and modules and "
            "those that installed packages offer, until SIGTERM or Ctrl-C."
        ),
    )
    parser.add_argument(
        "sources", nargs="*", metavar="HANDLERS", help="a file that ends in .py, or a module"
    )
    parser.set_defaults(func=command)


def command(args: argparse.Namespace) -> int:
    """Run `pgwhen run` and return its exit status: 0 after a signal, 1 after an error."""
    settings = Settings.from_environment()
    set_up(settings.log_level)
    sys.path.insert(0, "")  # modules are looked for where the command is given, as by python -m
    handlers = load(args.sources)
    # Actions in flight are many small objects that soon go: to look for garbage among them at every
    # 700 took a tenth of the time.
    gc.freeze()
    gc.set_threshold(GARBAGE)
    return asyncio.run(_run(settings, handlers))


async def _run(settings: Settings, handlers: Mapping[str, Handler]) -> int:
    daemon = Daemon(settings, handlers)
    status = 1
    try:
        await daemon.run()
        status = 0
    except PgwhenError as exc:
        log.error("%s", exc, extra={"fields": {"hint": exc.hint}} if exc.hint else None)  # noqa: TRY400
    except Exception:
        log.exception("the listener ends: an error that it cannot deal with")
    if daemon.stuck:
        log.warning("leaving handlers behind that do not end")
        logging.shutdown()
        os._exit(status)
    return status
