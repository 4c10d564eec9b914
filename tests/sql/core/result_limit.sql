-- _pgwhen.check_results: how large a result may be.
begin;
\ir ../helpers.psql
select plan(11);

create function t.sized(bytes integer) returns jsonb language sql as $$
select to_jsonb(repeat('x', sized.bytes - 2));
$$;

select lives_ok('select _pgwhen.check_results(null)', 'takes none');
select lives_ok($$ select _pgwhen.check_results('{}') $$, 'takes no results');
select lives_ok($$ select _pgwhen.check_results('{NULL, 1}') $$, 'takes nothing as a result');
select lives_ok('select _pgwhen.check_results(array[t.sized(65536)])', 'takes 64 KiB');
select throws_ok(
    'select _pgwhen.check_results(array[null, t.sized(65537), t.sized(5)])',
    'PW303', 'the result has 65537 bytes, more than resultLimit, 65536', 'and no byte more'
);
select throws_ok(
    $$ select _pgwhen.check_results(array[to_jsonb(repeat('ก', 30000))]) $$,
    'PW303', 'the result has 90002 bytes, more than resultLimit, 65536', 'counts bytes'
);
select alike(
    t.hint_of('select _pgwhen.check_results(array[t.sized(65537)])'), '%give back a reference.',
    'says what to do instead'
);

insert into pgwhen.setting (name, value) values ('resultLimit', '10');
select throws_ok(
    'select _pgwhen.check_results(array[t.sized(11)])',
    'PW303', 'the result has 11 bytes, more than resultLimit, 10', 'goes by the setting'
);

-- A call refused is a call not made.
select t.an_action() from generate_series(1, 2);
create table t.claim as select c.id, c.token from pgwhen.claim_actions('w-1') as c;
select throws_ok(
    $$
    select pgwhen.complete_actions(
        'w-1', array_agg(c.id), array_agg(c.token), array['1', '"0123456789"']::jsonb[]
    )
    from t.claim as c
    $$,
    'PW303', 'the result has 12 bytes, more than resultLimit, 10', 'holds for every worker'
);

-- SQL actions too: what they did is undone with it, and those beside them are done.
create table t.effect (user_id text);
create function t.grow(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as $$
insert into t.effect (user_id) values (user_id) returning config -> user_id;
$$;
select pgwhen.register_sql_action('grow', 't.grow(text, text, jsonb, jsonb)');
select t.a_rule(
    'grow', action_type => 'grow',
    action_config => '{
        "U1": "01234567", "U2": "012345678", "U3": 5, "retryPolicy": {"maximumAttempts": 1}
    }'
);
select pgwhen.emit('ordered', u.user_id) from unnest(array['U1', 'U2', 'U3']) as u (user_id);
select t.process();
select pgwhen.tick();
select results_eq(
    $$
    select l.user_id, l.status, l.error_message from pgwhen.trigger_log as l
    where l.action_type = 'grow' order by l.user_id
    $$,
    $$
    values ('U1', 'success', null),
        ('U2', 'failed', 'PW303: the result has 11 bytes, more than resultLimit, 10'),
        ('U3', 'success', null)
    $$,
    'holds for SQL actions, each for itself'
);
select bag_eq(
    'table t.effect', array['U1', 'U3'], 'of which the one that is refused has done nothing'
);

select finish();
rollback;
