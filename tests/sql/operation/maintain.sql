-- pgwhen.maintain: what goes after a while.
begin;
\ir ../helpers.psql
select plan(14);

insert into pgwhen.setting (name, value) values ('actionRetention', '"1 day"');

select t.it_is('2030-07-01 12:00+00');
select set_eq(
    'select jsonb_object_keys(pgwhen.maintain())',
    array[
        'partitionsMade', 'partitionsDropped', 'actionsDeleted', 'effectsDeleted', 'cronRunsDeleted'
    ],
    'says what it did'
);
insert into pgwhen.scheduled_action (user_id, action_type, status, key, claim_token, deadline,
    updated_at, execute_at)
select
    s.status || n, 't', s.status, gen_random_uuid(),
    case s.status when 'processing' then gen_random_uuid() end,
    case s.status when 'processing' then timestamptz '2030-01-01 00:00+00' end,
    timestamptz '2030-06-30 12:00+00' - n * interval '1 microsecond', '2030-01-01 00:00+00'
from unnest(array['pending', 'processing', 'done', 'failed', 'cancelled']) as s (status)
cross join generate_series(0, 9) as n;

select is(pgwhen.maintain(5) ->> 'actionsDeleted', '5', 'deletes no more actions than asked');
select is(pgwhen.maintain(1000) ->> 'actionsDeleted', '22',
    'then the rest of those that are finished and old');
select results_eq(
    'select a.status, count(*)
    from pgwhen.scheduled_action as a group by a.status order by a.status',
    $$ values ('cancelled', 1::bigint), ('done', 1), ('failed', 1), ('pending', 10),
        ('processing', 10) $$,
    'and never what is pending or processing, however old'
);

-- The rest ------------------------------------------------------------------------------------

select t.a_rule('false', 'asked', '{"condition": {"event.data.n": 1}}') as false \gset
select pgwhen.emit('asked', 'U' || n) from generate_series(1, 3) as n;
select pgwhen.process_events('w-1', batch_size => 1) from generate_series(1, 3);
select is((select count(*) from _pgwhen.false_count), 3::bigint,
    'false conditions are counted in batches');
select pgwhen.maintain();
select is((select count(*) from _pgwhen.false_count), 1::bigint, 'which it folds');
select is(
    (select c.condition_false from pgwhen.rule_counts as c where c.rule_id = :false), 3::numeric,
        'and loses none'
);

select pgwhen.announce_worker('w-1', '{}');
select t.it_is('2030-07-02 12:00+00');
select pgwhen.maintain();
select isnt_empty('table _pgwhen.worker', 'remembers a worker for a day');
select t.it_is('2030-07-02 12:00:01+00');
select pgwhen.maintain();
select is_empty('table _pgwhen.worker', 'and then forgets it');

select throws_ok(
    'select pgwhen.maintain(0)', 'PW301', 'batch_size must be 1 or more, not 0',
        'refuses to do nothing'
);
select t.it_is('2030-07-02 13:00:00+00');
select pgwhen.emit('ordered', 'U1');
select _pgwhen.maintain_if_due();
select is(
    (select c.done_at from _pgwhen.chore as c where c.name = 'maintain'), '2030-07-02 12:00:01+00',
    'is not due within the hour'
);
select t.it_is('2030-07-02 13:00:01+00');
select _pgwhen.maintain_if_due();
select is(
    (select c.done_at from _pgwhen.chore as c where c.name = 'maintain'),
        '2030-07-02 13:00:01+00', 'and then is'
);
insert into pgwhen.scheduled_action (
    user_id, action_type, execute_at, key, status, created_date, updated_at
)
select 'U', 'log_message', '2029-01-01', gen_random_uuid(), 'done', '2029-01-01', '2029-01-01'
from generate_series(1, 12);
select t.it_is('2030-07-02 14:30:00+00');
create function t.is_done() returns boolean language sql as $$
select c.done_at = _pgwhen.clock() from _pgwhen.chore as c where c.name = 'maintain';
$$;
select results_eq(
    'select (pgwhen.maintain(5) -> ''actionsDeleted'')::integer, t.is_done()',
    'values (5, false)', 'is due at once again while there is more'
);
select pgwhen.maintain(5);
select results_eq(
    'select (pgwhen.maintain(5) -> ''actionsDeleted'')::integer, t.is_done()',
    'values (2, true)', 'until there is not'
);

select finish();
rollback;
