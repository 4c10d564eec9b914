-- pgwhen.enable_cron: one job, as often as the pg_cron that is there can.
begin;
\ir ../helpers.psql
select plan(15);

select is(
    t.sqlstate_of('select pgwhen.enable_cron()'), 'PW802', 'refuses where there is no pg_cron'
);
select isnt(
    t.hint_of('select pgwhen.enable_cron()'), null, 'and says what to do instead'
);
create schema cron;
create function t.trap() returns integer language plpgsql as 'begin raise ''called''; end';
create view cron.job as select t.trap();
create view cron.job_run_details as select t.trap();
select is(
    t.sqlstate_of('select pgwhen.enable_cron()'), 'PW802', 'or one that somebody else made'
);
select lives_ok(
    'select pgwhen.maintain(), (select count(*) from pgwhen.status())', 'which nobody falls for'
);
drop schema cron cascade;
\ir cron.psql
create function t.jobs() returns setof text language sql as $$
select concat_ws('|', j.jobname, j.schedule, j.username, j.database, j.active)
from cron.job as j order by j.jobid;
$$;
create function t.the_job(schedule text) returns text language sql as $$
select concat_ws(
    '|', 'pgwhen:' || current_database(), schedule, current_user, current_database(), 't'
);
$$;

select is(
    t.sqlstate_of(format('select pgwhen.enable_cron(%s)', n)), 'PW804',
    'refuses ' || n || ' seconds'
)
from unnest(array['0', '61', '-1', 'null']) as n;
select is(pgwhen.enable_cron(), '* * * * *', 'takes minutes where pg_cron knows no seconds');
set local t.seconds = 'on';
select is(pgwhen.enable_cron(), '10 seconds', 'takes seconds where it does');
select is(pgwhen.enable_cron(60), '* * * * *', 'takes minutes where they are asked for');
select results_eq(
    'select t.jobs()', $$ select t.the_job('* * * * *') $$, 'leaves one job, the last'
);

insert into cron.job (jobname, schedule, command, database, username) values
('pgwhen:elsewhere', '* * * * *', 'call pgwhen.run_ticks()', 'elsewhere', current_user),
('nightly', '0 2 * * *', 'vacuum', current_database(), 'somebody'),
('pgwhen:' || current_database(), '* * * * *', 'call pgwhen.run_ticks()', current_database(), 'x');
select pgwhen.enable_cron(5);
select bag_eq(
    'select t.jobs()',
    $$
    select t.the_job('5 seconds')
    union all
    values ('pgwhen:elsewhere|* * * * *|postgres|elsewhere|t'),
        ('nightly|0 2 * * *|somebody|' || current_database() || '|t')
    $$,
    'removes jobs of the same name, and no other'
);

insert into _pgwhen.home (cluster, database_oid, database_name, adopted_at)
values ('1', 1, 'shop', '2030-01-01');
select is(t.sqlstate_of('select pgwhen.enable_cron()'), 'PW801', 'refuses in a copy');

delete from _pgwhen.home;
select is(
    (select c.mark from _pgwhen.chore as c where c.name = 'cron'),
    (select j.jobid from cron.job as j where j.schedule = '5 seconds'),
    'remembers which job it is'
);

select finish();
rollback;
