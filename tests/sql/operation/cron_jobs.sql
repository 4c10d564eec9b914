-- _pgwhen.delete_cron_runs: what maintain() forgets of pg_cron's runs.
begin;
\ir ../helpers.psql
select plan(6);

select is(_pgwhen.delete_cron_runs(10), 0, 'deletes nothing where there is no pg_cron');
\ir cron.psql
select t.it_is('2030-01-07 12:00+00');
insert into pgwhen.setting (name, value) values ('cronRetention', '"2 days"');
create function t.runs(start_time timestamptz, end_time timestamptz, number integer default 1)
returns void language sql as $$
insert into cron.job_run_details (database, username, command, start_time, end_time)
select current_database(), 'postgres', 'call pgwhen.run_ticks()', runs.start_time, runs.end_time
from generate_series(1, runs.number);
$$;

select t.runs('2030-01-05 11:00+00', '2030-01-05 11:59:59+00');
select t.runs('2030-01-05 11:00+00', '2030-01-05 12:00+00');
select t.runs('2030-01-05 11:59:59+00', null);
select is(_pgwhen.delete_cron_runs(10), 2, 'deletes what ended, or began, before the retention');

-- Runs that never came to connect; older versions of pg_cron write no time of them.
select t.runs(null, null, 10001);
select is(_pgwhen.delete_cron_runs(10), 0, 'keeps ten thousand runs whose time is not known');
select t.runs('2030-01-07 12:00+00', null);
select is(_pgwhen.delete_cron_runs(10), 1, 'and none before');

delete from cron.job_run_details;
select t.runs('2030-01-05 11:00+00', null);
grant usage on schema _pgwhen to pgwhen_viewer;
grant execute on all functions in schema _pgwhen to pgwhen_viewer;
create function t.as_viewer() returns integer language plpgsql as $$
begin
    set local role pgwhen_viewer;
    return _pgwhen.delete_cron_runs(10);
end;
$$;
select is(t.as_viewer(), 0, 'deletes nothing where the caller may not');
reset role;
select is(_pgwhen.delete_cron_runs(10), 1, 'and leaves it to who may');

select finish();
rollback;
