-- pgwhen.disable_cron: no job of ours is left.
begin;
\ir ../helpers.psql
select plan(6);

select is(pgwhen.disable_cron(), 0, 'removes nothing where there is no pg_cron');
\ir cron.psql
select is(pgwhen.disable_cron(), 0, 'or no job');
select pgwhen.enable_cron();
insert into cron.job (jobname, schedule, command, username) values
('nightly', '0 2 * * *', 'vacuum', 'pgwhen_worker'),
('pgwhen:' || current_database(), '* * * * *', 'call pgwhen.run_ticks()', 'gone');
select is(pgwhen.disable_cron(), 2, 'removes every job of that name, whoever owns it');
select results_eq(
    'select j.jobname from cron.job as j', $$ values ('nightly') $$, 'and leaves the others'
);
select is_empty(
    'select f.* from _pgwhen.cron_findings() as f', 'a job that nobody wants is not missed'
);

select pgwhen.enable_cron();
drop schema cron cascade;
select pgwhen.disable_cron();
select is_empty(
    'select f.* from _pgwhen.cron_findings() as f',
    'forgets that there was a job where pg_cron itself is gone'
);

select finish();
rollback;
