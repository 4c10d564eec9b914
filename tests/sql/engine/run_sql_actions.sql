-- _pgwhen.run_sql_actions: the SQL functions of claimed actions, and nobody else's.
begin;
\ir ../helpers.psql
select plan(9);

select t.it_is('2030-01-07 12:00+00');
create function t.one(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language plpgsql as $$
begin
    if config ? 'raise' then
        raise exception '%', config ->> 'raise' using errcode = config ->> 'code';
    end if;
    return jsonb_build_object('saw', array[line_oa_id, user_id], 'config', config, 'attempt',
        ctx -> 'attempt');
end;
$$;
create table t.called (user_id text);
create function t.noted(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ insert into t.called (user_id) values ($2) returning to_jsonb(user_id) $$;
create function t.all_noted(
    line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]
) returns jsonb[]
language sql as $$
insert into t.called (user_id) select u from unnest($2) as u;
select $3;
$$;
select pgwhen.register_sql_action('one', 't.one(text, text, jsonb, jsonb)');
select pgwhen.register_sql_action('noted', 't.noted(text, text, jsonb, jsonb)');
select pgwhen.register_sql_action(
    'all noted', 't.all_noted(text[], text[], jsonb[], jsonb[])', batch => true
);

create function t.run() returns integer language sql as $$
select _pgwhen.run_claimed('w-1', _pgwhen.claim_sql_actions('w-1', 100));
$$;

-- Built-in and a user's, mixed.
truncate pgwhen.scheduled_action;
delete from pgwhen.trigger_log;
select t.a_user('U1', '{"tier": "gold"}');
select
    t.an_action(
        action_type => 'set_attribute', action_config => '{"attribute": "tier", "value": "silver"}'
    );
select
    t.an_action(
        action_type => 'set_attribute',
        action_config => '{"attribute": "tier", "value": "x"}',
        user_id => 'nobody'
    );
select t.an_action(action_type => 'one', action_config => '{}');
select t.run();
select results_eq(
    'select a.action_type, a.user_id, a.status, a.error_message
    from pgwhen.scheduled_action as a order by a.id',
    $$
    values
        ('set_attribute', 'U1', 'done', null::text),
        ('set_attribute', 'nobody', 'failed', 'there is no such user in pgwhen.line_user'),
        ('one', 'U1', 'done', null)
    $$,
    'a built-in action that cannot succeed fails for good'
);
select
    is(
        (select u.attributes ->> 'tier' from pgwhen.line_user as u),
        'silver',
        'one that can is done'
    );
select is((select count(*) from pgwhen.trigger_log), 3::bigint, 'and each is logged once');

-- What is no longer the caller's is not done.
truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'set_attribute', action_config => '{"attribute": "tier", "value": "late"}'
    );
select t.an_action(action_type => 'noted', action_config => '{}');
select t.an_action(action_type => 'all noted', action_config => '{}');
create table t.claim as select _pgwhen.claim_sql_actions('w-1', 100) as actions;
select t.it_is('2030-01-07 12:06+00');
select pgwhen.recover_stale_actions();
select _pgwhen.run_claimed('w-1', c.actions) from t.claim as c;
select set_eq(
    'select a.status from pgwhen.scheduled_action as a',
    array['pending'],
    'ends nothing that was taken back'
);
select
    is(
        (select u.attributes ->> 'tier' from pgwhen.line_user as u),
        'silver',
        'and does nothing built-in for it'
    );
select is_empty('table t.called', 'nor calls anybody''s function');
select is_empty(
    $$ select from pgwhen.trigger_log as l where l.created_date > '2030-01-07 12:05+00' $$,
    'logs nothing that it did not end'
);

-- What a worker says of an action is not believed: own_claims() has it from the row.
truncate pgwhen.scheduled_action;
select t.an_action(action_type => 'one', action_config => '{"n": 1}') as action \gset
create table t.mine as select c from pgwhen.claim_actions('w-1', action_types => '{one}') as c;
update t.mine set c.action_config = '{"n": 2}', c.user_id = 'somebody else';
select results_eq(
    'select o.user_id, o.action_config
    from t.mine as m cross join unnest(_pgwhen.own_claims(array[m.c])) as o',
    $$ values ('U1', '{"n": 1}'::jsonb) $$, 'an action is what its row says'
);
update t.mine set c.token = gen_random_uuid();
select is((select _pgwhen.own_claims(array[m.c]) from t.mine as m), '{}', 'or not the caller''s');

select finish();
rollback;
