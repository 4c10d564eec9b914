-- Where the engine lives. A dump carries rules, waiting actions and the job in pg_cron, so that a
-- copy restored for a look would send to real customers what the original sends too. The deploy
-- (home.sql) and adopt() write down which database this is; elsewhere nothing ticks by itself.
--
-- No row means that nobody has said so, and is no reason to stand still. What a copy of the files
-- is, a snapshot or a promoted standby, cannot be told from inside: docs/operations.md says so.

create or replace function pgwhen.adopt()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into _pgwhen.home as h (cluster, database_oid, database_name, adopted_at)
    select i.cluster, i.database_oid, i.database_name, _pgwhen.clock()
    from _pgwhen.whereabouts() as i
    on conflict on constraint home_pkey do update
    set
        cluster = excluded.cluster,
        database_oid = excluded.database_oid,
        database_name = excluded.database_name,
        adopted_at = excluded.adopted_at;
end;
$$;

comment on function pgwhen.adopt() is
$doc$Take this database, a copy of another, as the real one: from now on it ticks by itself.

A database that was restored from a dump, copied as a template or upgraded by pg_upgrade is not
where pgwhen was deployed: run_ticks() does nothing there and enable_cron() refuses. Before you
call this, make sure that the other one is gone, or the users of both will hear everything twice;
what is due is done at once. Call it in the original and nothing changes.

  select pgwhen.adopt();
$doc$;

-- Whether to work by itself; warns if not. One row, and one look at the control file.
create or replace function _pgwhen.check_home()
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_original constant text := _pgwhen.copied_from();
begin
    if v_original is not null then
        raise warning 'this is a copy of %, and does nothing by itself', v_original
            using errcode = 'PW801', hint = _pgwhen.adopt_hint();
    end if;
    return v_original is null;
end;
$$;

-- For whoever is asked to make this database work by itself.
create or replace function _pgwhen.require_home()
returns void
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_original constant text := _pgwhen.copied_from();
begin
    if v_original is not null then
        raise exception 'this is a copy of %', v_original
            using errcode = 'PW801', hint = _pgwhen.adopt_hint();
    end if;
end;
$$;

create or replace function _pgwhen.adopt_hint()
returns text
language sql
immutable
as $$
select
    'If it is the real one now, and the other is at rest: select pgwhen.adopt(). '
    'See "Copies" in docs/operations.md.';
$$;

-- What this database is a copy of, in words; null at home.
create or replace function _pgwhen.copied_from()
returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select format(
    'database "%s" (oid %s) of %s', h.database_name, h.database_oid,
    case h.cluster when i.cluster then 'this cluster' else 'cluster ' || h.cluster end
)
from _pgwhen.home as h
cross join _pgwhen.whereabouts() as i
where h.cluster <> i.cluster or h.database_oid <> i.database_oid;
$$;

-- By the oid, so that a database may be renamed.
create or replace function _pgwhen.whereabouts(
    out cluster text,
    out database_oid oid,
    out database_name text
)
returns record
language sql
stable
as $$
select _pgwhen.cluster_identity(), d.oid, d.datname
from pg_catalog.pg_database as d
where d.datname = pg_catalog.current_database();
$$;

-- Which cluster this is. Where a service keeps the system identifier to itself, the oid of one of
-- our roles has to do: no dump carries it.
create or replace function _pgwhen.cluster_identity()
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (select c.system_identifier::text from pg_control_system() as c);
exception
    when insufficient_privilege then
        return 'with role ' || 'pgwhen_admin'::regrole::oid;
end;
$$;
