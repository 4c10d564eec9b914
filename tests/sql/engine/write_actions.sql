-- _pgwhen.write_actions: what waits, or leaves the database, is a row.
begin;
\ir ../helpers.psql
select plan(16);

select t.it_is('2030-01-07 12:00+00');

-- Later, or elsewhere: a row.
select t.a_rule('python', 'python', action_config => '{"text": "hi"}') as python \gset
select
    pgwhen.emit('python', 'U1', '{"x": 1}', key => 'k', at => '2030-01-06 12:00+00') as event
\gset
select e.uuid from pgwhen.event as e where e.id = :event \gset
select is((pgwhen.process_events('w-1')).actions, '[]', 'gives nothing to who serves nothing');
select results_eq(
    $$
    select a.status, a.execute_at, a.created_date, a.updated_at, a.retry_count, a.user_id,
        a.line_oa_id,
        a.organization_id, a.action_type, a.action_config, a.chain, a.deadline, a.worker, a.event
    from pgwhen.scheduled_action as a
    $$,
    format(
        $$
        values (
            'pending', '2030-01-07 12:00+00'::timestamptz, '2030-01-07 12:00+00'::timestamptz,
            '2030-01-07 12:00+00'::timestamptz, 0, 'U1', 'default', 'default', 'log_message',
            '{"text": "hi"}'::jsonb, array[%1$s]::bigint[], null::timestamptz, null::text,
            jsonb_build_object(
                'id', %2$s, 'uuid', %3$L, 'type', 'python', 'key', 'k', 'data', '{"x": 1}'::jsonb,
                'at', '2030-01-06 12:00+00'::timestamptz
            )
        )
        $$, :python, :event, :'uuid'
    ),
    'writes what waits for a worker, with the event as it was'
);
update pgwhen.trigger_rule set action_config = '{"text": "edited"}' where id = :python;
select is(
    (select a.action_config from pgwhen.scheduled_action as a), '{"text": "hi"}',
    'an action keeps the config that it was made with'
);

-- Claimed at once by who serves it.
truncate pgwhen.scheduled_action;
select pgwhen.emit('python', 'U' || n) from generate_series(1, 3) as n;
create table t.pass as
select p.* from pgwhen.process_events('w-1', '{log_message}', claim_limit => 2) as p;
select
    is(
        (select jsonb_array_length(p.actions) from t.pass as p),
        2,
        'gives as many as there is room for'
    );
select results_eq(
    $$
    select (c ->> 'id')::bigint, c ->> 'user_id', (c ->> 'token')::uuid, (c ->> 'attempt')::integer,
        (c ->> 'deadline')::timestamptz, c -> 'action_config', (c ->> 'idempotency_key')::uuid
    from t.pass as p cross join jsonb_array_elements(p.actions) as c
    $$,
    $$
    select a.id, a.user_id, a.claim_token, 1, a.deadline, '{"text": "edited"}'::jsonb, a.key
    from pgwhen.scheduled_action as a where a.status = 'processing' order by a.id
    $$,
    'gives them as claim_actions would'
);
select results_eq(
    'select a.user_id, a.status, a.worker from pgwhen.scheduled_action as a order by a.user_id',
    $$ values ('U1', 'processing', 'w-1'), ('U2', 'processing', 'w-1'), ('U3', 'pending', null) $$,
    'and lets the others wait'
);

-- Delays count from now, never from event time.
truncate pgwhen.scheduled_action;
create function t.due(delay jsonb, action_type text default 'log_message') returns timestamptz
language plpgsql as $$
begin
    delete from pgwhen.trigger_rule where name = 'delayed';
    truncate pgwhen.scheduled_action;
    perform t.a_rule(
        'delayed', 'delayed', action_type => due.action_type,
        action_config => case due.action_type when 'log_message' then '{"text": "x"}'
            else '{"audience": "later"}' end::jsonb || jsonb_build_object('delay', due.delay)
    );
    perform pgwhen.emit('delayed', 'U1', at => '1997-01-18');
    perform pgwhen.process_events('w-1', '{log_message}');
    return (select a.execute_at from pgwhen.scheduled_action as a where a.status = 'pending');
end;
$$;
select is(t.due('{"seconds": 90.5}'), '2030-01-07 12:01:30.5+00', 'delays by seconds');
select is(
    (select a.action_config from pgwhen.scheduled_action as a), '{"text": "x"}',
    'keeps the delay from the handler'
);
select
    is(t.due('{"at": "2030-02-01T09:00:00+07:00"}'), '2030-02-01 02:00+00', 'delays until a time');
select is(t.due('{"seconds": 0}'), null, 'a delay of nothing is none: it is claimed at once');
select is(t.due('{"at": "1999-01-01T00:00:00Z"}'), null, 'and so is a time that has passed');
select
    is(
        t.due('{"seconds": 60}', 'add_to_audience'), '2030-01-07 12:01+00', 'delays SQL actions too'
    );
select t.it_is('2030-01-07 12:01+00');
select is((pgwhen.tick()).actions, 1, 'which a tick does when they are due');
select results_eq(
    $$
    select l.status, l.audience_id is not null, l.action_id = a.id, a.status
    from pgwhen.trigger_log as l, pgwhen.scheduled_action as a
    where l.id = (select max(l.id) from pgwhen.trigger_log as l)
    $$,
    $$ values ('success', true, true, 'done') $$, 'and logs'
);

-- The organization is the rule's.
update pgwhen.trigger_rule set organization_id = 'org 2' where name = 'python';
truncate pgwhen.scheduled_action;
select pgwhen.emit('python', 'U1');
select t.process();
select
    is(
        (select a.organization_id from pgwhen.scheduled_action as a),
        'org 2',
        'is of the rule''s organization'
    );
update pgwhen.trigger_rule set workflow_id = 3, workflow_node_path = '{a,b}' where name = 'python';
select pgwhen.emit('python', 'U2');
select t.process();
select results_eq(
    $$ select a.workflow_id, a.workflow_node_path from pgwhen.scheduled_action as a
        where a.user_id = 'U2' $$,
    $$ values (3::bigint, '{a,b}'::text[]) $$, 'carries the rule''s place in a workflow'
);

select finish();
rollback;
