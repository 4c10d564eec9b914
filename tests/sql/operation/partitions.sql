-- Time partitions: made ahead, filled late, dropped by retention; pgwhen.maintain() does it all.
begin;
\ir ../helpers.psql
select plan(24);

insert into pgwhen.setting (name, value) values
('eventRetention', '"20 days"'), ('logRetention', '"31 days"'), ('actionRetention', '"1 day"');

create function t.partitions(parent regclass) returns setof text language sql as $$
select c.relname::text
from pg_inherits as i
inner join pg_class as c on i.inhrelid = c.oid
where i.inhparent = partitions.parent
order by c.relname collate "C";
$$;

-- Ahead -------------------------------------------------------------------------------------

-- What the deploy made is long past.
select t.it_is('2030-01-07 12:00+00');
select _pgwhen.drop_partitions('_pgwhen.processed_event', 'eventRetention');
select _pgwhen.drop_partitions('pgwhen.trigger_log', 'logRetention');
select is(
    pgwhen.maintain(),
    '{"partitionsMade": 7, "partitionsDropped": 0, "actionsDeleted": 0, "effectsDeleted": 0,
    "cronRunsDeleted": 0}',
    'says what it did'
);
select results_eq(
    $$ select t.partitions('_pgwhen.processed_event') $$,
    array[
        'processed_event_20300107', 'processed_event_20300108', 'processed_event_20300109',
        'processed_event_20300110', 'processed_event_default'
    ],
    'makes partitions of processed events for four days'
);
select results_eq(
    $$ select t.partitions('pgwhen.trigger_log') $$,
    array['trigger_log_203001', 'trigger_log_203002', 'trigger_log_203003', 'trigger_log_default'],
    'makes partitions of the log for three months'
);
select is(
    pgwhen.maintain(),
    '{"partitionsMade": 0, "partitionsDropped": 0, "actionsDeleted": 0, "effectsDeleted": 0,
    "cronRunsDeleted": 0}',
    'does nothing twice'
);
select t.it_is('2030-01-08 00:00+00');
select is(pgwhen.maintain() ->> 'partitionsMade', '1', 'makes one more a day later');

-- A partition has what its parent has, and rows go where they belong.
select
    t.a_rule('r', action_type => 'add_to_audience', action_config => '{"audience": "a"}') as rule
\gset
select t.it_is('2030-01-08 23:59:59.999999+00');
select pgwhen.emit('ordered', 'U1');
select t.process();
select t.it_is('2030-01-09 00:00+00');
select pgwhen.emit('ordered', 'U2');
select t.process();
select results_eq(
    'select e.tableoid::regclass::text, e.user_id from _pgwhen.processed_event as e order by 2',
    $$ values ('_pgwhen.processed_event_20300108', 'U1'), ('_pgwhen.processed_event_20300109',
        'U2') $$,
    'each row is in the partition of its day'
);
select is(
    (
        select count(*)
        from pg_indexes as i
        where i.schemaname = 'pgwhen' and i.tablename = 'trigger_log_203001'
    ),
    (
        select count(*)
        from pg_indexes as i
        where i.schemaname = 'pgwhen' and i.tablename = 'trigger_log'
    ),
    'a partition has its parent''s indexes'
);
select is_empty(
    $$
    select c.relname, a.grantee::regrole
    from pg_class as c
    cross join aclexplode(c.relacl) as a
    where c.relname like 'trigger_log_2030%' and a.grantee <> c.relowner
    $$,
    'and nobody may read it but through its parent'
);

-- Late: nobody has maintained for a while, and the default partition has caught the rows.
select t.it_is('2030-01-20 12:00+00');
select pgwhen.emit('ordered', 'late ' || n) from generate_series(1, 3) as n;
select t.process();
select is(
    (select count(*) from _pgwhen.processed_event_default),
    3::bigint,
    'rows without a partition are kept by default'
);
select is(pgwhen.maintain() ->> 'partitionsMade', '4', 'makes the partitions that are due by now');
select
    is(
        (select count(*) from _pgwhen.processed_event_default),
        0::bigint,
        'moves what the default one caught'
    );
select results_eq(
    $$
    select e.tableoid::regclass::text, e.user_id, e.type
    from _pgwhen.processed_event as e where e.user_id like 'late%' order by 2
    $$,
    $$
    select '_pgwhen.processed_event_20300120', 'late ' || n, 'ordered' from generate_series(1,
        3) as n
    $$,
    'into the partition that is theirs'
);

-- Retention -----------------------------------------------------------------------------------

update pgwhen.setting set value = '"2 days"' where name = 'eventRetention';
select t.it_is('2030-01-21 12:00+00');
select
    is(
        pgwhen.maintain() ->> 'partitionsDropped',
        '5',
        'drops partitions that lie wholly before the retention'
    );
select results_eq(
    $$ select t.partitions('_pgwhen.processed_event') as p offset 0 limit 1 $$,
    array['processed_event_20300120'], 'and no other'
);
select is(
    (select count(*) from pgwhen.event as e where e.user_id like 'late%'),
    3::bigint,
    'what is younger stays'
);
select t.it_is('2030-01-22 23:59:59+00');
select pgwhen.maintain();
select
    isnt_empty(
        $$ select from pgwhen.event as e where e.user_id like 'late%' $$, 'up to the moment'
    );
select t.it_is('2030-01-23 00:00:00+00');
select pgwhen.maintain();
select
    is_empty(
        $$ select from pgwhen.event as e where e.user_id like 'late%' $$,
        'at which the last row is too old'
    );
select
    isnt_empty(
        format('select from pgwhen.trigger_log as l where l.trigger_rule_id = %s', :rule),
        'the log has its own'
    );
select t.it_is('2030-03-03 23:59+00');
select pgwhen.maintain();
select
    isnt_empty(
        format('select from pgwhen.trigger_log as l where l.trigger_rule_id = %s', :rule),
        'which lasts'
    );
select t.it_is('2030-03-04 00:00+00');
select pgwhen.maintain();
select
    is_empty(
        format('select from pgwhen.trigger_log as l where l.trigger_rule_id = %s', :rule),
        'as long as it says'
    );

-- Rows that the default partition caught on days that have passed since.
select t.it_is('2030-06-01 12:00+00');
select pgwhen.emit('ordered', 'forgotten');
select t.process();
select t.it_is('2030-06-02 12:00+00');
select pgwhen.maintain();
select
    isnt_empty(
        $$ select from pgwhen.event as e where e.user_id = 'forgotten' $$,
        'rows of the default partition are kept'
    );
select t.it_is('2030-06-04 00:00+00');
select pgwhen.maintain();
select
    is_empty(
        $$ select from pgwhen.event as e where e.user_id = 'forgotten' $$, 'for as long as others'
    );

-- Clicks are kept for waits that are still to begin, whatever the setting.
update pgwhen.setting set value = '0' where name = 'eventRetention';
select t.a_click('clicker');
select t.process();
select t.it_is('2030-06-05 23:59:59+00');
select pgwhen.maintain();
select
    isnt_empty(
        $$ select from pgwhen.event as e where e.user_id = 'clicker' $$,
        'clicks are kept for a day where events are not kept at all'
    );
select t.it_is('2030-06-06 00:00+00');
select pgwhen.maintain();
select is_empty($$ select from pgwhen.event as e where e.user_id = 'clicker' $$, 'and no longer');

select finish();
rollback;
