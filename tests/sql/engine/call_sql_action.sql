-- _pgwhen.call_each, _pgwhen.call_batch: a user's function, with all that it may need.
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
create function t.many(
    line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]
) returns jsonb[]
language sql as $$
select array(
    select jsonb_build_object('saw', u.user_id, 'of', cardinality($2), 'config', $3[u.n])
    from unnest($2) with ordinality as u (user_id, n) order by u.n
);
$$;
select pgwhen.register_sql_action('one', 't.one(text, text, jsonb, jsonb)');
select pgwhen.register_sql_action(
    'many', 't.many(text[], text[], jsonb[], jsonb[])', batch => true
);

create function t.run() returns integer language sql as $$
select _pgwhen.run_claimed('w-1', _pgwhen.claim_sql_actions('w-1', 100));
$$;

select t.an_action(action_type => 'one', action_config => '{"n": 1}', retry_count => 2);
select t.run();
select results_eq(
    'select a.status, a.result from pgwhen.scheduled_action as a',
    $$ values ('done', '{"saw": ["default", "U1"], "config": {"n": 1}, "attempt": 3}'::jsonb) $$,
    'hands a function account, user, config and context, and keeps its answer'
);

truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'many', action_config => jsonb_build_object('n', n), user_id => 'U' || n
    )
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

-- A batch function answers for each, or for none.
create function t.answers(
    line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]
) returns jsonb[]
language sql as $$ select (config[1] ->> 'answers')::jsonb[] $$;
select
    pgwhen.register_sql_action(
        'answers', 't.answers(text[], text[], jsonb[], jsonb[])', batch => true
    );
create function t.outcome_of(answers text) returns text language plpgsql as $$
begin
    truncate pgwhen.scheduled_action;
    perform t.an_action(
        action_type => 'answers', action_config => jsonb_build_object('answers', answers),
            user_id => 'U' || n
    ) from generate_series(1, 2) as n;
    perform t.run();
    return (select string_agg(distinct a.status || coalesce(': ' || a.error_message, ''), ', ')
        from pgwhen.scheduled_action as a);
end;
$$;
select is(t.outcome_of('{"1","2"}'), 'done', 'takes as many answers as there are actions');
select
    is(
        t.outcome_of('{"1"}'),
        'done',
        'one answer for one action is right when they are tried alone'
    );
select is(
    t.outcome_of('{"1","2","3"}'),
    'pending: PW205: t.answers returned 3 results for 1 actions',
    'refuses too many'
);
select
    is(
        t.outcome_of(null), 'pending: PW205: t.answers returned 0 results for 1 actions', 'and none'
    );
select is(
    t.hint_of(
        $$ select _pgwhen.call_batch('t', 'answers', array[null]::pgwhen.claimed_action[]) $$
    ),
    'A batch function returns one jsonb for each action, in their order.',
    'the hint says what to return'
);

-- What the function changes is caused by its action, and nothing after it is.
create function t.tells(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ select to_jsonb(pgwhen.emit('told', $2)) $$;
select pgwhen.register_sql_action('tells', 't.tells(text, text, jsonb, jsonb)');
truncate pgwhen.scheduled_action;
select t.an_action(action_type => 'tells', action_config => '{}', user_id => 'U' || n)
from generate_series(1, 2) as n;
select t.force(
    'update pgwhen.scheduled_action set chain = array[7, substr(user_id, 2)::bigint]'
);
select t.run();
select bag_eq(
    $$ select o.user_id, o.chain from _pgwhen.outbox as o where o.type = 'told' $$,
    $$ values ('U1', '{7,1}'::bigint[]), ('U2', '{7,2}') $$, 'passes on the chain of each action'
);
select is(_pgwhen.said('cause'), null, 'and leaves no cause behind');

select finish();
rollback;
