-- What is wrong with ticking by pg_cron, and what to do about it: for doctor, which sees what its
-- caller sees, and for status(), which sees what the role that deployed does. pg_cron shows all
-- jobs to a superuser, else one's own. In a copy, that it is one is all that matters.

create or replace function _pgwhen.cron_findings()
returns table (finding text, remedy text)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_copied_from constant text := _pgwhen.copied_from();
    v_noted_at constant timestamptz := _pgwhen.cron_noted_at();
begin
    if v_copied_from is not null then
        return query values (
            format('this is a copy of %s, and does nothing by itself', v_copied_from),
            'if it is the real one now: select pgwhen.adopt()'
        );
    elsif _pgwhen.has_cron() and has_schema_privilege('cron', 'usage') then
        return query
            select f.* from _pgwhen.findings_on_jobs() as f
            union all
            select f.* from _pgwhen.findings_on_my_job(v_noted_at) as f;
    elsif _pgwhen.has_cron() and v_noted_at is not null then
        return query values (
            format('role "%s", who looks, cannot see pg_cron''s jobs', current_user),
            format('as a superuser: grant usage on schema cron to %I', current_user)
        );
    elsif v_noted_at is not null then
        return query values (
            'pg_cron was to call run_ticks(), and is not in this database any more',
            'create extension pg_cron, then select pgwhen.enable_cron(); or, to do without: '
            'select pgwhen.disable_cron()'
        );
    end if;
end;
$$;

-- What stops every job, or was ours under another name.
create or replace function _pgwhen.findings_on_jobs()
returns table (finding text, remedy text)
language sql
stable
as $$
select
    pg_catalog.format(
        'job %s of pg_cron belongs to role "%s", which was dropped: no job of pg_cron runs',
        j.jobid, j.username
    ),
    case j.jobname when _pgwhen.cron_job_name()
        then 'as a superuser: select pgwhen.disable_cron(); then, as a role that stays: '
            'select pgwhen.enable_cron()'
        else pg_catalog.format('as a superuser: select cron.unschedule(%s)', j.jobid) end
from _pgwhen.cron_jobs() as j
where not exists (
    select from pg_catalog.pg_roles as r
    where r.rolname = j.username
)
union all
select
    pg_catalog.format(
        'job %s (%s) runs in database "%s", which is not in this cluster: it came with a dump, or '
        'the database was renamed',
        j.jobid, j.jobname, j.database
    ),
    pg_catalog.format('select cron.unschedule(%s)', j.jobid)
from _pgwhen.cron_jobs() as j
where
    j.jobname like 'pgwhen:%'
    and not exists (
        select from pg_catalog.pg_database as d
        where d.datname = j.database
    );
$$;

-- noted_at: when enable_cron() was called, null if it was not.
create or replace function _pgwhen.findings_on_my_job(noted_at timestamptz)
returns table (finding text, remedy text)
language plpgsql
stable
as $$
declare
    v_again constant text := 'select pgwhen.enable_cron()';
    v_jobs constant _pgwhen.cron_job[] := array(
        select j from _pgwhen.cron_jobs() as j where j.jobname = _pgwhen.cron_job_name()
    );
    v_job _pgwhen.cron_job;
begin
    if v_jobs = '{}' and noted_at is not null then
        return query values (
            pg_catalog.format('there is no job %s in pg_cron', _pgwhen.cron_job_name())
            || case when _pgwhen.sees_all_jobs() then '' else pg_catalog.format(
                ', or role "%s", who looks, may not see it', current_user
            ) end,
            v_again
        );
    end if;
    if pg_catalog.cardinality(v_jobs) > 1 then
        return query values (
            pg_catalog.format(
                '%s jobs tick this database, of the roles %s', pg_catalog.cardinality(v_jobs),
                (select pg_catalog.string_agg(j.username, ', ') from unnest(v_jobs) as j)
            ),
            'as a superuser: ' || v_again
        );
    end if;

    foreach v_job in array v_jobs loop
        return query
            select f.* from _pgwhen.findings_on_job(v_job) as f
            union all
            select f.* from _pgwhen.findings_on_runs(v_job, noted_at) as f;
    end loop;
end;
$$;

create or replace function _pgwhen.sees_all_jobs()
returns boolean
language sql
stable
as $$
select r.rolsuper or r.rolbypassrls from pg_catalog.pg_roles as r where r.rolname = current_user;
$$;

create or replace function _pgwhen.findings_on_job(job _pgwhen.cron_job)
returns table (finding text, remedy text)
language sql
stable
as $$
select f.finding, f.remedy
from (values
    (
        not (job).active,
        pg_catalog.format('job %s of pg_cron is not active', (job).jobid),
        'select pgwhen.enable_cron()'
    ),
    (
        (job).nodeport <> pg_catalog.current_setting('port')::integer,
        pg_catalog.format(
            'job %s of pg_cron calls the server at port %s, and this one is at %s',
            (job).jobid, (job).nodeport, pg_catalog.current_setting('port')
        ),
        'select pgwhen.enable_cron()'
    ),
    (
        not _pgwhen.may_tick((job).username),
        pg_catalog.format(
            'job %s of pg_cron belongs to role "%s", which may not call run_ticks()',
            (job).jobid, (job).username
        ),
        pg_catalog.format('grant pgwhen_worker to %I', (job).username)
    )
) as f (applies, finding, remedy)
where f.applies;
$$;

-- A run that goes on has a start and no end; one that could not connect may have neither. The
-- launcher of pg_cron 1.4 can miss a change of cron.job that comes while it reads the table: until
-- the next change it then knows no such job.
create or replace function _pgwhen.findings_on_runs(job _pgwhen.cron_job, noted_at timestamptz)
returns table (finding text, remedy text)
language plpgsql
stable
as $$
declare
    v_late constant timestamptz := _pgwhen.clock() - interval '3 minutes';
    v_status text;
    v_message text;
    v_started_at timestamptz;
begin
    execute
        'select r.status, r.return_message, r.start_time'
        ' from cron.job_run_details as r where r.jobid = $1 order by r.runid desc limit 1'
    into v_status, v_message, v_started_at
    using job.jobid;

    if v_status = 'failed' then
        return query values (
            pg_catalog.format('the last run of job %s failed: %s', job.jobid, v_message),
            'mend what the message says; pg_cron tries again by itself'
        );
    elsif
        job.active
        and _pgwhen.logs_cron_runs()
        and coalesce(v_started_at, '-infinity') < v_late
        and coalesce(noted_at, '-infinity') < v_late
    then
        return query values (
            pg_catalog.format(
                'job %s has not run %s', job.jobid,
                coalesce('since ' || _pgwhen.stamp(v_started_at), 'yet')
            ),
            'see whether pg_cron''s launcher lives: select from pg_stat_activity where '
            'backend_type = ''pg_cron launcher''; where it does not, restart the server; where it '
            'does, select pgwhen.enable_cron() again'
        );
    end if;
end;
$$;

-- Who may not know how it is set sees no setting; on is the default.
create or replace function _pgwhen.logs_cron_runs()
returns boolean
language sql
stable
as $$
select not exists (
    select from pg_catalog.pg_settings as s
    where s.name = 'cron.log_run' and s.setting = 'off'
);
$$;
