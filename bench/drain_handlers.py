"""Handlers that do nothing, and say so once they have done it BENCH_COUNT times."""

from __future__ import annotations

import os
from typing import Any

from pgwhen import Batch, Context, Result, action

_left = int(os.environ["BENCH_COUNT"])


@action("single")
async def single(ctx: Context, config: dict[str, Any]) -> None:
    """Do nothing for one action."""
    del ctx, config
    _count(1)


@action("batch", batch=500)
async def batch(actions: Batch) -> list[Result]:
    """Do nothing for many."""
    _count(len(actions))
    return [Result()] * len(actions)


def _count(done: int) -> None:
    global _left  # noqa: PLW0603 -- the number of a process
    _left -= done
    if _left == 0:
        print("handled", flush=True)
