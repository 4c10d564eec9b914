"""What it costs to say when a schedule runs next.

The 200 expressions of ``crontab.txt``, each in four zones, are compiled once, as they are when a
rule is saved. For each, the next run is asked for after 60 instants: every sixth day or so of one
year, and the hours around the changes of clocks in it. A call is timed inside of the server, five
times, of which the fastest counts: the others were interrupted.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from cluster import Database
from report import Ratio, say

if TYPE_CHECKING:
    from pgwhen.embedded import Server

HERE = Path(__file__).parent
ZONES = ["UTC", "Asia/Bangkok", "Europe/Berlin", "America/New_York"]

TIMED = """
create function pg_temp.timed(schedule jsonb, afters timestamptz[]) returns float8[]
language plpgsql as $$
declare
    v_after timestamptz;
    v_start timestamptz;
    v_best float8;
    v_times float8[];
begin
    foreach v_after in array afters loop
        v_best := 'infinity';
        for v_n in 1 .. 5 loop
            v_start := clock_timestamp();
            perform _pgwhen.next_run(schedule, v_after);
            v_best := least(v_best, extract(epoch from clock_timestamp() - v_start));
        end loop;
        v_times := v_times || v_best;
    end loop;
    return v_times;
end;
$$
"""
AFTERS = """
select array_agg(a.after)
from (
    select timestamptz '2026-01-01 00:00Z' + n * interval '155:53:17' as after
    from generate_series(0, 55) as n
    union all
    values
        (timestamptz '2026-03-08 06:59Z'), ('2026-03-29 00:31Z'), ('2026-10-25 00:31Z'),
        ('2026-11-01 05:31Z')
) as a
"""


def measure(server: Server, scale: float) -> list[Ratio]:  # noqa: ARG001 - it takes seconds
    """Return the median of all calls, in microseconds, and the worst, in milliseconds."""
    crons = [
        line
        for line in (HERE / "crontab.txt").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    times: dict[tuple[str, str], list[float]] = {}
    with Database(server, "next_run").connect() as conn:
        conn.execute(TIMED)
        (afters,) = conn.execute(AFTERS).fetchone() or ([],)
        say(f"next_run: {len(crons)} expressions in {len(ZONES)} zones, {len(afters)} instants")
        for cron in crons:
            for zone in ZONES:
                (times[cron, zone],) = conn.execute(
                    "select pg_temp.timed(_pgwhen.compiled_schedule("
                    "jsonb_build_object('cron', %s::text, 'timezone', %s::text)), %s)",
                    [cron, zone, afters],
                ).fetchone() or ([],)
    calls = [seconds for listed in times.values() for seconds in listed]
    slowest = max(times, key=lambda key: max(times[key]))
    say(
        f"  median {1e6 * median(calls):.1f} µs; worst {1e6 * max(calls):.0f} µs, of "
        f"{slowest[0]} in {slowest[1]}"
    )
    return [
        Ratio("next_run_us", 1e6 * median(calls), 50, at_most=True),
        Ratio("next_run_worst_ms", 1e3 * max(calls), 2, at_most=True),
    ]
