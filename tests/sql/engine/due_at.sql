-- _pgwhen.due_at: when an action is due.
begin;
\ir ../helpers.psql
select plan(66);

-- By the delay as a rule says it, at noon of 7 January 2019.
create function t.due(
    delay jsonb, value jsonb default null, time_zone text default 'Europe/Berlin'
) returns text
language sql as $$
select to_char(
    _pgwhen.due_at(
        _pgwhen.compiled_delay(due.delay), '2019-01-07 12:00Z', due.value, due.time_zone
    ) at time zone 'UTC',
    'YYYY-MM-DD HH24:MI:SS.US'
);
$$;
create function t.due_until(value text, span jsonb, time_zone text) returns text
language sql as $$
select regexp_replace(
    t.due(
        jsonb_build_object(
            'until', jsonb_build_object('field', 'event.data.at', 'offset', due_until.span)
        ),
        to_jsonb(due_until.value), due_until.time_zone
    ),
    '(:00)?\.000000$', ''
);
$$;

-- Spans and times -------------------------------------------------------------------------

select is(t.due(d.delay), d.due, coalesce(d.delay::text, 'no delay') || ' is due ' || d.due)
from (
    values
    (null::jsonb, '2019-01-07 12:00:00.000000'),
    ('{"seconds": 0}', '2019-01-07 12:00:00.000000'),
    ('{"seconds": 90.5}', '2019-01-07 12:01:30.500000'),
    ('{"seconds": 0.000001}', '2019-01-07 12:00:00.000001'),
    ('{"seconds": 1e-9}', '2019-01-07 12:00:00.000000'),
    ('{"seconds": 259200}', '2019-01-10 12:00:00.000000'),
    ('{"seconds": 315360000}', '2029-01-04 12:00:00.000000'),
    ('{"delaySeconds": 60}', '2019-01-07 12:01:00.000000'),
    ('{"at": "2019-02-01T09:00:00.25+07:00"}', '2019-02-01 02:00:00.250000'),
    ('{"at": "1999-01-01T00:00:00Z"}', '2019-01-07 12:00:00.000000'),
    ('{"at": "9999-12-31T23:59:59Z"}', '9999-12-31 23:59:59.000000'),
    ('{"waitForTracking": true, "expiresSeconds": 60}', '2019-01-07 12:01:00.000000'),
    ('{"waitForTracking": true, "seconds": 0.5}', '2019-01-07 12:00:00.500000'),
    (
        '{"waitForTracking": true, "expiresSeconds": 60, "after": "send"}',
        '2019-01-07 12:00:00.000000'
    )
) as d (delay, due);

-- Until -----------------------------------------------------------------------------------

