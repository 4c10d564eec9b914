"""The worker of pgqueuer: run by the Python of .venv-peers. BENCH_COUNT jobs will come."""

from __future__ import annotations

import os

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job  # noqa: TC002 -- pgqueuer reads the annotation


async def main(count: int) -> None:
    """Do nothing, *count* times, and go on waiting."""
    worker = PgQueuer(AsyncpgDriver(await asyncpg.connect()))
    left = count

    @worker.entrypoint("bench")
    async def bench(job: Job) -> None:
        del job
        nonlocal left
        left -= 1
        if left == 0:
            print("handled", flush=True)

    print("starting", flush=True)
    await worker.run(batch_size=500)


if __name__ == "__main__":
    uvloop.run(main(int(os.environ["BENCH_COUNT"])))
