-- pgwhen.recover_stale_actions: take back what passed its deadline.
begin;
\ir ../helpers.psql
select plan(18);

select t.it_is('2030-01-07 12:00+00');
insert into pgwhen.setting (name, value) values ('staleProcessingMinute', '0.05');
select t.an_action() as action \gset
select count(*) from pgwhen.claim_actions('w-1');
create function t.state() returns text language sql as $$
select concat_ws(
    ' | ', a.status, a.retry_count, to_char(a.execute_at at time zone 'UTC', 'HH24:MI:SS'),
        a.error_message
)
from pgwhen.scheduled_action as a;
$$;

select is(pgwhen.recover_stale_actions(), 0, 'takes back nothing that still may run');
select t.it_is('2030-01-07 12:00:03+00');
select is(pgwhen.recover_stale_actions(), 0, 'not even at the deadline');
select t.it_is('2030-01-07 12:00:04+00');
select
    is(pgwhen.recover_stale_actions(), 1, 'takes back what passed its deadline, and says how many');
select is(
    t.state(),
    'pending | 1 | 12:00:14 | Timeout:StartToClose: attempt 1 by w-1 passed its deadline',
    'makes it due after its backoff; the attempt counts'
);
select is(pgwhen.recover_stale_actions(), 0, 'takes back nothing twice');

create function t.die() returns integer language plpgsql as $$
begin
    perform t.it_is(a.execute_at) from pgwhen.scheduled_action as a;
    perform from pgwhen.claim_actions('w-2');
    perform t.it_is(_pgwhen.clock() + interval '4 seconds');
    return pgwhen.recover_stale_actions();
end;
$$;
select t.die();
select t.die();
select t.die();
select is(
    t.state(),
    'failed | 4 | 12:01:22 | Timeout:StartToClose: attempt 4 by w-2 passed its deadline',
    'ends as failed what dies in its last attempt'
);
select results_eq(
    'select l.status, left(l.error_message, 31) from pgwhen.trigger_log as l',
    $$ values ('failed', 'Timeout:StartToClose: attempt 4') $$, 'which is logged once'
);

-- In batches, the oldest deadline first.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 12:00+00');
select t.an_action(user_id => 'first');
select count(*) from pgwhen.claim_actions('w-1');
select t.it_is('2030-01-07 12:00:01+00');
select t.an_action(user_id => 'U' || n) from generate_series(1, 4) as n;
select count(*) from pgwhen.claim_actions('w-1');
select t.it_is('2030-01-07 12:01+00');
select is(pgwhen.recover_stale_actions(1), 1, 'takes back no more than asked');
select results_eq(
    $$ select a.user_id from pgwhen.scheduled_action as a where a.status = 'pending' $$,
    array['first'], 'those first that are late the longest'
);
insert into pgwhen.setting (name, value) values ('batchSize', '3');
select is(pgwhen.recover_stale_actions(), 3, 'takes back batchSize by default');
select is(pgwhen.recover_stale_actions(), 1, 'and the rest the next time');

select throws_ok(
    format('select pgwhen.recover_stale_actions(%s)', b.size),
    'PW301', 'batch_size must be 1 or more, not ' || b.size, format('refuses %s', b.size)
)
from unnest(array[0, -1]) as b (size);

-- A slot is kept: nobody knows how far the dead worker came.
truncate pgwhen.scheduled_action;
delete from pgwhen.setting;
insert into pgwhen.setting (name, value) values ('maxRetries', '0');
select t.a_rule('once', frequency => 'once') as once \gset
select pgwhen.emit('ordered', 'U1');
select pgwhen.process_events('w-1', '{log_message}');
select t.it_is('2030-01-07 13:00+00');
select pgwhen.recover_stale_actions();
select is(
    (select array_agg(r.user_id) from _pgwhen.reservation as r where r.trigger_rule_id = :once),
    array['U1'], 'keeps the frequency slot of what may have been delivered'
);

-- One that cannot be taken back keeps no other back.
truncate pgwhen.scheduled_action;
insert into pgwhen.setting (name, value) values ('batchSize', '4');
create function t.object() returns trigger language plpgsql as $$
begin
    if new.user_id = 'bad' then
        raise exception 'not this one';
    end if;
    return new;
end;
$$;
create trigger object before insert on pgwhen.trigger_log for each row execute function t.object();
select t.an_action(user_id => u) from unnest('{a,bad,b,c}'::text[]) as u;
select count(*) from pgwhen.claim_actions('w-1', 100);
select t.it_is('2030-01-07 14:00+00');
select is(pgwhen.recover_stale_actions(), 3, 'takes back all but the one that raises');
select results_eq(
    $$
    select a.user_id, a.status, a.error_message
    from pgwhen.scheduled_action as a
    where a.status <> 'failed'
    $$,
    $$ values ('bad', 'processing', 'cannot be recovered: P0001: not this one') $$,
    'which says why'
);
select is(pgwhen.recover_stale_actions(), 0, 'and is not at the head of the next batch');
drop trigger object on pgwhen.trigger_log;
select t.it_is('2030-01-07 14:02+00');
select is(pgwhen.recover_stale_actions(), 1, 'but tried again after a minute');

select finish();
rollback;
