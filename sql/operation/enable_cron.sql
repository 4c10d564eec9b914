-- SECURITY INVOKER: pg_cron makes the caller the job's owner, and runs the job as that role.
--
-- The job that is right is kept, with its history; one that is another role's, inactive, or led to
-- another server by a promotion goes, because cron.schedule() would leave it so. Whether pg_cron
-- takes seconds is asked of itself: neither its version (1.6 for all of 1.6.x, and a new library
-- may run with old SQL) nor a setting tells.

create or replace function pgwhen.enable_cron(seconds integer default 10)
returns text
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_job _pgwhen.cron_job;
begin
    if enable_cron.seconds is null or enable_cron.seconds not between 1 and 60 then
        raise exception 'pg_cron cannot call every % seconds', enable_cron.seconds
            using errcode = 'PW804', hint = 'Pass 1 to 59, or 60 for the beginning of each minute.';
    end if;
    perform _pgwhen.require_home();
    perform _pgwhen.require_cron();
    perform _pgwhen.require_cron_role();

    perform _pgwhen.remove_cron_jobs(array(
        select j.jobid
        from _pgwhen.cron_jobs() as j
        where j.jobname = _pgwhen.cron_job_name() and not _pgwhen.cron_job_will_do(j)
    ));
    v_job := _pgwhen.schedule_cron_job(enable_cron.seconds);
    perform _pgwhen.note_cron(v_job.jobid);
    return v_job.schedule;
end;
$$;

comment on function pgwhen.enable_cron(integer) is
$doc$Let pg_cron call run_ticks() here, every so many seconds, as the role that calls this.

Returns the schedule that pg_cron has taken: '10 seconds', or '* * * * *' where its version knows
only minutes (before 1.5), with a notice. Call it again to change the schedule, to become the job's
owner, or to mend the job: there is one, named pgwhen:<database>, afterwards. The owner should be a
role that stays: a dropped owner stops every job of pg_cron.

Raises PW801 in a copy of another database, PW802 where pg_cron is not in this database, PW803 where
the caller cannot be a job's owner, PW804 unless seconds is 1 to 60.

  select pgwhen.enable_cron(seconds => 5);
$doc$;

create or replace function _pgwhen.schedule_cron_job(seconds integer)
returns _pgwhen.cron_job
language plpgsql
volatile
as $$
declare
    v_job _pgwhen.cron_job;
begin
    v_job.schedule := case
        when schedule_cron_job.seconds = 60 then '* * * * *'
        else schedule_cron_job.seconds || ' seconds'
    end;
    begin
        v_job.jobid := _pgwhen.call_cron_schedule(v_job.schedule);
        return v_job;
    exception
        when invalid_parameter_value then
            if schedule_cron_job.seconds = 60 then
                raise;
            end if;
    end;

    v_job.schedule := '* * * * *';
    v_job.jobid := _pgwhen.call_cron_schedule(v_job.schedule);
    raise notice 'this pg_cron takes no seconds: it will call run_ticks() once a minute'
        using hint = 'A listener beside it acts at once; pg_cron 1.5 takes seconds.';
    return v_job;
end;
$$;

-- What must be right of a job beside its schedule, which cron.schedule() sets.
create or replace function _pgwhen.cron_job_will_do(job _pgwhen.cron_job)
returns boolean
language sql
stable
as $$
select
    (job).username = current_user
    and (job).database = pg_catalog.current_database()
    and (job).nodeport = pg_catalog.current_setting('port')::integer
    and (job).active;
$$;
