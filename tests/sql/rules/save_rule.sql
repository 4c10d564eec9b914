-- Saving a row of pgwhen.trigger_rule: what is refused, what is dated, what is compiled.
begin;
select plan(50);

create or replace function _pgwhen.clock() returns timestamptz language sql volatile as $$
select current_setting('test.now')::timestamptz;
$$;
select set_config('test.now', '2030-01-01 12:00 UTC', true) as now \gset
set local client_min_messages = error;

create function pg_temp.compiled(rule_name text) returns setof _pgwhen.rule language sql as $$
select c.* from _pgwhen.rule as c
inner join pgwhen.trigger_rule as r on c.trigger_rule_id = r.id
where r.name = rule_name;
$$;
create function pg_temp.enabled_date(rule_name text) returns timestamptz language sql as $$
select r.enabled_date from pgwhen.trigger_rule as r where r.name = rule_name;
$$;
create function pg_temp.detail_of(statement text) returns text language plpgsql as $$
declare
    v_detail text;
begin
    execute statement;
    return null;
exception
    when others then
        get stacked diagnostics v_detail = pg_exception_detail;
        return v_detail;
end;
$$;

-- What is compiled ------------------------------------------------------------------------

insert into pgwhen.trigger_rule
(name, source_type, source_config, action_type, action_config, frequency, cooldown_seconds)
values
(
    'gold', 'attribute_changed',
    '{"attribute": "tier", "from": ["silver", null], "to": "gold",
      "condition": {"user.points": {"$gte": 100}}, "log": "all"}',
    'add_to_audience', '{"audience": "gold members", "delay": {"seconds": 60}}', 'once', 0
),
('form', 'form_submitted', '{}', 'log_message', '{"text": "hi"}', 'once_per_week', 86400),
('slow', 'form_submitted', '{}', 'log_message', '{"text": "hi"}', 'once_per_minute', 86400),
('daily', 'form_submitted', '{}', 'log_message', '{"text": "hi"}', 'once_per_calendar_day', 0);

select results_eq(
    $$
    select source_type, key, frequency, period, calendar, action_type, action_config, delay,
        log_all, enabled_date
    from pg_temp.compiled('gold')
    $$,
    $$
    values (
        'attribute_changed', 'tier', 'once', null::interval, null, 'add_to_audience',
        '{"audience": "gold members"}'::jsonb, '{"seconds": 60}'::jsonb, true,
        '2030-01-01 12:00 UTC'::timestamptz
    )
    $$,
    'compiles a live rule, its delay apart from the config'
);
select
    ok(
        jsonb_path_match(
            '{"event": {"old": "silver", "new": "gold"}, "user": {"points": 100}}',
            match_path,
            match_vars
        ) and jsonb_path_match(
            '{"event": {"old": "silver", "new": "gold"}, "user": {"points": 100}}',
            condition_path, condition_vars
        ),
        'compiles source and condition to paths that hold where they should'
    )
from pg_temp.compiled('gold');
select
    ok(
        not jsonb_path_match('{"event": {"old": "tin", "new": "gold"}}', match_path, match_vars)
        and not jsonb_path_match('{"user": {"points": 99}}', condition_path, condition_vars),
        'compiles them to paths that do not hold where they should not'
    )
from pg_temp.compiled('gold');
select results_eq(
    $$
    select key, period, match_path is null, condition_path is null, delay is null, log_all
    from pg_temp.compiled('form')
    $$,
    $$values ('*', interval '168 hours', true, true, true, false)$$,
    'compiles a rule that asks for nothing to no path at all, under the key of every event'
);
select results_eq(
    $$select period from pg_temp.compiled('slow')$$,
    $$values (interval '24 hours')$$,
    'takes the longer of frequency and cooldown'
);
select results_eq(
    $$select period, calendar from pg_temp.compiled('daily')$$,
    $$values (null::interval, 'day')$$,
    'gives a calendar frequency its calendar and no period'
);

