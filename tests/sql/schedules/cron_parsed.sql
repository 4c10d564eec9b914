-- _pgwhen.cron_parsed: what a cron expression means.
begin;
\ir ../helpers.psql
select plan(121);

-- The same thing said otherwise ---------------------------------------------------------------

select is(_pgwhen.cron_parsed(e.said), _pgwhen.cron_parsed(e.plain), e.said || ' is ' || e.plain)
from (
    values
    ('@yearly', '0 0 1 1 *'), ('@annually', '0 0 1 1 *'), ('@monthly', '0 0 1 * *'),
    ('@weekly', '0 0 * * 0'), ('@daily', '0 0 * * *'), ('@midnight', '0 0 * * *'),
    ('@hourly', '0 * * * *'), (' @Daily ', '0 0 * * *'),
    (E'\t0  9\t* *  1 ', '0 9 * * 1'),
    ('00 09 01 02 03', '0 9 1 2 3'),
    ('0 9 * jan mon', '0 9 * 1 1'),
    ('0 9 * FEB-apr Mon-FRI', '0 9 * 2-4 1-5'),
    ('0 9 * jan,DEC sat,SUN', '0 9 * 12,1 0,6'),
    ('0 9 * * 7', '0 9 * * 0'),
    ('0 9 * * 5-7', '0 9 * * 0,5,6'),
    ('0 9 * * 7#2', '0 9 * * sun#2'),
    ('0 9 * * 7L', '0 9 * * 0l'),
    ('0 9 * * friL', '0 9 * * 5L'),
    ('0 9 * * 1#1,1#2,1#3,1#4,1#5', '0 9 * * 1'),
    ('0 9 l * *', '0 9 L * *'),
    ('0-59 0 1 1 1', '0,1-58,59 0 1 1 1'),
    ('1-10/3 0 1 1 1', '1,4,7,10 0 1 1 1'),
    ('10-20/20 0 1 1 1', '10 0 1 1 1'),
    ('5-5/2 0 1 1 1', '5 0 1 1 1')
) as e (said, plain);

-- A field that begins with a star -------------------------------------------------------------

select is(
    (select p.r ->> 'either' || ' ' || (p.r ->> 'fixed') from _pgwhen.cron_parsed(e.cron) as p (r)),
    e.either || ' ' || e.fixed, e.cron || ': either ' || e.either || ', fixed ' || e.fixed
)
from (
    values
    ('0 9 13 * 5', 'true', 'true'), ('0 9 * * 5', 'false', 'true'), ('0 9 13 * *', 'false', 'true'),
    ('0 9 */2 * 5', 'false', 'true'), ('0 9 13 * */2', 'false', 'true'),
    ('0 9 1-31 * 5', 'true', 'true'), ('0 9 1,*/2 * 5', 'true', 'true'),
    (
        '* 9 1 1 1', 'true', 'false'), ('0 * 1 1 1', 'true', 'false'), ('*/5 9 1 1 1', 'true',
        'false'
    ),
    ('0 */2 1 1 1', 'true', 'false'), ('0-59 0-23 1 1 1', 'true', 'true'),
    ('*/60 9 1 1 1', 'true', 'false')
) as e (cron, either, fixed);

-- What is refused -----------------------------------------------------------------------------

create function t.cron_fault(cron text) returns text language sql as $$
select string_agg(f.message, '; ' order by f.ordinality)
from unnest(_pgwhen.cron_faults(cron_fault.cron, 'cron')) with ordinality as f;
$$;

