-- pgwhen.adopt: a copy becomes the real one.
begin;
\ir ../helpers.psql
select plan(9);

create function t.warned_of() returns text language plpgsql as $$
begin
    return case when _pgwhen.check_home() then 'nothing' else _pgwhen.copied_from() end;
end;
$$;
create function t.the_oid() returns oid language sql as $$
select d.oid from pg_database as d where d.datname = current_database();
$$;

select is(t.warned_of(), 'nothing', 'is not needed where nobody said what home is');
select pgwhen.adopt();
select is(t.warned_of(), 'nothing', 'says that home is here');
update _pgwhen.home set database_name = 'shop';
select is(t.warned_of(), 'nothing', 'a database may be renamed');
update _pgwhen.home set database_oid = 1;
select is(
    t.warned_of(), 'database "shop" (oid 1) of this cluster',
    'a copy in the same cluster is a copy'
);
update _pgwhen.home set database_oid = t.the_oid(), cluster = '1';
select is(
    t.warned_of(), format('database "shop" (oid %s) of cluster 1', t.the_oid()),
    'so is one in another cluster, whatever its oid'
);
select pgwhen.adopt();
select is(t.warned_of(), 'nothing', 'until it is adopted');
select results_eq(
    'select h.database_oid from _pgwhen.home as h', 'select t.the_oid()', 'there is one home'
);

select matches(_pgwhen.cluster_identity(), '^\d+$', 'the cluster has its own number');
create function t.as_a_stranger() returns text language plpgsql as $$
begin
    revoke execute on function pg_catalog.pg_control_system() from public;
    grant usage on schema _pgwhen to pgwhen_viewer;
    grant execute on function _pgwhen.cluster_identity() to pgwhen_viewer;
    set local role pgwhen_viewer;
    return _pgwhen.cluster_identity();
end;
$$;
select is(
    t.as_a_stranger(), 'with role ' || 'pgwhen_admin'::regrole::oid,
    'or, where it is kept from us, the number of a role'
);

select finish();
rollback;
