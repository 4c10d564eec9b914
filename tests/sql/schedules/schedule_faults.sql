-- _pgwhen.schedule_faults: the language of schedules.
begin;
\ir ../helpers.psql
select plan(146);

create function t.faults(source jsonb) returns text[] language sql as $$
select array(
    select f.path || ': ' || f.message
    from unnest(
        _pgwhen.schedule_faults(faults.source, 's')
    ) with ordinality as f
    order by f.ordinality
);
$$;
create function t.paths(source jsonb) returns text[] language sql as $$
select array(
    select f.code || ' ' || f.path
    from unnest(_pgwhen.schedule_faults(paths.source, 's')) as f
    order by f.path collate "C"
);
$$;

-- What means something --------------------------------------------------------------------

select is(t.faults(good.source), '{}', 'takes ' || good.source::text)
from (
    values
    ('{"cron": "0 9 * * 1"}'::jsonb), ('{"cron": "@daily", "timezone": "Asia/Bangkok"}'),
    ('{"at": "2030-01-01T09:00:00+07:00"}'), ('{"at": "1999-01-01 00:00Z"}'),
    ('{"at": "2030-01-01T09:00", "timezone": "Asia/Bangkok"}'),
    ('{"at": "2030-01-01", "timezone": "UTC"}'),
    ('{"every": 1}'), ('{"every": 1.5}'), ('{"every": 315360000}'), ('{"every": "1 second"}'),
    ('{"every": "15 minutes"}'), ('{"every": "36 hours"}'), ('{"every": "PT90M"}'),
    ('{"every": "3653 days"}'), ('{"every": "10 years"}'), ('{"every": "1 year 6 months"}'),
    ('{"every": "2 weeks 1 day"}'),
    ('{"every": "1 day", "anchor": "2030-01-01T09:00:00+07:00"}'),
    ('{"every": "1 day", "anchor": "2030-01-01T09:00", "timezone": "Asia/Bangkok"}'),
    ('{"every": "1 hour", "start": "2030-01-01T09:00Z", "end": "2031-01-01T09:00Z"}'),
    ('{"cron": "0 9 * * 1", "dst": {}}'), ('{"cron": "0 9 * * 1", "dst": {"gap": "skip"}}'),
    ('{"cron": "0 9 * * 1", "dst": {"gap": "shift", "overlap": "both"}}'),
    ('{"cron": "0 9 * * 1", "jitter": 0}'), ('{"cron": "0 9 * * 1", "jitter": "5 minutes"}'),
    ('{"cron": "0 9 * * 1", "jitter": 86400}'), ('{"cron": "0 9 * * 1", "overlap": "queue"}'),
    ('{"cron": "0 9 * * 1", "catchUp": "none"}'), ('{"cron": "0 9 * * 1", "catchUp": {}}'),
    ('{"cron": "0 9 * * 1", "catchUp": {"policy": "all", "window": "1 day", "cap": 10}}'),
    ('{"cron": "0 9 * * 1", "catchUp": {"window": 3600}}'),
    ('{"cron": "0 9 * * 1", "audience": "gold members", "log": "all"}'),
    ('{"cron": "0 9 * * 1", "condition": {"user.points": {"$gte": 100}}}')
) as good (source);

-- Keys and types --------------------------------------------------------------------------

select is(t.paths(bad.source), array['PW002 s' || bad.path], 'refuses ' || bad.source::text)
from (
    values
    ('null'::jsonb, ''), ('"0 9 * * 1"', ''), ('[{"cron": "0 9 * * 1"}]', ''),
    ('{"cron": "0 9 * * 1", "timeZone": "UTC"}', '.timeZone'),
    ('{"cron": "0 9 * * 1", "seconds": true}', '.seconds'),
    ('{"cron": ["0 9 * * 1"]}', '.cron'), ('{"cron": 9}', '.cron'), ('{"cron": null}', '.cron'),
    (jsonb_build_object('cron', '0 9 * * ' || repeat('1,', 500) || '1'), '.cron'),
    ('{"at": 1764468000}', '.at'), ('{"at": {"date": "2030-01-01"}}', '.at'),
    (
        '{"every": true}', '.every'), ('{"every": null}', '.every'), ('{"every": {"days": 1}}',
        '.every'
    ),
    ('{"every": 60, "anchor": 0}', '.anchor'),
    ('{"cron": "0 9 * * 1", "timezone": 7}', '.timezone'),
    ('{"cron": "0 9 * * 1", "timezone": ""}', '.timezone'),
    ('{"cron": "0 9 * * 1", "timezone": null}', '.timezone'),
    ('{"cron": "0 9 * * 1", "dst": "shift"}', '.dst'),
    ('{"cron": "0 9 * * 1", "dst": {"gap": "first"}}', '.dst.gap'),
    ('{"cron": "0 9 * * 1", "dst": {"overlap": "none"}}', '.dst.overlap'),
    ('{"cron": "0 9 * * 1", "dst": {"fold": 1}}', '.dst.fold'),
    ('{"cron": "0 9 * * 1", "start": true}', '.start'),
    ('{"cron": "0 9 * * 1", "jitter": -1}', '.jitter'),
    ('{"cron": "0 9 * * 1", "jitter": 86401}', '.jitter'),
    ('{"cron": "0 9 * * 1", "overlap": "cancel"}', '.overlap'),
    ('{"cron": "0 9 * * 1", "catchUp": "some"}', '.catchUp'),
    ('{"cron": "0 9 * * 1", "catchUp": true}', '.catchUp'),
    ('{"cron": "0 9 * * 1", "catchUp": {"policy": "some"}}', '.catchUp.policy'),
    ('{"cron": "0 9 * * 1", "catchUp": {"window": 0}}', '.catchUp.window'),
    ('{"cron": "0 9 * * 1", "catchUp": {"cap": 0}}', '.catchUp.cap'),
    ('{"cron": "0 9 * * 1", "catchUp": {"cap": 1.5}}', '.catchUp.cap'),
    ('{"cron": "0 9 * * 1", "catchUp": {"max": 1}}', '.catchUp.max'),
    ('{"cron": "0 9 * * 1", "audience": " "}', '.audience'),
    ('{"cron": "0 9 * * 1", "condition": true}', '.condition')
) as bad (source, path);

