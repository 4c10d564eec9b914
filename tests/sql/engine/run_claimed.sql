-- _pgwhen.run_claimed: due SQL actions that are already claimed; what raises harms itself.
begin;
\ir ../helpers.psql
select plan(10);

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
select pgwhen.register_sql_action('one', 't.one(text, text, jsonb, jsonb)');

create function t.run() returns integer language sql as $$
select _pgwhen.run_claimed('w-1', _pgwhen.claim_sql_actions('w-1', 100));
$$;

select is(t.run(), 0, 'does nothing for nobody');
-- One of many raises: it alone has failed an attempt.
truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'one',
        action_config => case n when 4 then '{"raise": "no", "code": "XX123"}' else '{}' end::jsonb,
        user_id => 'U' || n
    )
from generate_series(1, 7) as n;
select is(t.run(), 7, 'tries all where one raises');
select results_eq(
    $$ select a.status, a.retry_count, a.error_message, count(*) from pgwhen.scheduled_action as a
        group by 1, 2, 3 order by 4 $$,
    $$ values ('pending', 1, 'XX123: no', 1::bigint), ('done', 0, null, 6) $$,
    'the one has failed an attempt, the others are done'
);

-- `others` does not mean a failed ASSERT.
truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'one',
        action_config => case n when 1 then '{"raise": "no", "code": "P0004"}' else '{}' end::jsonb,
        user_id => 'U' || n
    )
from generate_series(1, 3) as n;
select t.run();
select results_eq(
    $$ select a.status, a.error_message from pgwhen.scheduled_action as a order by a.user_id $$,
    $$ values ('pending', 'P0004: no'), ('done', null), ('done', null) $$,
    'a failed assertion harms only itself'
);

-- A lock that somebody else holds is nobody's fault.
truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'one',
        action_config => jsonb_build_object('raise', 'locked', 'code', c.code),
        user_id => c.code
    )
from unnest(array['55P03', '40P01', '40001']) as c (code);
select t.run();
select results_eq(
    'select distinct a.status, a.retry_count, a.execute_at, a.error_message, a.claim_token
    from pgwhen.scheduled_action as a',
    $$
    values (
        'pending', 0, '2030-01-07 12:00:01+00'::timestamptz,
        'put off: the rows it needs are locked by somebody else', null::uuid
    )
    $$,
    'what could not have a lock is put off, and costs no attempt'
);
select is(current_setting('lock_timeout'), '0', 'leaves lock_timeout as it was');

-- A deferred constraint is checked while it can still be caught.
create table t.ledger (
    user_id text, constraint one_each unique (user_id) deferrable initially deferred
);
create function t.enter(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$
insert into t.ledger (user_id) values ($2);
select '{}'::jsonb;
$$;
select pgwhen.register_sql_action('enter', 't.enter(text, text, jsonb, jsonb)');
insert into t.ledger (user_id) values ('U2');
truncate pgwhen.scheduled_action;
select t.an_action(action_type => 'enter', action_config => '{}', user_id => 'U' || n)
from generate_series(1, 3) as n;
select t.run();
select results_eq(
    'select a.user_id, a.status, a.error_message
    from pgwhen.scheduled_action as a order by a.user_id',
    $$
    values
        ('U1', 'done', null::text),
        ('U2', 'pending', '23505: duplicate key value violates unique constraint "one_each"'),
        ('U3', 'done', null)
    $$,
    'what violates a deferred constraint has failed an attempt, the others are done'
);

-- Out of time: at least one is tried, and the rest given back.
truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'one',
        action_config => '{"raise": "no", "code": "XX123"}',
        user_id => 'U' || n
    )
from generate_series(1, 4) as n;
select is(
    _pgwhen.run_claimed('w-1', _pgwhen.claim_sql_actions('w-1', 100), _pgwhen.clock()), 1,
    'tries one when its time is over'
);
select results_eq(
    'select a.user_id, a.status, a.retry_count
    from pgwhen.scheduled_action as a order by a.user_id',
    $$ values ('U1', 'pending', 1), ('U2', 'pending', 0), ('U3', 'pending', 0), ('U4', 'pending',
        0) $$,
    'and gives the others back untried'
);

-- A claim that somebody else has by now cannot be put off.
truncate pgwhen.scheduled_action;
select t.an_action(action_type => 'one', action_config => '{}');
create table t.claim as select (_pgwhen.claim_sql_actions('w-1', 100))[1] as action;
select t.force('update pgwhen.scheduled_action set claim_token = gen_random_uuid()');
select _pgwhen.put_off(c.action) from t.claim as c;
select
    is(
        (select a.status from pgwhen.scheduled_action as a),
        'processing',
        'puts off its own claim only'
    );

select finish();
rollback;
