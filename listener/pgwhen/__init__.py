"""pgwhen: when X happens in Postgres, do Y."""

from __future__ import annotations

__version__ = "0.1.0"
