-- _pgwhen.fire, _pgwhen.fire_alone: a batch from the outbox to actions, and an event by itself.
begin;
\ir ../helpers.psql
select plan(21);

select t.it_is('2030-01-07 12:00+00');
create function t.counts(rule bigint) returns bigint language sql as $$
select c.condition_false::bigint from pgwhen.rule_counts as c where c.rule_id = counts.rule;
$$;

-- What was false is counted, and logged where the rule says so.
select t.a_rule('quiet', 'asked', '{"condition": {"event.data.n": {"$gt": 5}}}') as quiet \gset
select t.a_rule('loud', 'asked', '{"condition": {"event.data.n": {"$gt": 5}}, "log": "all"}') as loud \gset
select t.a_rule('other', 'asked', '{"condition": {"event.data.n": {"$gte": 0}}}') as other \gset
select pgwhen.emit('asked', 'U1', jsonb_build_object('n', n)) from generate_series(1, 7) as n;
select t.process();
select is(t.counts(:quiet), 5::bigint, 'counts what was false for a rule');
select is(t.log_of(:quiet), '{}', 'and does not log it');
select is(t.counts(:loud), 5::bigint, 'counts it where it is logged too');
select is(
    t.log_of(:loud), array_fill('suppressed: condition false'::text, array[5]), 'logs it for "log": "all"'
);
select is(t.counts(:other), 0::bigint, 'counts nothing for a rule that was true');
select pgwhen.emit('asked', 'U2', '{"n": 1}');
select t.process();
select is(t.counts(:quiet), 6::bigint, 'goes on counting');

-- Each event of a user sees what the one before it did.
select t.a_rule(
    'first', 'step', '{"condition": {"event.data.n": 1}}', 'add_to_audience', '{"audience": "stepped"}'
);
select t.a_rule('then', 'step', '{"condition": {"event.data.n": 2, "$audience": "stepped"}}') as then \gset
select pgwhen.emit('step', 'U1', jsonb_build_object('n', n)) from generate_series(1, 2) as n;
select is((pgwhen.process_events('w-1')).events, 2, 'takes both in one batch');
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.trigger_rule_id = :then), 1::bigint,
    'an event sees what the same user''s event before it did'
);

-- Two actions of one event, several events of one user, and their order in the log.
select t.a_rule('log ' || n, 'many', action_type => 'add_to_audience', action_config => '{"audience": "m"}')
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

-- A rule that was saved well and errs when it is asked: its compiled row has been tampered with.
select t.a_rule('broken', 'mixed', '{"condition": {"event.data.n": 1}}') as broken \gset
select t.a_rule('sound', 'mixed', action_type => 'add_to_audience', action_config => '{"audience": "x"}') as sound \gset
select t.a_rule('queued', 'mixed') as queued \gset
update _pgwhen.rule set condition_path = '$.event.type' where trigger_rule_id = :broken;
select pgwhen.emit('mixed', 'U' || n) from generate_series(1, 3) as n;
select pgwhen.emit('many', 'U' || n) from generate_series(1, 3) as n;
select is(t.process(), 6, 'goes on where a rule errs');
select is(
    t.log_of(:broken),
    array_fill('failed: 22038: single boolean result is expected'::text, array[3]),
    'which fails for each event, and says how'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.trigger_rule_id = :queued), 3::bigint,
    'the other rules of the event fire'
);
select is((pgwhen.tick()).actions, 3, 'their SQL actions too, if later');
select is(t.log_of(:sound), '{success,success,success}', 'and end well');
select is(
    (select count(*) from pgwhen.trigger_log as l where l.trigger_on = 'many'), 46::bigint,
    'as do other events of the batch'
);
select is_empty('table _pgwhen.outbox', 'nothing is left behind');

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
    format('select from pgwhen.scheduled_action as a where a.trigger_rule_id = %s', :gone), 'to no effect'
);

select finish();
rollback;