select
    is(
        _pgwhen.frequency_period(f.name, 0)::text,
        f.period,
        f.name || ' has the period ' || coalesce(f.period, 'null')
    )
from (
    values
    ('always', null), ('once', null),
    ('once_per_minute', '00:01:00'), ('once_per_hour', '01:00:00'),
    ('once_per_day', '24:00:00'), ('once_per_week', '168:00:00'),
    ('once_per_month', '720:00:00'), ('once_per_calendar_month', null)
) as f (name, period);

-- Dates -----------------------------------------------------------------------------------

select results_eq(
    $$
    select created_date, updated_date, enabled_date
    from pgwhen.trigger_rule
    where name = 'gold'
    $$,
    $$
    values (
        '2030-01-01 12:00 UTC'::timestamptz, '2030-01-01 12:00 UTC'::timestamptz,
        '2030-01-01 12:00 UTC'::timestamptz
    )
    $$,
    'dates a new rule'
);

select set_config('test.now', '2030-01-01 13:00 UTC', true) as now \gset
update pgwhen.trigger_rule
set action_config = '{"audience": "vip"}', frequency = 'always', enabled_date = '2000-01-01'
where name = 'gold';
select is(
    pg_temp.enabled_date('gold'), '2030-01-01 12:00 UTC',
    'leaves enabled_date alone where another action is done, whatever the statement says'
);
select results_eq(
    $$select action_config, frequency, delay is null from pg_temp.compiled('gold')$$,
    $$values ('{"audience": "vip"}'::jsonb, 'always', true)$$,
    'compiles a changed action'
);
select is(
    updated_date, '2030-01-01 13:00 UTC', 'dates an update'
) from pgwhen.trigger_rule where name = 'gold';

update pgwhen.trigger_rule
set source_config = '{"attribute": "level"}'
where name = 'gold';
select is(
    pg_temp.enabled_date('gold'), '2030-01-01 13:00 UTC',
    'starts anew where another event is asked for'
);
select results_eq(
    $$select key, match_path is null, enabled_date from pg_temp.compiled('gold')$$,
    $$values ('level', true, '2030-01-01 13:00 UTC'::timestamptz)$$,
    'compiles a changed source'
);

select set_config('test.now', '2030-01-01 14:00 UTC', true) as now \gset
update pgwhen.trigger_rule set name = 'oro' where name = 'gold';
select is(pg_temp.enabled_date('oro'), '2030-01-01 13:00 UTC', 'starts nothing anew for a name');

-- Live or not -----------------------------------------------------------------------------

update pgwhen.trigger_rule set enabled = false where name = 'oro';
select is_empty($$select pg_temp.compiled('oro')$$, 'takes a disabled rule out');
update pgwhen.trigger_rule
set source_config = '{"attribute": "rank"}'
where name = 'oro';
select is_empty($$select pg_temp.compiled('oro')$$, 'leaves a disabled rule out when it is edited');

select set_config('test.now', '2030-01-01 15:00 UTC', true) as now \gset
update pgwhen.trigger_rule set enabled = true where name = 'oro';
select results_eq(
    $$select key, enabled_date from pg_temp.compiled('oro')$$,
    $$values ('rank', '2030-01-01 15:00 UTC'::timestamptz)$$,
    'brings an enabled rule back, from now on'
);
update pgwhen.trigger_rule set enabled = false where name = 'oro';
update pgwhen.trigger_rule set enabled = true where name = 'oro';
select isnt_empty(
    $$select pg_temp.compiled('oro')$$,
    'brings it back also within one and the same moment'
);

update pgwhen.trigger_rule set enabled = false, parked_reason = 'too often' where name = 'oro';
select is_empty($$select pg_temp.compiled('oro')$$, 'takes a parked rule out');
update pgwhen.trigger_rule set enabled = true where name = 'oro';
select is(parked_reason, null, 'forgets why a rule was parked when it is enabled')
from pgwhen.trigger_rule where name = 'oro';
select isnt_empty($$select pg_temp.compiled('oro')$$, 'brings back a rule that was parked');