-- When ------------------------------------------------------------------------------------

select is(t.faults(bad.source), bad.faults, 'refuses ' || bad.source::text)
from (
    values
    ('{}'::jsonb, array['s: does not say when']),
    ('{"timezone": "UTC", "audience": "gold members"}', array['s: does not say when']),
    (
        '{"cron": "0 9 * * 1", "every": "1 day"}',
        array['s: says more than once when: "cron" and "every"']
    ),
    (
        '{"at": "2030-01-01T09:00Z", "cron": "0 9 * * 1", "every": 60}',
        array['s: says more than once when: "at" and "cron" and "every"']
    ),
    (
        '{"cron": "0 9 * * 1", "anchor": "2030-01-01T09:00Z"}',
        array['s.anchor: has no meaning without "every"']
    ),
    ('{"cron": "0 0 31 2 *"}', array['s.cron: never comes: no month that it names has such a day']),
    (
        '{"cron": "0 0 9 * * 1", "timezone": "Asia/Bankok"}',
        array[
            's.cron: has 6 fields, not five',
            's.timezone: is no time zone that this server knows, got "Asia/Bankok"'
        ]
    ),
    ('{"at": "tomorrow"}', array['s.at: is no time, got "tomorrow"']),
    ('{"at": "infinity"}', array['s.at: is no time, got "infinity"']),
    ('{"at": "2030-02-30T09:00Z"}', array['s.at: is no time, got "2030-02-30T09:00Z"']),
    ('{"at": "2030-01-01T09:00"}', array['s.at: has no offset from UTC, got "2030-01-01T09:00"']),
    (
        '{"every": 60, "anchor": "noon", "start": "2030-01-01", "end": "never"}',
        array[
            's.anchor: is no time, got "noon"',
            's.start: has no offset from UTC, got "2030-01-01"', 's.end: is no time, got "never"'
        ]
    ),
    (
        '{"cron": "0 9 * * 1", "start": "2030-01-01T09:00Z", "end": "2030-01-01T09:00Z"}',
        array['s.end: is not after "start"']
    ),
    (
        '{"cron": "0 9 * * 1", "start": "2030-01-01T09:00Z", "end": "2030-01-05T09:00Z"}',
        array['s: never runs']
    ),
    (
        '{"at": "2030-01-01T09:00Z", "end": "2030-01-01T09:00Z"}', array['s: never runs']
    ),
    (
        '{"at": "2026-03-29T02:30", "timezone": "Europe/Berlin", "dst": {"gap": "skip"}}',
        array['s: never runs']
    ),
    (
        '{"cron": "0 9 * * 1", "jitter": "2 days"}',
        array['s.jitter: is no interval from none to a day, got "2 days"']
    ),
    (
        '{"cron": "0 9 * * 1", "jitter": "-5 minutes", "catchUp": {"window": "soon"}}',
        array[
            's.jitter: is no interval from none to a day, got "-5 minutes"',
            's.catchUp.window: is no interval from a second to ten years, got "soon"'
        ]
    )
) as bad (source, faults);

