-- _pgwhen.reserve: how often one rule may fire for one user.
begin;
\ir ../helpers.psql
select plan(68);

select t.it_is('2030-01-07 12:00+00');
insert into pgwhen.account (line_oa_id, time_zone) values ('bangkok', 'Asia/Bangkok'),
('lost', 'Mars/Base');

create sequence t.number;

-- Whether the second of two events fires a rule that the first has fired.
create function t.fires_again(
    frequency text,
    first timestamptz,
    second timestamptz,
    cooldown_seconds integer default 0,
    time_zone text default null,
    line_oa_id text default 'default'
)
returns boolean
language plpgsql
as $$
declare
    v_name constant text := 'r' || nextval('t.number');
    v_rule constant bigint := t.a_rule(
        v_name, v_name, frequency => fires_again.frequency,
        cooldown_seconds => fires_again.cooldown_seconds, line_oa_id => fires_again.line_oa_id
    );
begin
    perform t.a_user(v_name, line_oa_id => fires_again.line_oa_id,
        time_zone => fires_again.time_zone);
    perform pgwhen.emit(v_name, v_name, line_oa_id => fires_again.line_oa_id, at => first);
    perform pgwhen.emit(v_name, v_name, line_oa_id => fires_again.line_oa_id, at => second);
    perform t.process();
    return (
        select array_agg(a.event ->> 'at' order by a.id) = array[
            to_jsonb(first) #>> '{}', to_jsonb(second) #>> '{}'
        ]
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = v_rule
    );
end;
$$;

-- Rolling periods: by event time, in hours, from the last firing.
select is(
    t.fires_again(f.frequency, '2030-01-07 12:00+00', timestamptz '2030-01-07 12:00+00' + f.later),
    f.fires, format('%s, %s later: %s', f.frequency, f.later, f.fires)
)
from (values
    ('always', interval '0', true),
    ('always', interval '-1 day', true),
    ('once', interval '0', false),
    ('once', interval '200 years', false),
    ('once', interval '-1 second', false),
    ('once_per_minute', interval '59.999999 seconds', false),
    ('once_per_minute', interval '60 seconds', true),
    ('once_per_hour', interval '00:59:59.999999', false),
    ('once_per_hour', interval '1:00:00', true),
    ('once_per_day', interval '23:59:59.999999', false),
    ('once_per_day', interval '24:00:00', true),
    ('once_per_week', interval '167:59:59', false),
    ('once_per_week', interval '168:00:00', true),
    ('once_per_month', interval '719:59:59', false),
    ('once_per_month', interval '720:00:00', true),
    ('once_per_hour', interval '0', false),
    ('once_per_hour', interval '-1:00:00', false),
    ('once_per_hour', interval '-1000:00:00', false),
    ('once_per_calendar_day', interval '-1000:00:00', false)
) as f (frequency, later, fires);
select set_eq(
    $$ select jsonb_array_elements_text(_pgwhen.frequencies()) $$,
    array[
        'always', 'once', 'once_per_minute', 'once_per_hour', 'once_per_day', 'once_per_week',
        'once_per_month', 'once_per_calendar_day', 'once_per_calendar_week',
        'once_per_calendar_month'
    ],
    'there are these frequencies, and each is tried here'
);

