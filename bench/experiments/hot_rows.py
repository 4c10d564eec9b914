"""What indexes and fillfactor cost the rows that change: the figures of docs/adr/0005-hot-rows.md.

Each table is used as pgwhen uses it, once as built and once with one thing changed. Run it from the
repository with

    PYTHONPATH=bench python bench/experiments/hot_rows.py
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster import Database, cluster

if TYPE_CHECKING:
    import psycopg

ROWS = 20_000
BATCH = 500
PASSES = 5


@dataclass(frozen=True)
class Trial:
    """A table, what to change in it, and a statement that changes rows `first` to `last`."""

    table: str
    variant: str
    change: str
    fill: str
    work: str
    passes: int = 1


FILL_ACTIONS = """
insert into pgwhen.scheduled_action (trigger_rule_id, user_id, action_type, key)
select 1, 'U' || i, 'note_start', gen_random_uuid() from generate_series(1, {rows}) as i
"""
WORK_ACTIONS = """
select array_agg(c.id), array_agg(c.token)
from pgwhen.claim_actions('w', {batch}, '{{note_start}}') as c
"""
FILL_RESERVATIONS = """
insert into _pgwhen.reservation (trigger_rule_id, user_id, last_at, allowed_before, holder)
select 1, 'U' || i, '-infinity', '-infinity', gen_random_uuid()
from generate_series(1, {rows}) as i
"""
WORK_RESERVATIONS = """
insert into _pgwhen.reservation as held (trigger_rule_id, user_id, last_at, allowed_before, holder)
select 1, 'U' || i, clock_timestamp(), clock_timestamp(), gen_random_uuid()
from generate_series({first} + 1, {first} + {batch}) as i
order by 1, 2
on conflict on constraint reservation_pkey do update
set last_at = excluded.last_at, holder = excluded.holder, previous_at = held.last_at
"""
FILL_USERS = """
insert into pgwhen.line_user (user_id, attributes)
select 'U' || i, jsonb_build_object('points', i, 'tier', 'gold', 'display_name', 'Customer ' || i)
from generate_series(1, {rows}) as i
"""
WORK_USERS = """
update pgwhen.line_user as u
set attributes = u.attributes || jsonb_build_object('points', {first} + {number})
from generate_series({first} + 1, {first} + {batch}) as i
where u.line_oa_id = 'default' and u.user_id = 'U' || i
"""

TRIALS = (
    Trial("pgwhen.scheduled_action", "as built", "", FILL_ACTIONS, WORK_ACTIONS),
    Trial(
        "pgwhen.scheduled_action",
        "index on users not partial",
        "drop index pgwhen.idx_scheduled_action_user; create index idx_scheduled_action_user "
        "on pgwhen.scheduled_action (user_id, trigger_rule_id)",
        FILL_ACTIONS,
        WORK_ACTIONS,
    ),
    Trial(
        "pgwhen.scheduled_action",
        "no index partial",
        "drop index pgwhen.idx_scheduled_action_user, pgwhen.idx_scheduled_action_pending, "
        "pgwhen.idx_scheduled_action_processing, pgwhen.idx_scheduled_action_ended; "
        "create index on pgwhen.scheduled_action (user_id, trigger_rule_id);"
        "create index on pgwhen.scheduled_action (status, action_type, execute_at, id);"
        "create index on pgwhen.scheduled_action (status, deadline);"
        "create index on pgwhen.scheduled_action (status, updated_at)",
        FILL_ACTIONS,
        WORK_ACTIONS,
    ),
    Trial(
        "pgwhen.scheduled_action",
        "fillfactor 100",
        "alter table pgwhen.scheduled_action set (fillfactor = 100)",
        FILL_ACTIONS,
        WORK_ACTIONS,
    ),
    *(
        Trial(table, variant, change.format(table), fill, work, PASSES)
        for table, fill, work in (
            ("_pgwhen.reservation", FILL_RESERVATIONS, WORK_RESERVATIONS),
            ("pgwhen.line_user", FILL_USERS, WORK_USERS),
        )
        for variant, change in (
            ("as built", ""),
            ("fillfactor 100", "alter table {} set (fillfactor = 100)"),
        )
    ),
)

FIGURES = """
select
    100.0 * s.n_tup_hot_upd / greatest(1, s.n_tup_upd),
    pg_relation_size(s.relid) / 1024.0 / 1024,
    pg_indexes_size(s.relid) / 1024.0 / 1024
from pg_stat_user_tables as s
where s.relid = %s::regclass
"""


def main() -> None:
    """Run each trial in a database of its own and print a line about it."""
    with cluster() as server:
        for number, trial in enumerate(TRIALS):
            with Database(server, f"hot_{number}").connect() as conn:
                run(trial, conn)


def run(trial: Trial, conn: psycopg.Connection) -> None:
    """Fill, vacuum, change rows a batch at a time with a vacuum between passes, and report."""
    if trial.change:
        conn.execute(trial.change.encode(), prepare=False)
    mute = "begin; select pgwhen.mute();" if trial.table == "pgwhen.line_user" else "begin;"
    conn.execute(f"{mute} {trial.fill.format(rows=ROWS)}; commit".encode(), prepare=False)
    conn.execute("vacuum analyze")
    seconds = 0.0
    for number in range(trial.passes):
        for first in range(0, ROWS, BATCH):
            statement = trial.work.format(first=first, batch=BATCH, number=number)
            start = time.perf_counter()
            if trial.work is WORK_ACTIONS:
                claimed = conn.execute(statement.encode()).fetchone()
                conn.execute("select pgwhen.complete_actions('w', %s, %s)", claimed)
            else:
                conn.execute(f"{mute} {statement}; commit".encode(), prepare=False)
            seconds += time.perf_counter() - start
        conn.execute("vacuum")
    conn.execute("select pg_stat_force_next_flush()")
    hot, heap, indexes = (float(x) for x in conn.execute(FIGURES, [trial.table]).fetchone() or ())
    print(
        f"{trial.table}, {trial.variant}: {1e6 * seconds / ROWS / trial.passes:.1f} us a row, "
        f"HOT {hot:.0f} %, table {heap:.1f} MB, indexes {indexes:.1f} MB",
        flush=True,
    )


if __name__ == "__main__":
    main()
