-- _pgwhen.run_sql_actions, _pgwhen.run_claimed: SQL functions called for claimed actions.
begin;
\ir ../helpers.psql
select plan(16);

select t.it_is('2030-01-07 12:00+00');
create function t.one(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language plpgsql as $$
begin
    if config ? 'raise' then
        raise exception '%', config ->> 'raise' using errcode = config ->> 'code';
    end if;
    return jsonb_build_object('saw', array[line_oa_id, user_id], 'config', config, 'attempt', ctx -> 'attempt');
end;
$$;
create table t.called (user_id text);
create function t.noted(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ insert into t.called (user_id) values ($2) returning to_jsonb(user_id) $$;
create function t.all_noted(line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]) returns jsonb[]
language sql as $$
insert into t.called (user_id) select u from unnest($2) as u;
select $3;
$$;
create function t.many(line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]) returns jsonb[]
language sql as $$
select array(
    select jsonb_build_object('saw', u.user_id, 'of', cardinality($2), 'config', $3[u.n])
    from unnest($2) with ordinality as u (user_id, n) order by u.n
);
$$;
select pgwhen.register_sql_action('one', 't.one(text, text, jsonb, jsonb)');
select pgwhen.register_sql_action('many', 't.many(text[], text[], jsonb[], jsonb[])', batch => true);
select pgwhen.register_sql_action('noted', 't.noted(text, text, jsonb, jsonb)');
select pgwhen.register_sql_action('all noted', 't.all_noted(text[], text[], jsonb[], jsonb[])', batch => true);

create function t.run() returns integer language sql as $$
select _pgwhen.run_claimed('w-1', _pgwhen.claim_sql_actions('w-1', 100));
$$;

select is(t.run(), 0, 'does nothing for nobody');
select t.an_action(action_type => 'one', action_config => '{"n": 1}', retry_count => 2);
select is(t.run(), 1, 'says how many it has tried');
select results_eq(
    'select a.status, a.result from pgwhen.scheduled_action as a',
    $$ values ('done', '{"saw": ["default", "U1"], "config": {"n": 1}, "attempt": 3}'::jsonb) $$,
    'hands a function account, user, config and context, and keeps its answer'
);

delete from pgwhen.scheduled_action;
select t.an_action(action_type => 'many', action_config => jsonb_build_object('n', n), user_id => 'U' || n)
from generate_series(1, 3) as n;
select t.run();
select results_eq(
    'select a.user_id, a.result from pgwhen.scheduled_action as a order by a.id',
    $$
    values
        ('U1', '{"saw": "U1", "of": 3, "config": {"n": 1}}'::jsonb),
        ('U2', '{"saw": "U2", "of": 3, "config": {"n": 2}}'),
        ('U3', '{"saw": "U3", "of": 3, "config": {"n": 3}}')
    $$,
    'hands a batch function all at once, and each action its own answer'
);

-- One of many raises: it alone has failed an attempt.
delete from pgwhen.scheduled_action;
select t.an_action(action_type => 'one', action_config => case n when 4 then '{"raise": "no", "code": "XX123"}' else '{}' end::jsonb, user_id => 'U' || n)
from generate_series(1, 7) as n;
select is(t.run(), 7, 'tries all where one raises');
select results_eq(
    $$ select a.status, a.retry_count, a.error_message, count(*) from pgwhen.scheduled_action as a group by 1, 2, 3 order by 4 $$,
    $$ values ('pending', 1, 'XX123: no', 1::bigint), ('done', 0, null, 6) $$,
    'the one has failed an attempt, the others are done'
);

-- A lock that somebody else holds is nobody's fault.
delete from pgwhen.scheduled_action;
select t.an_action(action_type => 'one', action_config => jsonb_build_object('raise', 'locked', 'code', c.code), user_id => c.code)
from unnest(array['55P03', '40P01', '40001']) as c (code);
select t.run();
select results_eq(
    'select distinct a.status, a.retry_count, a.execute_at, a.error_message, a.claim_token from pgwhen.scheduled_action as a',
    $$
    values (
        'pending', 0, '2030-01-07 12:00:01+00'::timestamptz,
        'put off: the rows it needs are locked by somebody else', null::uuid
    )
    $$,
    'what could not have a lock is put off, and costs no attempt'
);

-- Built-in and a user's, mixed.
delete from pgwhen.scheduled_action;
delete from pgwhen.trigger_log;
select t.a_user('U1', '{"tier": "gold"}');
select t.an_action(action_type => 'set_attribute', action_config => '{"attribute": "tier", "value": "silver"}');
select t.an_action(action_type => 'set_attribute', action_config => '{"attribute": "tier", "value": "x"}', user_id => 'nobody');
select t.an_action(action_type => 'one', action_config => '{}');
select t.run();
select results_eq(
    'select a.action_type, a.user_id, a.status, a.error_message from pgwhen.scheduled_action as a order by a.id',
    $$
    values
        ('set_attribute', 'U1', 'done', null::text),
        ('set_attribute', 'nobody', 'failed', 'there is no such user in pgwhen.line_user'),
        ('one', 'U1', 'done', null)
    $$,
    'a built-in action that cannot succeed fails for good'
);
select is((select u.attributes ->> 'tier' from pgwhen.line_user as u), 'silver', 'one that can is done');
select is((select count(*) from pgwhen.trigger_log), 3::bigint, 'and each is logged once');

-- What is no longer the caller's is not done.
delete from pgwhen.scheduled_action;
select t.an_action(action_type => 'set_attribute', action_config => '{"attribute": "tier", "value": "late"}');
select t.an_action(action_type => 'noted', action_config => '{}');
select t.an_action(action_type => 'all noted', action_config => '{}');
create table t.claim as select _pgwhen.claim_sql_actions('w-1', 100) as actions;
select t.it_is('2030-01-07 12:06+00');
select pgwhen.recover_stale_actions();
select _pgwhen.run_claimed('w-1', c.actions) from t.claim as c;
select set_eq(
    'select a.status from pgwhen.scheduled_action as a', array['pending'], 'ends nothing that was taken back'
);
select is((select u.attributes ->> 'tier' from pgwhen.line_user as u), 'silver', 'and does nothing built-in for it');
select is_empty('table t.called', 'nor calls anybody''s function');
-- Nothing is left of the cause, and nothing of the lock timeout.
select is(current_setting('lock_timeout'), '0', 'leaves lock_timeout as it was');
select is(_pgwhen.said('cause'), null, 'leaves no cause behind');
select is_empty(
    $$ select from pgwhen.trigger_log as l where l.created_date > '2030-01-07 12:05+00' $$,
    'logs nothing that it did not end'
);

select finish();
rollback;
