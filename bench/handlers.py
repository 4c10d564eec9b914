"""The action types of the benchmarks: handlers that note when they start."""

from __future__ import annotations

import time

from pgwhen import Context, action


@action("note_start")
async def note_start(ctx: Context, config: dict[str, object]) -> dict[str, float]:
    """Return when this started, in seconds since the epoch: it stays in the action's row."""
    del ctx, config
    return {"started": time.time()}
