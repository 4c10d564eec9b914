-- pgwhen.next_runs: what people see of a schedule.
begin;
\ir ../helpers.psql
select plan(28);

set local timezone = 'UTC';

create function t.shown(source jsonb, after timestamptz, n integer default 3)
returns text[] language sql as $$
select array_agg(
    to_char(r.local_time, 'YYYY-MM-DD HH24:MI') || coalesce(' ' || r.note, '') order by r.scheduled_at
)
from pgwhen.next_runs(source => shown.source, n => shown.n, after => shown.after) as r;
$$;

-- Rows ------------------------------------------------------------------------------------

select results_eq(
    $$
    select * from pgwhen.next_runs(
        source => '{"cron": "0 9 * * 1", "timezone": "Asia/Bangkok"}', n => 2,
        after => '2026-01-05 02:00Z'
    )
    $$,
    $$
    values
        (timestamptz '2026-01-12 02:00Z', timestamp '2026-01-12 09:00', 'Asia/Bangkok', null),
        ('2026-01-19 02:00Z', '2026-01-19 09:00', 'Asia/Bangkok', null)
    $$,
    'are the next times after the one given, in order'
);
select is(
    (select count(*)::integer from pgwhen.next_runs(source => '{"every": 60}')), 10,
    'are ten if nothing is said'
);
select t.it_is('2026-01-05 02:00Z');
select is(
    (select r.scheduled_at from pgwhen.next_runs(source => '{"every": "1 hour"}', n => 1) as r),
    '2026-01-05 03:00Z', 'come after now if nothing is said'
);
select is(
    t.shown('{"cron": "0 9 * * *", "end": "2026-01-07T09:00Z"}', '2026-01-05 12:00Z'),
    '{2026-01-06 09:00}', 'end where the schedule does'
);
select is_empty(
    $$ select * from pgwhen.next_runs(source => '{"at": "1999-01-01T00:00Z"}') $$,
    'are none of what is over'
);

-- Notes -----------------------------------------------------------------------------------

select is(
    t.shown(n.source::jsonb, n.after::timestamptz), n.shown::text[],
    n.source || ' after ' || n.after
)
from (
    values
    (
        '{"cron": "30 2 * * *", "timezone": "Europe/Berlin"}', '2026-03-28 00:00Z',
        array[
            '2026-03-28 02:30',
            '2026-03-29 03:30 02:30 does not exist on 2026-03-29: runs at 03:30',
            '2026-03-30 02:30'
        ]
    ),
    (
        '{"cron": "0,30 2 * * *", "timezone": "Europe/Berlin"}', '2026-03-28 12:00Z',
        array[
            '2026-03-29 03:00 02:00 does not exist on 2026-03-29: runs at 03:00',
            '2026-03-29 03:30 02:30 does not exist on 2026-03-29: runs at 03:30',
            '2026-03-30 02:00'
        ]
    ),
    (
        '{"cron": "30 2 * * *", "timezone": "Europe/Berlin", "dst": {"gap": "skip"}}',
        '2026-03-28 00:00Z',
        array[
            '2026-03-28 02:30', '2026-03-30 02:30 02:30 did not exist on 2026-03-29: skipped',
            '2026-03-31 02:30'
        ]
    ),
    (
        '{"cron": "30 2 * * *", "timezone": "Europe/Berlin"}', '2026-10-24 12:00Z',
        array[
            '2026-10-25 02:30 02:30 comes twice on 2026-10-25: runs the first time',
            '2026-10-26 02:30', '2026-10-27 02:30'
        ]
    ),
    (
        '{"cron": "30 2 * * *", "timezone": "Europe/Berlin", "dst": {"overlap": "second"}}',
        '2026-10-24 12:00Z',
        array[
            '2026-10-25 02:30 02:30 comes twice on 2026-10-25: runs the second time',
            '2026-10-26 02:30', '2026-10-27 02:30'
        ]
    ),
    (
        '{"cron": "0 */2 * * *", "timezone": "Europe/Berlin"}', '2026-03-28 22:30Z',
        array[
            '2026-03-29 00:00', '2026-03-29 04:00 02:00 did not exist on 2026-03-29: skipped',
            '2026-03-29 06:00'
        ]
    ),
    (
        '{"cron": "*/30 * * * *", "timezone": "Europe/Berlin"}', '2026-03-29 00:15Z',
        array['2026-03-29 01:30', '2026-03-29 03:00', '2026-03-29 03:30']
    ),
    (
        '{"cron": "0 * * * *", "timezone": "Europe/Berlin"}', '2026-10-24 23:30Z',
        array[
            '2026-10-25 02:00 02:00 comes twice on 2026-10-25: runs the first time',
            '2026-10-25 02:00 02:00 comes twice on 2026-10-25: runs the second time',
            '2026-10-25 03:00'
        ]
    ),
    (
        '{"cron": "0 9 30 12 *", "timezone": "Pacific/Apia"}', '2011-12-01 00:00Z',
        array[
            '2011-12-31 09:00 09:00 does not exist on 2011-12-30: runs at 2011-12-31 09:00',
            '2012-12-30 09:00', '2013-12-30 09:00'
        ]
    ),
    (
        '{"every": "1 day", "anchor": "2026-01-01T02:30", "timezone": "Europe/Berlin"}',
        '2026-03-28 12:00Z',
        array[
            '2026-03-29 03:30 02:30 does not exist on 2026-03-29: runs at 03:30',
            '2026-03-30 02:30', '2026-03-31 02:30'
        ]
    ),
    (
        '{"every": "30 minutes", "timezone": "Europe/Berlin"}', '2026-10-25 00:30Z',
        array['2026-10-25 02:00', '2026-10-25 02:30', '2026-10-25 03:00']
    ),
    (
        '{"at": "2026-10-25T02:30", "timezone": "Europe/Berlin"}', '2026-01-01 00:00Z',
        array['2026-10-25 02:30 02:30 comes twice on 2026-10-25: runs the first time']
    ),
    (
        '{"at": "2026-10-25T02:30+02:00", "timezone": "Europe/Berlin"}', '2026-01-01 00:00Z',
        array['2026-10-25 02:30']
    )
) as n (source, after, shown);