select is(t.cron_fault(e.cron), e.fault, format('refuses "%s": %s', left(e.cron, 40), e.fault))
from (
    values
    ('', 'is blank'), (E' \t', 'is blank'),
    ('* * * *', 'has 4 fields, not five'), ('9', 'has 1 field, not five'),
    ('0 0 9 * * 1', 'has 6 fields, not five'), ('0 0 9 ? * MON 2026', 'has 7 fields, not five'),
    (E'0\u00a00 * * *', 'has 4 fields, not five'), (E'0 9 * *\n1', 'has 4 fields, not five'),
    ('@reboot', '@reboot is the start of a server, and no time'),
    ('@every 5m', '@every is no cron'),
    ('@fortnightly', '"@fortnightly" is no macro that is known'),
    ('CRON_TZ=Asia/Bangkok 0 9 * * 1', 'begins with a variable'),
    ('60 9 * * *', 'minute "60": "60" is not from 0 to 59'),
    ('0 24 * * *', 'hour "24": "24" is not from 0 to 23'),
    ('0 0 0 * *', 'day of month "0": "0" is not from 1 to 31'),
    ('0 0 32 * *', 'day of month "32": "32" is not from 1 to 31'),
    ('0 0 * 13 *', 'month "13": "13" is not from 1 to 12'),
    ('0 0 * JANUARY *', 'month "JANUARY": "JANUARY" is not from 1 to 12'),
    ('0 0 * MON *', 'month "MON": "MON" is not from 1 to 12'),
    ('0 0 * * 8', 'day of week "8": "8" is not from 0 to 7'),
    ('0 0 * * 5#6', 'day of week "5#6": a month has no day of the week number 6'),
    ('0 0 * * 5#0', 'day of week "5#0": a month has no day of the week number 0'),
    ('0 0 * * 8#1', 'day of week "8#1": "8#1" is not understood'),
    ('5/15 * * * *', 'minute "5/15": the step of 5/15 has no range'),
    ('*/0 * * * *', 'minute "*/0": a step of 0 is not from 1 to 60'),
    ('*/90 * * * *', 'minute "*/90": a step of 90 is not from 1 to 60'),
    ('0 */25 * * *', 'hour "*/25": a step of 25 is not from 1 to 24'),
    ('0 0 */32 * *', 'day of month "*/32": a step of 32 is not from 1 to 31'),
    ('0 0 * */13 *', 'month "*/13": a step of 13 is not from 1 to 12'),
    ('0 0 * * */8', 'day of week "*/8": a step of 8 is not from 1 to 7'),
    (
        '*/' || repeat('9', 500) || ' 0 * * *',
        'minute "*/' || repeat('9', 38) || '": a step of 9999999999 is not from 1 to 60'
    ),
    ('0 22-2 * * *', 'hour "22-2": the range 22-2 runs backwards'),
    ('0 0 * * fri-sun', 'day of week "FRI-SUN": the range FRI-SUN runs backwards'),
    ('0,,5 9 * * *', 'minute "0,,5": an item is missing'),
    ('0, 5 9 * *', 'minute "0,": an item is missing'),
    ('0 0 ? * 1', 'day of month "?": "?" is not understood'),
    ('0 0 15W * *', 'day of month "15W": "15W" is not from 1 to 31'),
    ('0 0 L-3 * *', 'day of month "L-3": "L" is not from 1 to 31'),
    ('0 0 L/2 * *', 'day of month "L/2": "L" is not from 1 to 31'),
    ('0 0 * * L', 'day of week "L": "L" is not from 0 to 7'),
    ('L 0 * * *', 'minute "L": "L" is not from 0 to 59'),
    ('-5 0 * * *', 'minute "-5": "-5" is not understood'),
    ('005 0 * * *', 'minute "005": "005" is not from 0 to 59'),
    ('1.5 0 * * *', 'minute "1.5": "1.5" is not understood'),
    ('*-5 0 * * *', 'minute "*-5": "*-5" is not understood'),
    ('** 0 * * *', 'minute "**": "**" is not understood'),
    ('1-5-9 0 * * *', 'minute "1-5-9": "1-5-9" is not understood'),
    ('H 0 * * *', 'minute "H": "H" is not from 0 to 59'),
    ('0~30 0 * * *', 'minute "0~30": "0~30" is not understood'),
    ('٥ 0 * * *', 'minute "٥": "٥" is not understood'),
    ('0 ๙ * * *', 'hour "๙": "๙" is not understood'),
    ('0 0 * * ſun', 'day of week "ſUN": "ſUN" is not understood'),
    (E'0\x01 9 * * 1', E'minute "0\x01": "0\x01" is not understood'),
    (
        '60 9 0 * 8',
        'minute "60": "60" is not from 0 to 59; day of month "0": "0" is not from 1 to 31; '
        || 'day of week "8": "8" is not from 0 to 7'
    )
) as e (cron, fault);

select is(_pgwhen.cron_parsed(e.cron), null, coalesce(e.cron, 'null') || ' has no parsed form')
from (values ('61 9 * * *'), ('0 0 31 2 *'), (''), (null)) as e (cron);

select is(
    (select f.hint from unnest(_pgwhen.cron_faults(e.cron, 'cron')) as f), e.hint,
    format('of "%s" says: %s', e.cron, e.hint)
)
from (
    values
    (
        '0 0 9 * * 1',
        'There are no seconds and no year. Write minute, hour, day of month, month and day of week,'
        || ' for example "0 9 * * 1".'
    ),
    ('@every 5m', 'Write "every" instead of "cron", for example {"every": "15 minutes"}.'),
    ('TZ=UTC 0 9 * * 1', 'The zone stands beside it, for example "timezone": "Asia/Bangkok".'),
    ('5/15 * * * *', 'Write "5-59/15".'), ('0 3/4 * * *', 'Write "3-23/4".'),
    (
        '*/90 * * * *', 'A step starts anew with each hour; for a rhythm that does not, write '
        || '"every" instead of "cron".'
    ),
    ('0 22-2 * * *', 'Write "22-23,0-2".'), ('0 22-0 * * *', 'Write "22-23,0".'),
    ('0 0 * 11-2 *', 'Write "11-12,1-2".'), ('0 0 * * fri-mon', 'Write "5-7,1".'),
    ('0 0 * * fri-sun', 'Write "5-7".'), ('0 0 * * 6-2', 'Write "6-7,1-2".'),
    ('0 0 ? * 1', 'Write "*" for any.'),
    (
        '0 0 * * 5#6',
        'Write 1 to 5, for example "5#2" for the second Friday, or "5L" for the last.'
    ),
    ('0 0 31 2 *', 'Name a day that there is, or "L" for the last one of a month.')
) as e (cron, hint);

-- Days that never come ------------------------------------------------------------------------

select is(
    t.cron_fault(e.cron),
    case when not e.comes then 'never comes: no month that it names has such a day' end,
    e.cron || case when e.comes then ' comes' else ' never comes' end
)
from (
    values
    ('0 0 31 2 *', false), ('0 0 30 2 *', false), ('0 0 31 2,4,6,9,11 *', false),
    ('0 0 31 4 */2', false), ('0 0 */31 * 5#5', false),
    ('0 0 29 2 *', true), ('0 0 29 2 */7', true), ('0 0 31 2 1', true), ('0 0 30,31 1-2 *', true),
    ('0 0 * 2 1#5', true), ('0 0 * 2 2#5', true)
) as e (cron, comes);

select finish();
rollback;
