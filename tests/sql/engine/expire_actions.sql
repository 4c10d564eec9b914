-- pgwhen.expire_actions: the waits whose time is over.
begin;
\ir ../helpers.psql
select plan(18);

select t.it_is('2030-01-07 12:00+00');
select is(pgwhen.expire_actions(), 0, 'ends nothing where nothing waits');
select throws_ok(
    'select pgwhen.expire_actions(0)', 'PW301', 'batch_size must be 1 or more, not 0',
    'refuses a batch of nothing'
);

select t.a_waiting_rule('r', '{"expiresSeconds": 600}') as rule \gset
select pgwhen.emit('ordered', 'U' || n, at => _pgwhen.clock() - n * interval '1 s')
from generate_series(1, 5) as n;
select t.process();
update pgwhen.scheduled_action as a set expires_at = a.counts_from + interval '10 minutes';
select is((pgwhen.process_events('w-1')).next_due_seconds, null, 'a wait is not due');
select t.it_is('2030-01-07 12:09:54+00');
select is(
    (pgwhen.process_events('w-1')).next_due_seconds, 1::float8,
    'a worker is told when the next wait expires'
);
select t.it_is('2030-01-07 12:10+00');
select is((pgwhen.process_events('w-1')).next_due_seconds, -5::float8, 'or that one is overdue');
select is(pgwhen.expire_actions(2), 2, 'ends no more than asked');
select results_eq(
    'select a.user_id from pgwhen.scheduled_action as a where a.waiting order by a.user_id',
    array['U1', 'U2', 'U3'], 'the oldest first'
);
select is((select t.more from pgwhen.tick(2) as t), true, 'a tick says that there are more');
select is((select t.expired from pgwhen.tick(2) as t), 1, 'then the rest');
select is(
    array(select distinct l.status from pgwhen.trigger_log as l), '{expired}', 'each is logged'
);

-- A click that was committed in time is honoured, however late it is processed.
select t.a_waiting_rule('c', '{"expiresSeconds": 600, "tracking": {"link": "offer"}}') as clicks
\gset
delete from pgwhen.trigger_rule where id = :rule;
select pgwhen.emit('ordered', 'V' || n) from generate_series(1, 5) as n;
select t.process();
select t.it_is('2030-01-07 12:15+00');
select
    t.a_click('V1', 'offer'), t.a_click('V2', 'other'),
    t.a_click('V3', 'offer', data => '{"bot": true}'),
    t.a_click('V4', 'offer', at => '2030-01-07 12:09+00');
select t.it_is('2030-01-07 20:00+00');
select t.a_click('V5', 'offer');
select is(pgwhen.expire_actions(1), 1, 'a wait that is left to its click is in nobody''s way');
select is(pgwhen.expire_actions(), 3, 'ends what no click in time is for');
select is(
    t.states(:clicks),
    array['waiting'] || array_fill('cancelled not_clicked'::text, array[4]),
    'and leaves the others to their clicks'
);
select is(pgwhen.expire_actions(), 0, 'however often it looks');
select t.process();
select is((t.states(:clicks))[1], 'pending clicked', 'which then count');
select is(
    array(
        select l.user_id || ' ' || l.status from pgwhen.trigger_log as l
        where l.trigger_rule_id = :clicks and l.status <> 'expired'
    ), '{V5 late_click}', 'a click after the time is late'
);

-- A bad one harms only itself.
select pgwhen.emit('ordered', 'W' || n) from generate_series(1, 4) as n;
select t.process();
select t.it_is('2030-01-08 12:00+00');
create function t.refuse() returns trigger language plpgsql as $$
begin
    raise exception 'not this one';
end;
$$;
create trigger refuse before update on pgwhen.scheduled_action for each row
when (new.outcome = 'not_clicked' and new.user_id = 'W2') execute function t.refuse();
select is(pgwhen.expire_actions(), 4, 'ends all but the one that raises');
select is(
    array(
        select l.user_id || ' ' || concat_ws(': ', l.status, l.error_message)
        from pgwhen.trigger_log as l
        where l.user_id like 'W%'
        order by l.user_id
    ),
    array[
        'W1 expired: no click until 2030-01-07T20:10:00Z',
        'W2 failed: P0001: not this one',
        'W3 expired: no click until 2030-01-07T20:10:00Z',
        'W4 expired: no click until 2030-01-07T20:10:00Z'
    ],
    'which fails, and says why'
);

select finish();
rollback;
