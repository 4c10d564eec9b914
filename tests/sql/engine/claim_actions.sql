-- pgwhen.claim_actions: hand due actions to one worker.
begin;
\ir ../helpers.psql
select plan(22);

select t.it_is('2030-01-07 12:00+00');
select t.an_action('2030-01-07 11:59+00') as overdue \gset
select t.an_action('2030-01-07 11:58+00') as oldest \gset
select t.an_action('2030-01-07 12:00+00') as due_now \gset
select t.an_action('2030-01-07 12:00:00.000001+00') as future \gset
select
    t.an_action('2030-01-01 00:00+00', 'add_to_audience', '{"audience": "x"}') as sql_action
\gset
select t.a_rule('r', action_type => 'nobody serves this', action_config => '{}');
select t.an_action('2030-01-01 00:00+00', 'nobody serves this', '{}') as unserved \gset

select results_eq(
    $$ select c.id from pgwhen.claim_actions('w-1', action_types => '{log_message}') as c $$,
    array[:oldest, :overdue, :due_now]::bigint[],
    'gives every action that is due at or before now, oldest due first'
);
select is_empty(
    $$ select c.id from pgwhen.claim_actions('w-1', action_types => '{log_message}') as c $$,
    'gives none a second time'
);
select results_eq(
    'select a.status, a.worker, a.deadline, a.retry_count, count(distinct a.claim_token)
    from pgwhen.scheduled_action as a
    where a.status = ''processing'' group by 1, 2, 3, 4',
    $$ values ('processing', 'w-1', '2030-01-07 12:05+00'::timestamptz, 0, 3::bigint) $$,
    'marks each with worker, deadline and a token of its own'
);
select is(
    (select a.status from pgwhen.scheduled_action as a where a.id = :future), 'pending',
    'leaves what is not due'
);

select t.force($$
    update pgwhen.scheduled_action
    set status = 'pending', claim_token = null, deadline = null where status = 'processing'
$$);
insert into pgwhen.setting (name, value) values ('staleProcessingMinute', '0.5');
select results_eq(
    $$
    select c.id, c.token is not null, c.attempt, c.deadline, c.action_type, c.action_config,
        c.line_oa_id, c.organization_id, c.user_id, c.rule, c.event, c.idempotency_key = a.key,
            c.execute_at
    from pgwhen.claim_actions('w-2', 1, '{log_message}') as c
    inner join pgwhen.scheduled_action as a on c.id = a.id
    $$,
    format(
        $$ values (
            %s::bigint, true, 1, '2030-01-07 12:00:30+00'::timestamptz, 'log_message',
            '{"text": "hello"}'::jsonb, 'default', 'default', 'U1', null::bigint, null::jsonb, true,
            '2030-01-07 11:58+00'::timestamptz
        ) $$, :oldest
    ),
    'tells all about an action; its deadline follows the setting'
);
select is(
    (
        select array_agg(c.id order by c.id)
        from pgwhen.claim_actions('w-1') as c
    ),
    array[:overdue, :due_now, :unserved]::bigint[],
    'takes by default all types that no SQL function serves'
);
select is(
    (
        select array_agg(c.id)
        from pgwhen.claim_actions('w-1', action_types => '{add_to_audience}') as c
    ),
    array[:sql_action]::bigint[], 'takes SQL actions where they are asked for'
);
select is_empty(
    $$ select * from pgwhen.claim_actions('w-1', action_types => '{}') $$,
    'takes nothing of no types'
);

select throws_ok(c.call, 'PW301', c.message, c.call || ' is refused')
from (values
    ($$ select pgwhen.claim_actions('') $$, 'a worker needs a name'),
    ($$ select pgwhen.claim_actions(null) $$, 'a worker needs a name'),
    ($$ select pgwhen.claim_actions('w-1', 0) $$, 'batch_size must be 1 or more, not 0'),
    ($$ select pgwhen.claim_actions('w-1', -1) $$, 'batch_size must be 1 or more, not -1')
) as c (call, message);
select is(
    t.hint_of($$ select pgwhen.claim_actions('w-1', 0) $$),
    'Leave it out for the setting batchSize.', 'the hint says what to do'
);

-- Never more than asked, whatever plan the statistics lead to.
truncate pgwhen.scheduled_action;
analyze pgwhen.scheduled_action;
insert into pgwhen.scheduled_action (user_id, action_type, execute_at, key)
select
    'U' || n,
    't' || n % 3,
    timestamptz '2030-01-07 11:00+00' + n * interval '1 second',
    gen_random_uuid()
from generate_series(1, 300) as n;
create function t.claimed(batch_size integer, action_types text[]) returns bigint language sql as $$
select count(*) from pgwhen.claim_actions('w-1', batch_size, action_types);
$$;
set local enable_hashjoin = off;
set local enable_mergejoin = off;
set local enable_material = off;
select is(t.claimed(7, '{t0,t1,t2}'), 7::bigint, 'takes no more than asked in nested loops');
select is(t.claimed(7, '{t0,t0}'), 7::bigint, 'takes as many where a type is named twice');
reset enable_hashjoin;
reset enable_mergejoin;
reset enable_material;
set local enable_nestloop = off;
set local enable_indexscan = off;
set local enable_bitmapscan = off;
select is(t.claimed(7, '{t0,t1,t2}'), 7::bigint, 'nor in hash joins of sequential scans');
reset enable_nestloop;
reset enable_indexscan;
reset enable_bitmapscan;
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.status = 'processing'), 21::bigint,
    'and marks no more than it gives'
);
select is(t.claimed(1000, '{t0,t1,t2}'), 279::bigint, 'takes all where there are fewer');
insert into pgwhen.setting (name, value) values ('batchSize', '3');
select t.an_action(action_type => 't9') from generate_series(1, 5);
select is(t.claimed(null, '{t9}'), 3::bigint, 'takes batchSize by default');

-- The oldest across types, though each type is walked by itself.
truncate pgwhen.scheduled_action;
insert into pgwhen.scheduled_action (user_id, action_type, execute_at, key)
select
    'U' || n,
    't' || n % 3,
    timestamptz '2030-01-07 11:00+00' + n * interval '1 second',
    gen_random_uuid()
from generate_series(1, 30) as n;
select results_eq(
    $$ select c.user_id from pgwhen.claim_actions('w-1', 5, '{t2,t1,t0}') as c $$,
    array['U1', 'U2', 'U3', 'U4', 'U5'], 'takes the oldest of all types'
);
select is(
    (select array_agg(c.attempt) from pgwhen.claim_actions('w-1', 1, '{t0}') as c), array[1],
    'counts attempts from one'
);
update pgwhen.scheduled_action set retry_count = 2 where status = 'pending';
select is(
    (select array_agg(c.attempt) from pgwhen.claim_actions('w-1', 1, '{t0}') as c), array[3],
    'and every failed one'
);

select finish();
rollback;