select is(
    t.due_until(u.value, u.span, u.zone), u.due,
    format('%s in %s, %s: %s', u.value, u.zone, u.span, coalesce(u.due, 'never'))
)
from (
    values
    -- What names an offset is an instant; what names none is a time of the zone.
    ('2019-06-01T09:00:00+07:00', '0'::jsonb, 'Europe/Berlin', '2019-06-01 02:00'),
    ('2019-06-01 09:00Z', '0', 'Europe/Berlin', '2019-06-01 09:00'),
    ('2019-06-01T09:00:00', '0', 'Europe/Berlin', '2019-06-01 07:00'),
    ('2019-06-01 09:00', '0', 'Asia/Bangkok', '2019-06-01 02:00'),
    ('2019-06-01', '0', 'Europe/Berlin', '2019-05-31 22:00'),
    ('2019-06-01', '0', 'UTC', '2019-06-01 00:00'),
    ('2019-06-01T09:00:00.123456', '0', 'UTC', '2019-06-01 09:00:00.123456'),
    ('2019-06-30T23:59:60Z', '0', 'UTC', '2019-07-01 00:00'),
    -- Days and months go by the calendar of the zone, through changes of the clocks.
    ('2019-03-31T08:00:00Z', '"-1 day"', 'Europe/Berlin', '2019-03-30 09:00'),
    ('2019-03-31T08:00:00Z', '"-24 hours"', 'Europe/Berlin', '2019-03-30 08:00'),
    ('2019-03-31T08:00:00Z', '-86400', 'Europe/Berlin', '2019-03-30 08:00'),
    ('2019-03-31T08:00:00Z', '"-1 day"', 'UTC', '2019-03-30 08:00'),
    ('2019-10-28', '"-1 day"', 'Europe/Berlin', '2019-10-26 22:00'),
    ('2019-10-26T10:00', '"1 month"', 'Europe/Berlin', '2019-11-26 09:00'),
    -- A month ends on its last day.
    ('2019-03-31 12:00Z', '"-1 month"', 'UTC', '2019-02-28 12:00'),
    ('2020-03-31 12:00Z', '"-1 month"', 'UTC', '2020-02-29 12:00'),
    ('2020-02-29 12:00Z', '"1 year"', 'UTC', '2021-02-28 12:00'),
    ('2019-01-31 12:00Z', '"1 month 1 day"', 'UTC', '2019-03-01 12:00'),
    -- Which calendar day an instant is depends on the zone.
    ('2019-03-30T18:00:00Z', '"-1 month"', 'Asia/Bangkok', '2019-02-27 18:00'),
    ('2019-03-30T18:00:00Z', '"-1 month"', 'America/New_York', '2019-02-28 19:00'),
    -- The calendar first, then the clock.
    ('2019-03-30T02:30', '"1 day -1 hour"', 'Europe/Berlin', '2019-03-31 00:30'),
    ('2019-03-29 12:00Z', '"1 month -1 day 06:00"', 'UTC', '2019-04-28 18:00'),
    -- A local time that does not exist is later; of one that there is twice, the first counts.
    ('2019-03-31T02:30', '0', 'Europe/Berlin', '2019-03-31 01:30'),
    ('2019-04-01T02:30', '"-1 day"', 'Europe/Berlin', '2019-03-31 01:30'),
    ('2019-10-27T02:30', '0', 'Europe/Berlin', '2019-10-27 00:30'),
    ('2019-10-28T02:30', '"-1 day"', 'Europe/Berlin', '2019-10-27 00:30'),
    ('2019-10-27T01:30:00Z', '0', 'Europe/Berlin', '2019-10-27 01:30'),
    ('2019-10-27T01:30:00Z', '-60', 'Europe/Berlin', '2019-10-27 01:29'),
    -- The past is now, and the far future can be written down.
    ('2019-01-07T12:30:00Z', '"-1 day"', 'UTC', '2019-01-07 12:00'),
    ('0001-01-01', '"-10 years"', 'Asia/Tokyo', '2019-01-07 12:00'),
    ('9999-12-31T23:59:60-15:59', '"10 years"', 'UTC', '9999-12-31 00:00')
) as u (value, span, zone, due);

-- What is no time has no moment.
select is(
    t.due('{"until": {"field": "event.data.at", "offset": "1 day"}}', v.value), null,
    coalesce(v.value::text, 'nothing') || ' is never'
)
from (
    values
    (null::jsonb), ('null'), ('1546300800'), ('true'), ('["2019-06-01"]'), ('{}'), ('"tomorrow"'),
    ('"infinity"'), ('"2019-02-30"'), ('"12:00"'), ('""')
) as v (value);
select is(
    _pgwhen.no_moment_reason('{"until": {"field": "user.trial"}}', null),
    'delay.until: user.trial is missing', 'says what is missing'
);

-- Through the engine ----------------------------------------------------------------------

select t.it_is('2019-01-07 12:00Z');
update pgwhen.account set time_zone = 'Asia/Bangkok' where line_oa_id = 'default';
select t.a_user('NY', '{"trial_ends": "2019-03-11"}', time_zone => 'America/New_York');
select t.a_user('BKK', '{"trial_ends": "2019-03-11"}');
create function t.an_until_rule(
    name text,
    until jsonb,
    action_type text default 'log_message',
    frequency text default 'always'
) returns bigint language sql as $$
select t.a_rule(
    an_until_rule.name, an_until_rule.name, action_type => an_until_rule.action_type,
    action_config => case an_until_rule.action_type when 'log_message' then '{"text": "x"}'
        else '{"audience": "a"}' end::jsonb
        || jsonb_build_object('delay', jsonb_build_object('until', an_until_rule.until)),
    frequency => an_until_rule.frequency
);
$$;