update pgwhen.trigger_rule set parked_reason = 'too often' where name = 'oro';
select is_empty($$select pg_temp.compiled('oro')$$, 'takes out a rule that is parked and enabled');
update pgwhen.trigger_rule set parked_reason = null where name = 'oro';
select isnt_empty($$select pg_temp.compiled('oro')$$, 'brings it back when the reason goes');

select set_config('test.now', '2030-01-01 16:00 UTC', true) as now \gset
update pgwhen.trigger_rule set deleted_date = '2030-01-01 16:00 UTC' where name = 'oro';
select is_empty($$select pg_temp.compiled('oro')$$, 'takes a deleted rule out');
select lives_ok(
    $$
    insert into pgwhen.trigger_rule (name, source_type, action_type, action_config)
    values ('oro', 'form_submitted', 'log_message', '{"text": "hi"}')
    $$,
    'frees the name of a deleted rule'
);
select throws_ok(
    $$update pgwhen.trigger_rule set deleted_date = null where name = 'oro'$$, '23505', null,
    'does not restore a rule whose name is taken'
);
delete from pgwhen.trigger_rule where name = 'oro' and deleted_date is null;
update pgwhen.trigger_rule set deleted_date = null where name = 'oro';
select results_eq(
    $$select enabled_date from pg_temp.compiled('oro')$$,
    $$values ('2030-01-01 16:00 UTC'::timestamptz)$$,
    'restores a deleted rule, from now on'
);
delete from pgwhen.trigger_rule where name = 'oro';
select is(
    (select count(*) from _pgwhen.rule), 3::bigint, 'takes out the compiled row of a row that goes'
);

insert into pgwhen.trigger_rule (name, source_type, action_type, action_config, enabled)
values ('off', 'form_submitted', 'log_message', '{"text": "hi"}', false);
select is(pg_temp.enabled_date('off'), null, 'dates no rule as enabled that is not');
select is_empty($$select pg_temp.compiled('off')$$, 'compiles no rule that is not enabled');

-- Pending actions of rules that go --------------------------------------------------------

create temporary table cancelled (rule_name text, reason text);
create or replace function _pgwhen.cancel_rule_actions(rule_ids bigint[], reason text) returns void
language sql as $$
insert into cancelled select r.name, cancel_rule_actions.reason
from pgwhen.trigger_rule as r where r.id = any(rule_ids);
$$;
update pgwhen.trigger_rule set enabled = false where name = 'form';
update pgwhen.trigger_rule
set deleted_date = '2030-01-01 16:00 UTC'
where name in ('slow', 'daily');
update pgwhen.trigger_rule set cooldown_seconds = 5 where name = 'slow';
select bag_eq(
    'table cancelled',
    $$values ('slow', 'rule_deleted'), ('daily', 'rule_deleted')$$,
    'cancels the actions of rules that are deleted, once, and of no others'
);

-- What is refused -------------------------------------------------------------------------

select throws_ok(
    $$
    insert into pgwhen.trigger_rule (name, source_type, source_config, action_type, action_config)
    values ('x', 'attribute_changed', '{"atribute": "tier"}', 'log_message', '{"text": "hi"}')
    $$,
    'PW002', 'source_config.atribute: is not a key that is known here',
    'refuses a rule with the path of its fault'
);
select throws_ok(
    $$
    insert into pgwhen.trigger_rule (name, source_type, action_type, action_config, frequency)
    values ('x', 'form_submitted', 'log_message', '{"text": "hi"}', null)
    $$,
    'PW001', 'frequency: must be a string, got null',
    'refuses a null with words'
);
select throws_ok(
    $$
    insert into pgwhen.trigger_rule
    (name, source_type, action_type, action_config, cooldown_seconds)
    values ('x', 'form_submitted', 'log_message', '{"text": "hi"}', -1)
    $$,
    'PW001', 'cooldown_seconds: must be at least 0, got -1',
    'refuses a negative cooldown'
);
select throws_ok(
    $$update pgwhen.trigger_rule set frequency = 'hourly' where name = 'off'$$,
    'PW001', null, 'refuses an update to a bad rule'
);
select matches(
    pg_temp.detail_of(
        $$
        insert into pgwhen.trigger_rule
        (name, source_type, source_config, action_type, action_config, frequency)
        values ('x', 'form_submitted', '{"formId": 7}', 'log_message', '{}', 'hourly')
        $$
    ),
    'has 3 faults:.*frequency: .*source_config.formId: .*action_config.text: is required',
    'lists all faults in the detail'
);