-- Of a rule ---------------------------------------------------------------------------------

select t.force($$
    insert into pgwhen.trigger_rule (
        id, name, source_type, source_config, action_type, created_date, updated_date
    )
    overriding system value
    values
        (900001, 'monday', 'schedule', '{"cron": "0 9 * * 1"}', 'log_message', now(), now()),
        (900002, 'click', 'campaign_click', '{}', 'log_message', now(), now())
$$);
select is(
    (
        select array_agg(r.scheduled_at order by r.scheduled_at)
        from pgwhen.next_runs(rule => 900001, n => 2, after => '2026-01-01 00:00Z') as r
    ),
    '{2026-01-05 09:00Z,2026-01-12 09:00Z}', 'are those of a rule'
);

-- What is refused -----------------------------------------------------------------------------

select throws_ok(
    'select * from pgwhen.next_runs(' || c.arguments || ')', c.code, c.message,
    format('refuses (%s)', c.arguments)
)
from (
    values
    ('', 'PW401', 'next_runs needs either a rule or a source'),
    (
        'rule => 900001, source => ''{"every": 60}''', 'PW401',
        'next_runs needs either a rule or a source'
    ),
    ('rule => 900002', 'PW401', 'there is no rule 900002 that is a schedule'),
    ('rule => 900003', 'PW401', 'there is no rule 900003 that is a schedule'),
    ('source => ''{"every": 60}'', n => 0', 'PW402', 'n must be from 1 to 1000, got 0'),
    ('source => ''{"every": 60}'', n => 1001', 'PW402', 'n must be from 1 to 1000, got 1001'),
    (
        'source => ''{"every": 60}'', n => null', 'PW402', 'n must be from 1 to 1000, got <NULL>'
    ),
    (
        'source => ''{"cron": "0 25 * * *"}''', 'PW002',
        'source_config.cron: hour "25": "25" is not from 0 to 23'
    ),
    (
        'source => ''"0 9 * * 1"''', 'PW002',
        'source_config: must be an object, got "0 9 * * 1"'
    )
) as c (arguments, code, message);

select finish();
rollback;
