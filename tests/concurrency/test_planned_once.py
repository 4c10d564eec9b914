"""No hot path plans a statement anew each time: see docs/benchmarks.md, "Where the time goes".

A SQL function that cannot be inlined is parsed and planned by every statement that calls it, which
costs more than all else that a lone event needs. Postgres counts the calls of those alone: what is
inlined leaves no trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.concurrency.scene import add_rule, claim, process, report, scalar

if TYPE_CHECKING:
    import psycopg

ROUNDS = 20
PLANNED_ANEW = """
select f.funcname, f.calls
from pg_stat_user_functions as f
inner join pg_proc as p on p.oid = f.funcid
inner join pg_language as l on l.oid = p.prolang
where l.lanname = 'sql' and f.schemaname in ('pgwhen', '_pgwhen') and f.calls >= %s
"""

NEXT_RUNS = """
do $$
declare
    v_berlin constant jsonb := '{"zone": "Europe/Berlin", "gap": "shift", "overlap": "first"}';
    v_schedule jsonb;
begin
    foreach v_schedule in array array[
        '%s', '{"everySeconds": 900, "anchor": "2001-01-01"}',
        '{"everyDays": 2, "anchor": "2001-01-01"}', '{"everyMonths": 1, "anchor": "2001-01-01"}',
        '{"at": "2026-03-29 02:30:00"}', '{"instant": "2026-03-29 02:30:00"}'
    ]::jsonb[] loop
        perform _pgwhen.next_run(v_berlin || v_schedule, a.after)
        from unnest('{2026-03-28 12:00Z,2026-05-01 00:00Z}'::timestamptz[]) as a (after);
    end loop;
end;
$$
"""


def test_no_sql_function_is_called_for_each_event(shop: psycopg.Connection) -> None:
    """Writers, a pass, claims, reports and requests: whatever comes for each event or action."""
    add_rule(shop, "form", "deliver", event="form_submitted")
    add_rule(shop, "click", "deliver", event="campaign_click", frequency="once_per_calendar_day")
    add_rule(shop, "attribute", "deliver", event="attribute_changed")
    shop.execute("select pgwhen.register_action('deliver')")
    shop.execute("insert into pgwhen.line_user (user_id) values ('u')")
    go_round(shop, -1)
    shop.execute("set track_functions = 'all'")

    for n in range(ROUNDS):
        go_round(shop, n)

    shop.execute("select pg_stat_force_next_flush()")
    shop.execute("select 1")
    assert scalar(
        shop, "select count(*) > 20 from pg_stat_user_functions where calls >= %s", ROUNDS
    )
    assert sorted(shop.execute(PLANNED_ANEW, [ROUNDS]).fetchall()) == []


def test_no_sql_function_is_called_for_each_run(shop: psycopg.Connection) -> None:
    """The next run of each kind of schedule, in the night of a change and far from one."""
    parsed = scalar(shop, "select _pgwhen.cron_parsed('30 2 * * *')::text")
    shop.execute("set track_functions = 'all'")

    for _ in range(ROUNDS):
        shop.execute(NEXT_RUNS % parsed)

    shop.execute("select pg_stat_force_next_flush()")
    shop.execute("select 1")
    calls = "select calls from pg_stat_user_functions where funcname = 'next_by_change'"
    assert scalar(shop, calls) >= ROUNDS
    assert sorted(shop.execute(PLANNED_ANEW, [ROUNDS]).fetchall()) == []


def go_round(conn: psycopg.Connection, n: int) -> None:
    """Let one of each happen, and be dealt with."""
    conn.execute("insert into pgwhen.form_submission (user_id, form_id) values ('u', 'f')")
    conn.execute("insert into pgwhen.campaign_click (user_id, campaign) values ('u', 'c')")
    conn.execute("update pgwhen.line_user set attributes = jsonb_build_object('n', %s)", [n])
    conn.execute("select pgwhen.emit('paid', 'u')")
    made = process(conn, types=["deliver"]).actions
    report(conn, "complete_actions", [(action["id"], action["token"]) for action in made])
    for _ in range(4):
        conn.execute("select pgwhen.schedule_action('deliver', 'u')")
    conn.execute("select pgwhen.schedule_action('deliver', 'u', delay => '{\"seconds\": 60}')")
    busy, first, second, third = claim(conn, "deliver")
    report(conn, "fail_actions", [busy], ['{"message": "busy"}'])
    report(conn, "fail_actions", [first], ['{"message": "no", "nonRetryable": true}'])
    report(conn, "release_actions", [second])
    rest = conn.execute(
        "select id, token from pgwhen.exchange_actions('w', %s, %s, action_types => '{deliver}')",
        [[third[0]], [third[1]]],
    ).fetchall()
    report(conn, "complete_actions", rest)
