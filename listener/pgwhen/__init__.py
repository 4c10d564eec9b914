"""pgwhen: when X happens in Postgres, do Y.

What handlers are written with: see docs/handlers.md.
"""

from __future__ import annotations

from .context import Batch, Context, Result
from .errors import ActionError
from .handlers import action

__all__ = ["ActionError", "Batch", "Context", "Result", "action"]

__version__ = "0.1.0"
