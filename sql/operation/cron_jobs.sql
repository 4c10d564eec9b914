-- All that pgwhen asks of pg_cron: where it is, which jobs it has, scheduling and unscheduling, and
-- its records of runs. pg_cron may come and go, and its SQL differs by version, so none of this is
-- resolved before it is called.

-- The extension's own table: status() and maintain() read it as the role that deployed, and whoever
-- may create a schema could put a view there that runs what they like.
create or replace function _pgwhen.has_cron()
returns boolean
language sql
stable
as $$
select exists (
    select
    from pg_catalog.pg_extension as e
    inner join pg_catalog.pg_depend as d
        on d.refclassid = 'pg_catalog.pg_extension'::regclass and d.refobjid = e.oid
    inner join pg_catalog.pg_class as c
        on d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid
    inner join pg_catalog.pg_namespace as n on c.relnamespace = n.oid
    where
        e.extname = 'pg_cron' and d.deptype = 'e' and n.nspname = 'cron' and c.relname = 'job'
);
$$;

create or replace function _pgwhen.cron_command()
returns text
language sql
immutable
as $$
select 'call pgwhen.run_ticks()';
$$;

-- One for each database, because one pg_cron may call several. Cut as pg_cron 1.4 cuts it.
create or replace function _pgwhen.cron_job_name()
returns text
language sql
stable
as $$
select ('pgwhen:' || pg_catalog.current_database())::name::text;
$$;

-- What the caller may see of the jobs: all as a superuser, else its own.
create or replace function _pgwhen.cron_jobs()
returns setof _pgwhen.cron_job
language plpgsql
stable
as $$
begin
    return query execute
        'select j.jobid, j.jobname::text, j.schedule, j.database, j.username, j.nodeport, j.active'
        ' from cron.job as j order by j.jobid';
end;
$$;

create or replace function _pgwhen.call_cron_schedule(schedule text)
returns bigint
language plpgsql
volatile
as $$
declare
    v_jobid bigint;
begin
    execute 'select cron.schedule($1, $2, $3)'
    into v_jobid
    using _pgwhen.cron_job_name(), call_cron_schedule.schedule, _pgwhen.cron_command();
    return v_jobid;
end;
$$;

create or replace function _pgwhen.remove_cron_jobs(jobids bigint[])
returns void
language plpgsql
volatile
as $$
declare
    v_job _pgwhen.cron_job;
begin
    for v_job in
        select j.* from _pgwhen.cron_jobs() as j where j.jobid = any(remove_cron_jobs.jobids)
    loop
        execute 'select cron.unschedule($1)' using v_job.jobid;
        raise notice 'removed job % (%) of role "%" in database "%"',
            v_job.jobid, v_job.jobname, v_job.username, v_job.database;
    end loop;
end;
$$;

-- That a job is wanted, from now on, and which; null: none is.
create or replace function _pgwhen.note_cron(jobid bigint)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if note_cron.jobid is null then
        delete from _pgwhen.chore as c where c.name = 'cron';
        return;
    end if;
    insert into _pgwhen.chore as c (name, done_at, mark)
    values ('cron', _pgwhen.clock(), note_cron.jobid)
    on conflict on constraint chore_pkey do update
    set done_at = excluded.done_at, mark = excluded.mark;
end;
$$;

-- Since when a job is wanted; null if none is.
create or replace function _pgwhen.cron_noted_at()
returns timestamptz
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select c.done_at from _pgwhen.chore as c where c.name = 'cron';
$$;

-- Refusals ----------------------------------------------------------------------------------

create or replace function _pgwhen.require_cron()
returns void
language plpgsql
volatile
as $$
declare
    v_place constant text := (
        select s.setting from pg_catalog.pg_settings as s where s.name = 'cron.database_name'
    );
    v_here constant text := pg_catalog.current_database();
begin
    if _pgwhen.has_cron() then
        return;
    end if;
    if v_place <> v_here then
        raise exception 'pg_cron lives in database "%", not here', v_place
            using errcode = 'PW802', hint = _pgwhen.hint_from_elsewhere(v_place);
    end if;
    if v_place = v_here then
        raise exception 'pg_cron is loaded, but its extension is not in this database'
            using errcode = 'PW802', hint = 'As a superuser: create extension pg_cron;';
    end if;
    raise exception 'there is no pg_cron in this database'
        using errcode = 'PW802',
            hint = _pgwhen.hint_to_install() || ' ' || _pgwhen.hint_from_elsewhere(null);
