-- pgwhen.run_ticks: tick until nothing is due, committing in between. Committing is what it is
-- about, so tests/edge calls it; here is what it does where it cannot.
begin;
\ir ../helpers.psql
select plan(3);

select throws_ok(
    'call pgwhen.run_ticks()',
    '2D000',
    'invalid transaction termination',
    'refuses a transaction block'
);
select is(
    (
        select p.prokind
        from pg_proc as p
        where p.oid = 'pgwhen.run_ticks(numeric,boolean,bigint)'::regprocedure
    ),
    'p',
    'is a procedure'
);
-- SET or SECURITY DEFINER would keep it from committing.
select results_eq(
    $$ select p.prosecdef, p.proconfig from pg_proc as p where p.proname = 'run_ticks' $$,
    $$ values (false, null::text[]) $$, 'carries nothing that would keep it from committing'
);

select finish();
rollback;
