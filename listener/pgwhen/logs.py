"""Log lines for people and for grep: time, level, where, what, then name=value."""

from __future__ import annotations

import logging
import sys
import threading
from typing import Any

from .redact import logged


class LineFormatter(logging.Formatter):
    """One record, one line: control characters are escaped, so that no value can forge a line.

    What a record carries as `fields`, a dict, stands behind the message. A traceback follows on
    lines of its own. Secrets that handlers were given are left out of all of it.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S%z")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of *record*, and its traceback."""
        return logged(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- logging's name
        """Return the line of *record*."""
        fields: dict[str, Any] = getattr(record, "fields", {})
        words = [super().formatMessage(record), *(f"{k}={v}" for k, v in fields.items())]
        return visible(logged(" ".join(words)))


def set_up(level: str) -> None:
    """Log to stderr from *level* up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_thread
    # At INFO it logs every connection that it hands out.
    logging.getLogger("psycopg.pool").setLevel(max(logging.WARNING, logging.getLevelName(level)))


def visible(text: str) -> str:
    """Return *text* with what cannot be seen, or would move the cursor, as an escape."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _log_thread(args: threading.ExceptHookArgs) -> None:
    """Log what ends a thread of a handler's own, in a line that hides secrets."""
    name = args.thread.name if args.thread else None
    logging.getLogger(__name__).error(
        "a thread ended",
        extra={"fields": {"thread": name, "error": args.exc_type.__name__}},
        exc_info=args.exc_value if logging.getLogger().isEnabledFor(logging.DEBUG) else None,
    )
