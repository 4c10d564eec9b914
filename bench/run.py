"""`make bench`: pgwhen and its yardsticks, side by side in one run on a server of its own.

Rounds of the two sides alternate, so that what else the machine does falls on both. Prints
progress, and last one line for each ratio: name, value, goal, and `ok` or `short`.

BENCH_SCALE sets the counts (1 ends within half an hour on two cores, 0.05 is a smoke test);
names as arguments choose among the measures.
"""

from __future__ import annotations

import os
import sys

import claims
import drain
import heartbeats
import latency
import next_run
import scheduled
import throughput
import writers
from cluster import cluster
from report import say

MEASURES = {
    "throughput": throughput.measure,
    "writers": writers.measure,
    "latency": latency.measure,
    "claims": claims.measure,
    "drain": drain.measure,
    "scheduled": scheduled.measure,
    "heartbeats": heartbeats.measure,
    "next_run": next_run.measure,
}


def main(names: list[str]) -> int | str:
    """Run the measures *names*, or all."""
    if unknown := set(names) - set(MEASURES):
        return f"no such measure: {', '.join(unknown)}. There are: {', '.join(MEASURES)}"
    scale = float(os.environ.get("BENCH_SCALE", "1"))
    ratios = []
    with cluster() as server:
        say(
            f"PostgreSQL {server.major}, {os.cpu_count()} processors, of which others use "
            f"{os.getloadavg()[0]:.1f}; scale {scale:g}"
        )
        for name in names or MEASURES:
            ratios += MEASURES[name](server, scale)
    print()
    for ratio in ratios:
        print(ratio)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
