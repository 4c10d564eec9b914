"""pgwhen: when X happens in Postgres, do Y.

What handlers are written with: see docs/handlers.md.
"""

from __future__ import annotations

from .batch import Batch
from .context import Context, Result
from .errors import ActionError, Cancelled, KeyReused, Unknown
from .handlers import action
from .retry import Retry

__all__ = [
    "ActionError",
    "Batch",
    "Cancelled",
    "Context",
    "KeyReused",
    "Result",
    "Retry",
    "Unknown",
    "action",
]

__version__ = "0.1.0"
