-- _pgwhen.ensure_comment: what the tables are, said where it differs from what stands.
begin;
\ir ../helpers.psql
select plan(6);

create table t.thing (id integer);
create function t.version_of_comment() returns text language sql as $$
select string_agg(d.xmin || ' ' || d.ctid, ', ' order by d.objsubid)
from pg_description as d
where d.objoid = 't.thing'::regclass and d.classoid = 'pg_class'::regclass;
$$;

select _pgwhen.ensure_comment('t.thing', null, 'a ''thing''');
select _pgwhen.ensure_comment('t.thing', 'id', 'its %s "id"');
select is(obj_description('t.thing'::regclass, 'pg_class'), 'a ''thing''', 'says what a table is');
select is(col_description('t.thing'::regclass, 1), 'its %s "id"', 'and a column');
select t.version_of_comment() as before \gset
select _pgwhen.ensure_comment('t.thing', null, 'a ''thing''');
select _pgwhen.ensure_comment('t.thing', 'id', 'its %s "id"');
select is(t.version_of_comment(), :'before', 'leaves an equal comment alone');
select _pgwhen.ensure_comment('t.thing', 'id', 'another');
select is(col_description('t.thing'::regclass, 1), 'another', 'replaces another one');
select is(obj_description('t.thing'::regclass, 'pg_class'), 'a ''thing''', 'and only that');

select is_empty(
    $$
    select c.oid::regclass
    from pg_class as c
    where
        c.relnamespace = 'pgwhen'::regnamespace
        and c.relkind in ('r', 'p')
        and not c.relispartition
        and obj_description(c.oid, 'pg_class') is null
    $$,
    'every public table has one'
);

select finish();
rollback;
