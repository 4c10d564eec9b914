-- _pgwhen.clock: the one place where time is read.
begin;
select plan(5);

select cmp_ok(_pgwhen.clock(), '>', now(), 'goes on within a transaction');

\ir ../helpers.psql

-- A body, default or view that reads time in any other way.
create view t.other_clocks as
select s.name
from (
    select p.oid::regprocedure::text as name, p.prosrc as source
    from pg_proc as p
    where
        p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        and p.oid <> '_pgwhen.clock()'::regprocedure
    union all
    select c.oid::regclass::text, pg_get_viewdef(c.oid)
    from pg_class as c
    where c.relkind = 'v' and c.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
    union all
    select d.adrelid::regclass::text, pg_get_expr(d.adbin, d.adrelid)
    from pg_attrdef as d
    inner join pg_class as c on d.adrelid = c.oid
    where c.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
) as s
where
    s.source ~* '\m((clock|statement|transaction)_timestamp|now|timeofday)\s*\('
    or s.source ~* '\m(current_(date|time|timestamp)|localtime(stamp)?)\M';

select is_empty('table t.other_clocks', 'is asked by everything that needs the time');

create view pgwhen.c_due as select now() as at;
select results_eq(
    'table t.other_clocks', $$ values ('pgwhen.c_due') $$, 'is missed where it is not asked'
);

select t.it_is('2030-01-07 12:00+00');
select is(_pgwhen.clock(), '2030-01-07 12:00+00', 'can be replaced');
select pgwhen.emit('ordered', 'U1');
select is(
    (select array[o.at, o.created_at] from _pgwhen.outbox as o),
    array['2030-01-07 12:00+00', '2030-01-07 12:00+00']::timestamptz[],
    'is replaced for everybody who asks it'
);

select finish();
rollback;
