"""The least that a listener can be: wait for a notification, take the rows, look at the clock.

Ends when it has taken as many rows as its argument says, and leaves in bench.received which
transaction wrote each and when it was in hand.
"""

from __future__ import annotations

import sys
import time

import psycopg

READY = "ready"


def main(count: int) -> None:
    """Receive *count* rows."""
    received: list[tuple[str, float]] = []
    with psycopg.connect(autocommit=True) as listener, psycopg.connect(autocommit=True) as worker:
        listener.execute("listen bench")
        print(READY, flush=True)
        for _ in listener.notifies():
            rows = worker.execute("delete from bench.queue as q returning q.xmin::text").fetchall()
            now = time.time()
            received += ((xid, now) for (xid,) in rows)
            if len(received) == count:
                break
        worker.cursor().executemany("insert into bench.received values (%s, %s)", received)


if __name__ == "__main__":
    main(int(sys.argv[1]))
