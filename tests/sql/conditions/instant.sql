-- _pgwhen.to_instant, _pgwhen.offset_text, _pgwhen.moved: times that documents and conditions name.
begin;
\ir ../helpers.psql
set local timezone = 'America/New_York';
set local datestyle = 'German, DMY';
select plan(33);

select is(_pgwhen.to_instant(i.value), i.instant, format('to_instant reads %s', i.value))
from (
    values
    ('2024-03-31', '2024-03-31 00:00Z'::timestamptz),
    ('2024-03-31T12:00', '2024-03-31 12:00Z'),
    ('2024-03-31 12:00:01.5Z', '2024-03-31 12:00:01.5Z'),
    ('2024-03-31t12:00:00z', '2024-03-31 12:00Z'),
    ('2024-03-31T12:00:00.123456789+07', '2024-03-31 05:00:00.123457Z'),
    ('2024-03-31T12:00:00-0930', '2024-03-31 21:30Z'),
    ('2024-12-31T23:59:60Z', '2025-01-01 00:00Z'),
    ('0001-01-01', '0001-01-01 00:00Z'),
    ('9999-12-31T23:59:59Z', '9999-12-31 23:59:59Z')
) as i (value, instant);
select is(_pgwhen.to_instant(i.value), null, format('to_instant finds no time in %L', i.value))
from (
    values
    (null), (''), ('now'), ('today'), ('infinity'), ('epoch'), ('31.03.2024'), ('2024-03-32'),
    ('2024-02-30'), ('2023-02-29'), ('24-03-31'), ('2024-3-31'), ('2024-03-31T25:00'),
    ('2024-03-31T12:00+16:00'), ('2024-03-31T12:00 Asia/Bangkok'), (e'2024-03-31\n')
) as i (value);

select is(_pgwhen.offset_text(o.value), o.expected, format('offset_text reads %s', o.value))
from (
    values
    ('"-7 days"'::jsonb, 'P-7D'),
    ('90.5', 'PT1M30.5S'),
    ('"1 year 2 months ago"', 'P-1Y-2M'),
    ('0', 'PT0S'),
    ('"1001 years"', null),
    ('[]', null)
) as o (value, expected);

select is(
    _pgwhen.moved('2024-03-31 12:00Z', 'P-1M'), '2024-02-29 12:00Z', 'moved goes by the calendar'
);
select is(
    _pgwhen.moved('2024-03-10 12:00Z', 'P1D'), '2024-03-11 12:00Z',
    'moved goes by the calendar of UTC, not of the session'
);

select finish();
rollback;