select is(
    t.faults(jsonb_build_object('every', bad.every)), array['s.every: ' || bad.fault],
    'refuses every ' || bad.every::text
)
from (
    values
    ('0'::jsonb, 'is shorter than a second, got 0'),
    ('0.999999', 'is shorter than a second, got 0.999999'),
    ('"500 ms"', 'is shorter than a second, got "500 ms"'),
    ('"0 days"', 'is shorter than a second, got "0 days"'),
    ('-60', 'goes backwards, got -60'), ('"-1 day"', 'goes backwards, got "-1 day"'),
    ('"1 month ago"', 'goes backwards, got "1 month ago"'),
    ('"-5 minutes"', 'goes backwards, got "-5 minutes"'),
    ('315360001', 'is longer than ten years, got 315360001'),
    ('1e300', 'is longer than ten years, got 1' || repeat('0', 56) || '...'),
    ('"11 years"', 'is longer than ten years, got "11 years"'),
    ('"4000 days"', 'is longer than ten years, got "4000 days"'),
    ('"90000 hours"', 'is longer than ten years, got "90000 hours"'),
    ('"1 day 12 hours"', 'mixes months, days and hours, got "1 day 12 hours"'),
    ('"1.5 days"', 'mixes months, days and hours, got "1.5 days"'),
    ('"1 month 1 day"', 'mixes months, days and hours, got "1 month 1 day"'),
    ('"1 month -30 days"', 'mixes months, days and hours, got "1 month -30 days"'),
    ('"1 day -1 second"', 'mixes months, days and hours, got "1 day -1 second"'),
    ('"often"', 'is no interval, got "often"'), ('""', 'is no interval, got ""'),
    ('"infinity"', 'is no interval, got "infinity"'),
    ('"99999999999 years"', 'is no interval, got "99999999999 years"'),
    ('"٥ minutes"', 'is no interval, got "٥ minutes"')
) as bad (every, fault);

-- Zones -----------------------------------------------------------------------------------

select is(
    (
        select f.path || ': ' || f.message
        from unnest(_pgwhen.zone_faults(z.zone, 'zone')) as f
    ),
    'zone: ' || z.fault,
    format('%s zone "%s"', case when z.fault is null then 'takes' else 'refuses' end, z.zone)
)
from (
    values
    ('Asia/Bangkok', null), ('asia/bangkok', null), ('America/Argentina/Buenos_Aires', null),
    ('America/Port-au-Prince', null), ('UTC', null), ('Etc/UTC', null), ('Etc/GMT-7', null),
    ('Etc/GMT+12', null),
    ('', 'is no time zone that this server knows, got ""'),
    (' ', 'is no time zone that this server knows, got " "'),
    ('UTC ', 'is no time zone that this server knows, got "UTC "'),
    ('Asia/Bankok', 'is no time zone that this server knows, got "Asia/Bankok"'),
    ('Asia', 'is no time zone that this server knows, got "Asia"'),
    ('../UTC', 'is no time zone that this server knows, got "../UTC"'),
    ('/etc/localtime', 'is no time zone that this server knows, got "/etc/localtime"'),
    ('localtime', 'is no time zone that this server knows, got "localtime"'),
    ('posixrules', 'is no time zone that this server knows, got "posixrules"'),
    ('Factory', 'is no time zone that this server knows, got "Factory"'),
    ('posix/Asia/Bangkok', 'is no time zone that this server knows, got "posix/Asia/Bangkok"'),
    ('right/Asia/Bangkok', 'is no time zone that this server knows, got "right/Asia/Bangkok"'),
    ('+07:00', 'is no time zone that this server knows, got "+07:00"'),
    ('7', 'is no time zone that this server knows, got "7"'),
    ('<+07>-7', 'is no time zone that this server knows, got "<+07>-7"'),
    ('Asia/Bangkok; drop', 'is no time zone that this server knows, got "Asia/Bangkok; drop"'),
    ('local', 'is no time zone that this server knows, got "local"'),
    ('UTC+7', 'is no name of a time zone, got "UTC+7"'),
    ('GMT-7', 'is no name of a time zone, got "GMT-7"'),
    ('Foo/Bar3', 'is no name of a time zone, got "Foo/Bar3"'),
    ('EST5EDT4', 'is no name of a time zone, got "EST5EDT4"'),
    ('ICT-7', 'is no name of a time zone, got "ICT-7"'),
    ('Etc/GMT+13', 'is no name of a time zone, got "Etc/GMT+13"'),
    ('EST', 'is an abbreviation, which has one offset all the year, got "EST"'),
    ('cet', 'is an abbreviation, which has one offset all the year, got "cet"'),
    ('ICT', 'is an abbreviation, which has one offset all the year, got "ICT"'),
    ('Z', 'is an abbreviation, which has one offset all the year, got "Z"')
) as z (zone, fault);

-- With a rule -----------------------------------------------------------------------------

select is(
    _pgwhen.source_faults('schedule', '{"cron": "61 9 * * 1"}'),
    _pgwhen.schedule_faults('{"cron": "61 9 * * 1"}', 'source_config'),
    'are those of a source_config'
);
select is(
    (
        select f.path
        from unnest(_pgwhen.source_faults(
            'schedule', '{"cron": "0 9 * * 1", "condition": {"user.points": {"$gt": [1]}}}'
        )) as f
    ),
    'source_config.condition["user.points"].$gt', 'of a condition are told beside them'
);

select finish();
rollback;