-- A rule that a later version, or a new schema of its type, refuses: made by going round the check.
set local session_replication_role = replica;
update pgwhen.trigger_rule set frequency = 'hourly', enabled = true where name = 'off';
set local session_replication_role = origin;
select lives_ok(
    $$update pgwhen.trigger_rule set parked_reason = 'old' where name = 'off'$$,
    'lets a bad rule be parked'
);
select throws_ok(
    $$update pgwhen.trigger_rule set parked_reason = null where name = 'off'$$,
    'PW001', null, 'does not let a bad rule go live'
);
select lives_ok(
    $$update pgwhen.trigger_rule set deleted_date = '2030-01-01' where name = 'off'$$,
    'lets a bad rule be deleted'
);

-- Many at once ----------------------------------------------------------------------------

insert into pgwhen.trigger_rule (name, source_type, source_config, action_type, action_config)
select
    'r' || n as name,
    'attribute_changed' as source_type,
    jsonb_build_object(
        'attribute', 'a' || n, 'to', n % 3, 'condition', '{"user.x": 1}'::jsonb
    ) as source_config,
    'log_message' as action_type,
    '{"text": "hi"}' as action_config
from generate_series(1, 300) as n;
select is(
    (
        select count(*)
        from _pgwhen.rule as c
        where
            c.key ~ '^a\d+$' and c.match_path is not null and c.condition_path is not null
            and c.match_vars = jsonb_build_object('v0', substr(c.key, 2)::integer % 3)
    ),
    300::bigint,
    'compiles each of many rules with what it asks itself'
);
insert into pgwhen.trigger_rule (name, source_type, action_type, action_config)
values ('r1', 'form_submitted', 'log_message', '{"text": "hi"}')
on conflict (line_oa_id, name) where deleted_date is null do update
    set source_type = 'mine', source_config = '{}';
select results_eq(
    $$select source_type, key from pg_temp.compiled('r1')$$,
    $$values ('mine', '*')$$,
    'follows an upsert'
);
truncate pgwhen.trigger_rule;
select is_empty('table _pgwhen.rule', 'follows a truncate');

-- Hostile names ---------------------------------------------------------------------------

insert into pgwhen.trigger_rule (name, source_type, source_config, action_type, action_config)
select
    n.name,
    'attribute_changed' as source_type,
    jsonb_build_object('attribute', n.name, 'to', n.name) as source_config,
    'add_to_audience' as action_type,
    jsonb_build_object('audience', n.name) as action_config
from (
    values
    ('it''s "quoted"; drop table x --'),
    ('a.b.c'),
    ('$now'),
    ('ลูกค้าชั้นดี'),
    ('\'),
    ('{}'),
    (repeat('ก', 200)),
    (' x '), ('.'), ('$$')
) as n (name);
select is(
    (
        select count(*)
        from pgwhen.trigger_rule as r
        inner join _pgwhen.rule as c on r.id = c.trigger_rule_id
        where
            c.key = r.name
            and jsonb_path_match(
                jsonb_build_object('event', jsonb_build_object('new', r.name)),
                c.match_path,
                c.match_vars
            )
    ),
    10::bigint,
    'takes names of any characters, up to 200 of them, for what they are'
);

select finish();
rollback;