select t.an_until_rule('booked', '{"field": "event.data.at", "offset": "-1 day"}') as booked \gset
select t.an_until_rule('trial', '{"field": "user.trial_ends", "offset": "-1 day 09:00"}') as trial
\gset
select pgwhen.emit('booked', 'NY', '{"at": "2019-03-11T09:00"}');
select pgwhen.emit('booked', 'BKK', '{"at": "2019-03-11T09:00"}');
select pgwhen.emit('booked', 'stranger', '{"at": "2019-01-20T09:00:00Z"}');
select pgwhen.emit('trial', u) from unnest(array['NY', 'BKK']) as u;
select t.process('{log_message}');
select results_eq(
    $$
    select r.name, a.user_id, a.status, a.execute_at at time zone 'UTC', a.action_config
    from pgwhen.scheduled_action as a
    inner join pgwhen.trigger_rule as r on a.trigger_rule_id = r.id
    order by r.name, a.user_id
    $$,
    $$
    values
    ('booked', 'BKK', 'pending', timestamp '2019-03-10 02:00', '{"text": "x"}'::jsonb),
    ('booked', 'NY', 'pending', '2019-03-10 13:00', '{"text": "x"}'),
    ('booked', 'stranger', 'pending', '2019-01-19 09:00', '{"text": "x"}'),
    ('trial', 'BKK', 'pending', '2019-03-10 02:00', '{"text": "x"}'),
    ('trial', 'NY', 'pending', '2019-03-10 14:00', '{"text": "x"}')
    $$,
    'goes by the zone of the user, else of the account, and waits'
);

-- What has passed is due at once: claimed by the caller that made it.
select pgwhen.emit('booked', 'late', '{"at": "2019-01-08T09:00:00Z"}');
select t.process('{log_message}');
select results_eq(
    $$ select a.status, a.execute_at from pgwhen.scheduled_action as a where a.user_id = 'late' $$,
    $$ values ('processing', '2019-01-07 12:00Z'::timestamptz) $$,
    'is due at once for what has passed'
);

-- A tick finds what has become due, SQL actions too.
select t.an_until_rule('sql', '{"field": "event.data.at"}', 'add_to_audience') as sql \gset
select pgwhen.emit('sql', 'U1', '{"at": "2019-01-08T00:00:00Z"}');
select t.process();
select t.it_is('2019-01-07 23:59:59Z');
select is((pgwhen.tick()).actions, 0, 'is not due a second before');
select t.it_is('2019-01-08 00:00Z');
select is((pgwhen.tick()).actions, 1, 'is due to the second');

-- Where there is no time to wait for, that firing fails, and nothing else with it.
select t.an_until_rule('once', '{"field": "event.data.at"}', frequency => 'once') as once \gset
select t.a_rule('beside', 'once') as beside \gset
select pgwhen.emit('once', 'U1', data) from (values
    ('{"at": "soon"}'::jsonb), ('{}'), (null), ('{"at": null}'), ('{"at": 1546300800}'),
    ('{"at": "2019-02-01T00:00:00Z"}'), ('{"at": "2019-02-02T00:00:00Z"}')
) as e (data);
select t.process();
select is(
    (t.log_of(:once))[:5],
    array[
        'failed: delay.until: event.data.at is no time, got "soon"',
        'failed: delay.until: event.data.at is missing',
        'failed: delay.until: event.data.at is missing',
        'failed: delay.until: event.data.at is no time, got null',
        'failed: delay.until: event.data.at is no time, got 1546300800'
    ],
    'fails where there is no time, and says so'
);
select matches(
    array_to_string((t.log_of(:once))[6:], '|'), '^suppressed: once: [^|]*$',
    'which does not count for the frequency: the first with a time fires'
);
select results_eq(
    format(
        'select a.execute_at from pgwhen.scheduled_action as a where a.trigger_rule_id = %s', :once
    ),
    $$ values ('2019-02-01 00:00Z'::timestamptz) $$, 'with its time'
);
select results_eq(
    format(
        $$ select count(*) from pgwhen.scheduled_action as a
        where a.trigger_rule_id = %s and a.status = 'pending' $$, :beside
    ),
    'values (7::bigint)', 'while the rule beside it fires each time'
);
select is_empty(
    'select from _pgwhen.processed_event as p where p.parked is not null', 'and no event is parked'
);

select finish();
rollback;
