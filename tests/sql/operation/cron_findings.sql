-- _pgwhen.cron_findings: what is wrong with ticking by pg_cron, each with what to do.
begin;
\ir ../helpers.psql
select plan(17);

select t.it_is('2030-01-07 12:00+00');
\ir cron.psql
create function t.findings() returns setof text language sql as $$
select concat(f.finding, ' -> ', f.remedy) from _pgwhen.cron_findings() as f order by 1;
$$;
create function t.no_findings(why text) returns text language sql as $$
select is_empty('select t.findings()', no_findings.why);
$$;
create function t.finds(what text, why text) returns text language sql as $$
select is((select string_agg(f, E'\n') from t.findings() as f), finds.what, finds.why);
$$;
create function t.a_run(
    started_at timestamptz,
    status text default 'succeeded',
    said text default null
)
returns void language sql as $$
insert into cron.job_run_details (jobid, status, return_message, start_time)
select j.jobid, a_run.status, a_run.said, a_run.started_at from cron.job as j;
$$;

select t.no_findings('none where nobody asked for pg_cron');
select pgwhen.enable_cron();
select t.no_findings('none where it was asked for just now');
select t.it_is('2030-01-07 12:03+00');
select t.no_findings('and none for three minutes');

-- It does not run
select jobid from cron.job \gset
select t.it_is('2030-01-07 12:03:01+00');
select t.finds(
    format('job %s has not run yet -> see whether pg_cron''s launcher lives: select from '
        'pg_stat_activity where backend_type = ''pg_cron launcher''; where it does not, restart '
        'the server; where it does, select pgwhen.enable_cron() again', :jobid),
    'it has not run for longer than that'
);
select t.a_run('2030-01-07 12:01+00', 'running');
select t.no_findings('one run suffices, also one that goes on');
select t.it_is('2030-01-07 12:04:01+00');
select alike(
    (select f from t.findings() as f),
    'job % has not run since 2030-01-07T12:01:00Z -> %',
    'it has not run since'
);
select t.a_run(null, 'failed', 'connection failed');
select t.finds(
    format('the last run of job %s failed: connection failed -> mend what the message says; '
        'pg_cron tries again by itself', :jobid),
    'its last run failed'
);
select t.a_run('2030-01-07 12:04+00');
select t.no_findings('none where the last run went well');

-- It cannot run
update cron.job set active = false;
select t.finds(
    format('job %s of pg_cron is not active -> select pgwhen.enable_cron()', :jobid), 'inactive'
);
update cron.job set active = true, nodeport = 1;
select t.finds(
    format('job %s of pg_cron calls the server at port 1, and this one is at %s -> '
        'select pgwhen.enable_cron()', :jobid, current_setting('port')),
    'of another server'
);
update cron.job set nodeport = current_setting('port')::integer, username = 'pgwhen_viewer';
select t.finds(
    format('job %s of pg_cron belongs to role "pgwhen_viewer", which may not call run_ticks() -> '
        'grant pgwhen_worker to pgwhen_viewer', :jobid),
    'of a role that may not'
);
update cron.job set username = 'no such role';
select t.finds(
    format('job %s of pg_cron belongs to role "no such role", which was dropped: no job of pg_cron '
        'runs -> as a superuser: select pgwhen.disable_cron(); then, as a role that stays: '
        'select pgwhen.enable_cron()', :jobid),
    'of a role that is gone'
);

-- There are too many of it, or none
update cron.job set username = current_user;
insert into cron.job (jobname, schedule, command, username)
select j.jobname, j.schedule, j.command, 'pgwhen_worker' from cron.job as j;
insert into cron.job_run_details (jobid, status, start_time)
select j.jobid, 'succeeded', _pgwhen.clock() from cron.job as j;
select t.finds(
    format('2 jobs tick this database, of the roles %s, pgwhen_worker -> '
        'as a superuser: select pgwhen.enable_cron()', current_user),
    'two of two roles'
);
delete from cron.job;
select t.finds(
    format('there is no job pgwhen:%s in pg_cron -> select pgwhen.enable_cron()',
        current_database()),
    'none, though it was asked for'
);
select pgwhen.disable_cron();

-- Those of others
insert into cron.job (jobname, schedule, command, database, username) values
('pgwhen:shop', '* * * * *', 'call pgwhen.run_ticks()', 'no such database', current_user),
('nightly', '0 2 * * *', 'vacuum', 'no such database', current_user),
('weekly', '0 2 * * 0', 'vacuum', current_database(), 'no such role');
select results_eq(
    $$ select regexp_replace(f, '\d+', 'N', 'g') from t.findings() as f $$,
    array[
        'job N (pgwhen:shop) runs in database "no such database", which is not in this cluster: it '
        'came with a dump, or the database was renamed -> select cron.unschedule(N)',
        'job N of pg_cron belongs to role "no such role", which was dropped: no job of pg_cron '
        'runs -> as a superuser: select cron.unschedule(N)'
    ],
    'of others: what stops all jobs, and what was ours'
);

insert into _pgwhen.home (cluster, database_oid, database_name, adopted_at)
values ('1', 1, 'shop', '2030-01-01');
select t.finds(
    'this is a copy of database "shop" (oid 1) of cluster 1, and does nothing by itself -> '
    'if it is the real one now: select pgwhen.adopt()',
    'this is a copy: nothing else counts'
);
select is(
    (
        select s.value
        from pgwhen.status() as s
        where s.item = 'ticking by itself'
    ),
    'this is a copy of database "shop" (oid 1) of cluster 1, and does nothing by itself',
    'status() has them'
);

select finish();
rollback;
