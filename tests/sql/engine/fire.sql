-- _pgwhen.fire: a batch of events from the outbox to actions.
begin;
\ir ../helpers.psql
select plan(8);

select t.it_is('2030-01-07 12:00+00');

-- Each event of a user sees what the one before it did.
select t.a_rule(
    'first', 'step', '{"condition": {"event.data.n": 1}}', 'add_to_audience',
        '{"audience": "stepped"}'
);
select t.a_rule('then', 'step',
    '{"condition": {"event.data.n": 2, "$audience": "stepped"}}') as then \gset
select pgwhen.emit('step', 'U1', jsonb_build_object('n', n)) from generate_series(1, 2) as n;
select is((pgwhen.process_events('w-1')).events, 2, 'takes both in one batch');
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.trigger_rule_id = :then), 1::bigint,
    'an event sees what the same user''s event before it did'
);

-- Two actions of one event, several events of one user, and their order in the log.
select t.a_rule('log ' || n, 'many', action_type => 'add_to_audience',
    action_config => '{"audience": "m"}')
from generate_series(1, 2) as n;
select pgwhen.emit('many', 'U1') from generate_series(1, 20);
select t.process();
select is(
    (
        select array_agg(l.event_id order by l.id)
        from pgwhen.trigger_log as l where l.trigger_on = 'many'
    ),
    (
        select array_agg(l.event_id order by l.event_id)
        from pgwhen.trigger_log as l where l.trigger_on = 'many'
    ),
    'a user''s events are logged in their order'
);

-- The steps know whom they serve.
select pgwhen.emit('many', 'U1') as event \gset
select is(
    (_pgwhen.fire('w-1', '{}', '{}', 5)).claimed, '[]', 'fires nothing of nothing'
);
select _pgwhen.fire('w-1', array[:event, :event, 999999999]::bigint[], '{}', 5);
select is(
    (select count(*) from pgwhen.trigger_log as l where l.event_id = :event), 2::bigint,
    'fires an event once, and ignores ids that are none'
);
select _pgwhen.fire('w-1', array[:event]::bigint[], '{}', 5);
select _pgwhen.fire_alone('w-1', :event);
select is(
    (select count(*) from pgwhen.trigger_log as l where l.event_id = :event), 2::bigint,
    'and never again'
);

-- A rule that is deleted between an event and its processing.
select t.a_rule('gone', 'fleeting') as gone \gset
select pgwhen.emit('fleeting', 'U1');
update pgwhen.trigger_rule set deleted_date = _pgwhen.clock() where id = :gone;
select is(t.process(), 1, 'processes an event whose rule is gone');
select is_empty(
    format('select from pgwhen.scheduled_action as a where a.trigger_rule_id = %s', :gone),
        'to no effect'
);

select finish();
rollback;
