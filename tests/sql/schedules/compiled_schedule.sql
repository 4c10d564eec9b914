-- _pgwhen.compiled_schedule: a schedule as next_run() reads it.
begin;
\ir ../helpers.psql
select plan(19);

create function t.compiled(source jsonb) returns jsonb language sql as $$
select _pgwhen.compiled_schedule(compiled.source);
$$;

select is(
    t.compiled(c.source::jsonb), c.compiled::jsonb, 'makes of ' || c.source || ' what it says'
)
from (
    values
    (
        '{"every": "15 minutes"}',
        '{"zone": "UTC", "gap": "shift", "overlap": "first", "everySeconds": 900,
            "anchor": "2001-01-01T00:00:00"}'
    ),
    (
        '{"every": 1.5, "anchor": "2026-01-01T09:00:00+07:00", "timezone": "Europe/Berlin"}',
        '{"zone": "Europe/Berlin", "gap": "shift", "overlap": "first", "everySeconds": 1.5,
            "anchor": "2026-01-01T02:00:00"}'
    ),
    (
        '{"every": "2 weeks", "anchor": "2026-01-01T09:00:00+07:00", "timezone": "Europe/Berlin"}',
        '{"zone": "Europe/Berlin", "gap": "shift", "overlap": "first", "everyDays": 14,
            "anchor": "2026-01-01T03:00:00"}'
    ),
    (
        '{"every": "1 year", "start": "2026-01-01T09:00", "timezone": "Asia/Bangkok",
            "dst": {"gap": "skip", "overlap": "both"}}',
        '{"zone": "Asia/Bangkok", "gap": "skip", "overlap": "both", "everyMonths": 12,
            "anchor": "2026-01-01T09:00:00", "start": "2026-01-01T02:00:00"}'
    ),
    (
        '{"at": "2026-01-01T09:00:00+07:00", "timezone": "Europe/Berlin"}',
        '{"zone": "Europe/Berlin", "gap": "shift", "overlap": "first",
            "instant": "2026-01-01T02:00:00"}'
    ),
    (
        '{"at": "2026-01-01T09:00", "timezone": "Asia/Bangkok", "end": "2026-01-02"}',
        '{"zone": "Asia/Bangkok", "gap": "shift", "overlap": "first",
            "at": "2026-01-01T09:00:00", "end": "2026-01-01T17:00:00"}'
    )
) as c (source, compiled);

select is(
    t.compiled(
        jsonb_build_object('cron', c.cron, 'dst', '{"gap": "shift", "overlap": "second"}'::jsonb)
    )
    - array(select jsonb_object_keys(_pgwhen.cron_parsed(c.cron))),
    c.compiled::jsonb, format('of "%s", makes %s', c.cron, c.compiled)
)
from (
    values
    ('0 9 * * 1', '{"zone": "UTC", "gap": "shift", "overlap": "second"}'),
    ('0 * * * 1', '{"zone": "UTC", "gap": "skip", "overlap": "both"}'),
    ('*/5 9 * * 1', '{"zone": "UTC", "gap": "skip", "overlap": "both"}')
) as c (cron, compiled);
select is(
    t.compiled('{"cron": "0 9 * * 1"}') - array['zone', 'gap', 'overlap'],
    _pgwhen.cron_parsed('0 9 * * 1'), 'keeps the parsed expression'
);

-- Whatever the session --------------------------------------------------------------------

create temporary table usual as
select
    s.source, t.compiled(s.source) as compiled,
    _pgwhen.next_run(t.compiled(s.source), '2026-03-04 12:00Z') as run
from (
    values
    ('{"cron": "30 2 1 4 *", "timezone": "Europe/Berlin", "start": "2026-02-03T04:05"}'::jsonb),
    ('{"every": "1 day", "anchor": "2026-02-03T04:05:06.7", "timezone": "Asia/Bangkok"}'),
    ('{"every": "-1 hour 90 minutes", "anchor": "2026-02-03T04:05Z"}')
) as s (source);

set local timezone = 'America/St_Johns';
set local datestyle = 'SQL, DMY';
set local intervalstyle = 'sql_standard';
select is(t.compiled(u.source), u.compiled, 'is the same in any session: ' || u.source::text)
from usual as u;
select is(
    _pgwhen.next_run(u.compiled, '2026-03-04 12:00Z'), u.run,
    'runs at the same time in any session: ' || u.source::text
)
from usual as u;
select is(
    _pgwhen.schedule_faults(u.source, 's'), '{}', 'is right in any session: ' || u.source::text
)
from usual as u;

select finish();
rollback;