-- Calendar periods: to midnight of the user, whatever the day's length.
select is(
    t.fires_again(c.frequency, c.first, c.second, time_zone => c.time_zone), c.fires,
    format('%s, %s to %s in %s: %s', c.frequency, c.first, c.second, c.time_zone, c.fires)
)
from (values
    (
        'once_per_calendar_day',
        timestamptz '2030-01-07 16:59:59.999999+00',
        timestamptz '2030-01-07 17:00+00',
        'Asia/Bangkok',
        true
    ),
    (
        'once_per_calendar_day',
        '2030-01-07 17:00+00',
        '2030-01-08 16:59:59+00',
        'Asia/Bangkok',
        false
    ),
    ('once_per_calendar_day', '2030-01-07 17:00+00', '2030-01-08 17:00+00', 'Asia/Bangkok', true),
    ('once_per_calendar_day', '2030-01-07 00:00+00', '2030-01-07 23:59:59+00', 'UTC', false),
    -- 23 hours, 25 hours, and a day that begins at one o'clock.
    (
        'once_per_calendar_day',
        '2030-03-10 05:00+00',
        '2030-03-11 03:59:59+00',
        'America/New_York',
        false
    ),
    (
        'once_per_calendar_day',
        '2030-03-10 05:00+00',
        '2030-03-11 04:00+00',
        'America/New_York',
        true
    ),
    (
        'once_per_calendar_day',
        '2030-11-03 04:00+00',
        '2030-11-04 04:59:59+00',
        'America/New_York',
        false
    ),
    (
        'once_per_calendar_day',
        '2030-11-03 04:00+00',
        '2030-11-04 05:00+00',
        'America/New_York',
        true
    ),
    -- The clocks go back over midnight: the first half past twelve and the second are one day.
    (
        'once_per_calendar_day',
        '2026-10-25 00:30+00',
        '2026-10-25 01:30+00',
        'Atlantic/Azores',
        false
    ),
    (
        'once_per_calendar_day',
        '2026-10-25 01:30+00',
        '2026-10-26 01:00+00',
        'Atlantic/Azores',
        true
    ),
    (
        'once_per_calendar_day',
        '2018-11-04 02:59:59+00',
        '2018-11-04 03:00+00',
        'America/Sao_Paulo',
        true
    ),
    (
        'once_per_calendar_day',
        '2018-11-04 03:00+00',
        '2018-11-05 01:59:59+00',
        'America/Sao_Paulo',
        false
    ),
    (
        'once_per_calendar_week',
        '2030-01-13 16:59:59+00',
        '2030-01-13 17:00+00',
        'Asia/Bangkok',
        true
    ),
    (
        'once_per_calendar_week',
        '2030-01-06 17:00+00',
        '2030-01-13 16:59:59+00',
        'Asia/Bangkok',
        false
    ),
    (
        'once_per_calendar_month',
        '2030-01-31 16:59:59+00',
        '2030-01-31 17:00+00',
        'Asia/Bangkok',
        true
    ),
    (
        'once_per_calendar_month',
        '2030-01-31 17:00+00',
        '2030-02-28 16:59:59+00',
        'Asia/Bangkok',
        false
    ),
    ('once_per_calendar_month', '2030-02-01 00:00+00', '2030-02-28 23:59:59+00', 'UTC', false)
) as c (frequency, first, second, time_zone, fires);

-- Whose midnight: the user's, else the account's, else that of UTC.
select is(
    t.fires_again(
        'once_per_calendar_day', '2030-01-07 16:59+00', '2030-01-07 17:00+00',
        time_zone => z.time_zone, line_oa_id => z.line_oa_id
    ),
    z.fires, format('a user of %s in account %s: %s', z.time_zone, z.line_oa_id, z.fires)
)
from (values
    (null, 'bangkok', true),
    ('Nowhere/At All', 'bangkok', true),
    ('UTC', 'bangkok', false),
    (null, 'lost', false),
    (null, 'default', false),
    (null, 'no such account', false)
) as z (time_zone, line_oa_id, fires);
select
    is(
        _pgwhen.zone('bangkok', 'nobody'), 'Asia/Bangkok', 'a user that does not exist is there too'
    );

-- A cooldown adds; the longer of the two wins.
select is(
    t.fires_again(
        c.frequency,
        '2030-01-07 23:59:30+00',
        timestamptz '2030-01-07 23:59:30+00' + c.later,
        c.cooldown
    ),
    c.fires, format('%s and %s seconds, %s later: %s', c.frequency, c.cooldown, c.later, c.fires)
)
from (values
    ('always', 90, interval '89.999 seconds', false),
    ('always', 90, interval '90 seconds', true),
    ('once_per_minute', 90, interval '60 seconds', false),
    ('once_per_minute', 30, interval '59 seconds', false),
    ('once_per_minute', 30, interval '60 seconds', true),
    ('once_per_calendar_day', 90, interval '30 seconds', false),
    ('once_per_calendar_day', 90, interval '90 seconds', true),
    ('once_per_calendar_day', 90, interval '91 seconds', true),
    ('once', 90, interval '91 seconds', false)
) as c (frequency, cooldown, later, fires);

-- What is suppressed says why, and until when.
select t.a_user('W', time_zone => 'Asia/Bangkok');
create function t.reason(
    frequency text, cooldown_seconds integer
) returns text language plpgsql as $$
declare
    v_name constant text := 'r' || nextval('t.number');
    v_rule constant bigint := t.a_rule(
        v_name, v_name, frequency => reason.frequency, cooldown_seconds => reason.cooldown_seconds
    );
begin
    perform pgwhen.emit(v_name, 'W', at => '2030-01-07 12:00+00');
    perform pgwhen.emit(v_name, 'W', at => '2030-01-07 12:00:30+00');
    perform t.process();
    return array_to_string(t.log_of(v_rule), ' ');
