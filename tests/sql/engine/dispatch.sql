-- _pgwhen.dispatch: the one way in which actions come to be.
begin;
\ir ../helpers.psql
select plan(8);

select t.it_is('2030-01-07 12:00+00');

create function t.fn(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ select jsonb_build_object('config', config, 'ctx', ctx) $$;
select pgwhen.register_sql_action('mine', 't.fn(text, text, jsonb, jsonb)');

-- Now: no row but that of the log.
select
    t.a_rule('now', 'now', action_type => 'add_to_audience', action_config => '{"audience": "a"}')
        as now
\gset
select pgwhen.emit('now', 'U1', '{"x": 1}', key => 'k', at => '2030-01-06 12:00+00') as event \gset
select t.process();
select
    is_empty('table pgwhen.scheduled_action', 'writes no action where a built-in one is done now');
select results_eq(
    $$
    select l.created_date, l.trigger_rule_id, l.audience_id is not null, l.line_oa_id, l.user_id,
        l.trigger_on, l.event_id, l.event_at, l.action_id, l.action_type, l.action_config, l.status,
        l.error_message
    from pgwhen.trigger_log as l
    $$,
    format(
        $$
        values (
            '2030-01-07 12:00+00'::timestamptz, %s::bigint, true, 'default', 'U1', 'now:k',
                %s::bigint,
            '2030-01-06 12:00+00'::timestamptz, null::bigint, 'add_to_audience',
                '{"audience": "a"}'::jsonb,
            'success', null::text
        )
        $$, :now, :event
    ),
    'logs what was done, as it was used'
);

-- A user's own function: claimed and settled in one transaction.
truncate pgwhen.scheduled_action;
select t.a_rule('mine', 'mine', action_type => 'mine', action_config => '{"n": 1}') as mine \gset
select pgwhen.emit('mine', 'U1') as event \gset
select t.process();
select results_eq(
    $$
    select a.status, a.result -> 'config', a.result -> 'ctx' ->> 'actionId',
        a.result -> 'ctx' -> 'attempt',
        a.result -> 'ctx' -> 'rule', a.result -> 'ctx' -> 'event' -> 'id',
            a.result -> 'ctx' ->> 'idempotencyKey'
    from pgwhen.scheduled_action as a
    $$,
    format(
        $$
        select 'done', '{"n": 1}'::jsonb, a.id::text, '1'::jsonb, to_jsonb(%s), to_jsonb(%s),
            a.key::text
        from pgwhen.scheduled_action as a
        $$, :mine, :event
    ),
    'does a SQL function with all that it may need'
);
select is(t.log_of(:mine), '{success}', 'and logs it once');

-- Four rules, four ways.
truncate pgwhen.scheduled_action;
delete from pgwhen.trigger_log;
select t.a_rule('a', 'all', action_type => 'mine', action_config => '{}');
select t.a_rule('b', 'all', action_type => 'add_to_audience', action_config => '{"audience": "b"}');
select t.a_rule('c', 'all');
select t.a_rule(
    'd', 'all', action_type => 'add_to_audience',
    action_config => '{"audience": "d", "delay": {"seconds": 60}}'
);
create view t.made as
select r.name, a.status
from pgwhen.scheduled_action as a
inner join pgwhen.trigger_rule as r on a.trigger_rule_id = r.id
order by r.name;
select pgwhen.emit('all', 'U1');
select is(
    (select jsonb_array_length(p.actions) from pgwhen.process_events('w-1', '{log_message}') as p),
    1,
    'hands out what the caller serves, and nothing else'
);
select results_eq(
    'table t.made', $$ values ('a', 'done'), ('c', 'processing'), ('d', 'pending') $$,
    'sends each action its own way'
);
select results_eq(
    'select l.action_type, l.action_id is null from pgwhen.trigger_log as l order by l.action_type',
    $$ values ('add_to_audience', true), ('mine', false) $$, 'logs what is done'
);

-- With `queue`, as fire_alone() calls it, nothing is done now.
truncate pgwhen.scheduled_action;
select pgwhen.emit('all', 'U1') as event \gset
select _pgwhen.fire_alone('w-1', :event);
select results_eq(
    'table t.made',
    $$ values ('a', 'pending'), ('b', 'pending'), ('c', 'pending'), ('d', 'pending') $$,
    'writes all as pending where they are to be queued'
);

select finish();
rollback;
