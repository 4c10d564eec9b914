-- Who may run at which isolation level, and the buckets of users.
begin transaction isolation level repeatable read;
\ir ../helpers.psql
select plan(14);

-- Waiting for a row and then looking again is what these rely on.
select throws_ok(s.call, 'PW202', null, s.call || ' refuses a transaction with one snapshot')
from unnest(array[
    $$ select pgwhen.process_events('w-1') $$,
    $$ select pgwhen.claim_actions('w-1') $$,
    $$ select pgwhen.complete_actions('w-1', '{}', '{}') $$,
    $$ select pgwhen.fail_actions('w-1', '{}', '{}', '{}') $$,
    $$ select pgwhen.release_actions('w-1', '{}', '{}') $$,
    $$ select pgwhen.recover_stale_actions() $$,
    $$ select pgwhen.tick() $$
]) as s (call);
select is(
    t.hint_of($$ select pgwhen.tick() $$),
    'Call it in a READ COMMITTED transaction (the default): BEGIN ISOLATION LEVEL READ COMMITTED.',
    'the hint says how to call it'
);

select lives_ok($$ select pgwhen.emit('ordered', 'U1') $$, 'emit needs no isolation level');
select lives_ok(
    $$ insert into pgwhen.line_user (user_id, attributes) values ('U1', '{"tier": "gold"}') $$,
    'a source table is written at any isolation level'
);

-- Rows of the outbox keep their bucket, so the function may never give another one.
select is(_pgwhen.bucket('default', 'U1'), _pgwhen.bucket('default', 'U1'),
    'a user has one bucket');
select is(
    (
        select array_agg(distinct b.bucket order by b.bucket)
        from generate_series(1, 5000) as n
        cross join lateral _pgwhen.bucket('default', 'U' || n) as b (bucket)
    ),
    (select array_agg(b::smallint) from generate_series(0, 63) as b),
    'users fill 64 buckets'
);
select cmp_ok(
    (
        select max(b.users)
        from (
            select count(*) as users
            from generate_series(1, 6400) as n
            group by _pgwhen.bucket('default', 'U' || n)
        ) as b
    ),
    '<', 160::bigint, 'no bucket has many more users than the others'
);
select is(
    (
        select count(distinct k.key)
        from unnest(array[
            _pgwhen.doorbell_lock(), _pgwhen.maintain_lock()
        ]) as k (key)
    ),
    2::bigint, 'locks of one class have different numbers'
);

select finish();
rollback;
