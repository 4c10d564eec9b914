create or replace function pgwhen.disable_cron()
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_jobs bigint[];
begin
    perform _pgwhen.note_cron(null);
    if not _pgwhen.has_cron() then
        raise notice 'there is no pg_cron in this database'
            using hint = 'If the pg_cron of another one calls here, run there: '
                || format('select cron.unschedule(%L);', _pgwhen.cron_job_name());
        return 0;
    end if;

    perform _pgwhen.require_cron_usage();
    v_jobs := array(
        select j.jobid from _pgwhen.cron_jobs() as j where j.jobname = _pgwhen.cron_job_name()
    );
    perform _pgwhen.remove_cron_jobs(v_jobs);
    return cardinality(v_jobs);
end;
$$;

comment on function pgwhen.disable_cron() is
$doc$Take run_ticks() out of pg_cron again; returns how many jobs were removed.

pg_cron shows a role its own jobs only: a superuser removes whosever job it is, also one whose owner
was dropped and which therefore stops every job of pg_cron. A run that is going on is cancelled, and
what it had not committed is taken up by whoever ticks next.

Raises PW803 where the caller has no access to the schema cron.

  select pgwhen.disable_cron();
$doc$;