end;
$$;
select is(
    t.reason(w.frequency, w.cooldown),
    format('suppressed: %s: last fired at 2030-01-07T12:00:00Z, free again %s', w.gate, w.free),
    format('%s, cooldown %s, is free %s', w.frequency, w.cooldown, w.free)
)
from (values
    ('once', 0, 'once', 'never'),
    ('once_per_hour', 0, 'once_per_hour', 'at 2030-01-07T13:00:00Z'),
    ('always', 90, 'cooldown', 'at 2030-01-07T12:01:30Z'),
    ('once_per_calendar_day', 0, 'once_per_calendar_day', 'at 2030-01-07T17:00:00Z'),
    ('once_per_calendar_week', 0, 'once_per_calendar_week', 'at 2030-01-13T17:00:00Z'),
    ('once_per_calendar_month', 0, 'once_per_calendar_month', 'at 2030-01-31T17:00:00Z'),
    ('once_per_calendar_day', 86400, 'once_per_calendar_day', 'at 2030-01-08T12:00:00Z')
) as w (frequency, cooldown, gate, free);

-- Users, rules and accounts do not share a slot.
select t.a_rule('once', 'bought', frequency => 'once') as once \gset
select t.a_rule('once too', 'bought', frequency => 'once') as twice \gset
select pgwhen.emit('bought', 'U' || n % 2) from generate_series(1, 50) as n;
select t.process();
select results_eq(
    $$
    select r.name, a.user_id
    from pgwhen.scheduled_action as a
    inner join pgwhen.trigger_rule as r on a.trigger_rule_id = r.id
    where r.source_type = 'bought'
    order by r.name, a.user_id
    $$,
    $$ values ('once', 'U0'), ('once', 'U1'), ('once too', 'U0'), ('once too', 'U1') $$,
    'fifty events give one action for each rule and user'
);
select is(
    (
        select count(*) from pgwhen.trigger_log as l
        where l.trigger_rule_id in (:once, :twice) and l.status = 'suppressed'
    ),
    96::bigint, 'and a row for each that is suppressed'
);

-- A slot goes back where nothing can have been delivered, and stays where nobody knows.
select t.a_rule('slot', 'slot', frequency => 'once_per_day') as slot \gset
create function t.fire_slot(at timestamptz) returns bigint language plpgsql as $$
begin
    perform pgwhen.emit('slot', 'S', at => fire_slot.at);
    perform t.process();
    return (
        select a.id from pgwhen.scheduled_action as a
        where a.user_id = 'S' and (a.event ->> 'at')::timestamptz = fire_slot.at
    );
end;
$$;
create function t.last_fired() returns timestamptz language sql as $$
select r.last_at from _pgwhen.reservation as r where r.user_id = 'S';
$$;
create function t.fail(id bigint, error jsonb) returns void language plpgsql as $$
declare
    v_claim pgwhen.claimed_action;
begin
    for v_claim in select c.* from pgwhen.claim_actions('w-1') as c loop
        if v_claim.id = fail.id then
            perform pgwhen.fail_actions(
                'w-1', array[v_claim.id], array[v_claim.token], array[fail.error]
            );
        else
            perform pgwhen.release_actions('w-1', array[v_claim.id], array[v_claim.token]);
        end if;
    end loop;
end;
$$;
insert into pgwhen.setting (name, value) values ('maxRetries', '0');

select t.fail(t.fire_slot('2030-01-01 00:00+00'), '{"nonRetryable": true}');
select is(t.last_fired(), null, 'a first action that was refused for good gives its slot back');
select isnt(t.fire_slot('2030-01-01 01:00+00'), null, 'so that the next event fires');
select t.fail(t.fire_slot('2030-01-02 02:00+00'), '{"nonRetryable": true}');
select is(t.last_fired(), '2030-01-01 01:00+00', 'a later one gives it back to the one before');
select t.fail(t.fire_slot('2030-01-03 03:00+00'), '{"message": "connection lost"}');
select is(t.last_fired(), '2030-01-03 03:00+00', 'one of unknown outcome keeps it');
select t.fire_slot('2030-01-05 00:00+00') as older \gset
select t.fire_slot('2030-01-07 00:00+00') as newer \gset
select t.fail(:older, '{"nonRetryable": true}');
select is(
    t.last_fired(), '2030-01-07 00:00+00', 'one that another firing has followed gives nothing back'
);
update pgwhen.trigger_rule set deleted_date = '2030-01-07' where id = :slot;
select is(t.last_fired(), '2030-01-05 00:00+00', 'one that is cancelled gives it back');

select finish();
rollback;