end;
$$;

create or replace function _pgwhen.hint_from_elsewhere(place text)
returns text
language sql
stable
as $$
select pg_catalog.format(
    'Run %s, and grant its role pgwhen_worker here: '
    'select cron.schedule_in_database(%L, %L, %L, %L);',
    coalesce(
        pg_catalog.format('this in database "%s"', hint_from_elsewhere.place),
        'this in the database where pg_cron lives, if there is one'
    ),
    _pgwhen.cron_job_name(), '* * * * *', _pgwhen.cron_command(), pg_catalog.current_database()
);
$$;

create or replace function _pgwhen.hint_to_install()
returns text
language sql
stable
as $$
select
    case
        when not exists (
            select from pg_catalog.pg_available_extensions as e
            where e.name = 'pg_cron'
        )
            then 'This server has no pg_cron to install: a listener (pgwhen run) ticks without it.'
        else pg_catalog.format(
            'Set shared_preload_libraries = ''pg_cron'' and cron.database_name = %L, restart the '
            'server, and as a superuser: create extension pg_cron;',
            pg_catalog.current_database()
        )
    end;
$$;

-- pg_cron connects as the job's owner, who must be able to do what the job does.
create or replace function _pgwhen.require_cron_role()
returns void
language plpgsql
volatile
as $$
begin
    perform _pgwhen.require_cron_usage();
    if not (select r.rolcanlogin from pg_catalog.pg_roles as r where r.rolname = current_user) then
        raise exception 'pg_cron could not connect as role "%", which cannot log in', current_user
            using errcode = 'PW803',
                hint = 'Call this as a role that can: reset role, or '
                    || pg_catalog.format('alter role %I login;', current_user);
    end if;
    if not _pgwhen.may_tick(current_user) then
        raise exception 'role "%" may not call run_ticks()', current_user
            using errcode = 'PW803',
                hint = pg_catalog.format('grant pgwhen_worker to %I;', current_user);
    end if;
end;
$$;

create or replace function _pgwhen.require_cron_usage()
returns void
language plpgsql
volatile
as $$
begin
    if not pg_catalog.has_schema_privilege('cron', 'usage') then
        raise exception 'role "%" has no access to pg_cron', current_user
            using errcode = 'PW803',
                hint = pg_catalog.format(
                    'As a superuser: grant usage on schema cron to %I;', current_user
                );
    end if;
end;
$$;

-- Null where there is no such role.
create or replace function _pgwhen.may_tick(role text)
returns boolean
language sql
stable
as $$
select
    pg_catalog.has_schema_privilege(r.oid, 'pgwhen', 'usage')
    and pg_catalog.has_schema_privilege(r.oid, '_pgwhen', 'usage')
    and pg_catalog.has_function_privilege(
        r.oid, 'pgwhen.run_ticks(numeric, boolean, bigint)', 'execute'
    )
from pg_catalog.pg_roles as r
where r.rolname = may_tick.role;
$$;

-- Records of runs ---------------------------------------------------------------------------

-- Those of this database's job, whoever owned it, that are older than cronRetention; where a run
-- never came to connect, older versions write no time, so of these all but the last go. DELETE
-- alone, because that is what pg_cron grants; its caller, maintain(), has set a lock_timeout.
create or replace function _pgwhen.delete_cron_runs(batch_size integer)
returns integer
language plpgsql
volatile
as $$
declare
    v_before constant timestamptz :=
        _pgwhen.clock() - _pgwhen.span(_pgwhen.setting('cronRetention'));
    v_deleted integer;
begin
    if not _pgwhen.has_cron() then
        return 0;
    end if;
    execute
        'delete from cron.job_run_details as d'
        ' where d.runid = any(array('
        '    select r.runid'
        '    from cron.job_run_details as r'
        '    where'
        '        r.database = current_database()'
        '        and r.command = $1'
        '        and ('
        '            coalesce(r.end_time, r.start_time) < $2'
        '            or ('
        '                coalesce(r.end_time, r.start_time) is null'
        '                and r.runid < (select max(n.runid) - 10000 from cron.job_run_details as n)'
        '            )'
        '        )'
        '    order by r.runid'
        '    limit $3'
        '))'
    using _pgwhen.cron_command(), v_before, delete_cron_runs.batch_size;
    get diagnostics v_deleted = row_count;
    return v_deleted;
exception
    when insufficient_privilege or lock_not_available then
        return 0;
end;
$$;
