-- _pgwhen.fire_alone: one event by itself, rule by rule, when its batch has raised.
begin;
\ir ../helpers.psql
select plan(11);

select t.it_is('2030-01-07 12:00+00');

-- A deferred constraint is checked while it can still be caught. First, because a transaction that
-- has made its constraints immediate keeps them so.
create function t.refuse() returns trigger language plpgsql as
'begin raise exception ''no more'' using errcode = ''XX123''; end';
create constraint trigger refuse after insert on pgwhen.scheduled_action
deferrable initially deferred
for each row when (new.user_id = 'forbidden') execute function t.refuse();
select t.a_rule('forbidden', 'first') as forbidden \gset
select pgwhen.emit('first', 'forbidden') as event \gset
select ok(_pgwhen.fire_alone('w-1', :event), 'has dealt with an event');
select is(
    t.log_of(:forbidden), array['failed: XX123: no more'],
    'catches what violates a deferred constraint'
);

select
    t.a_rule(
        'log ' || n, 'many', action_type => 'add_to_audience', action_config => '{"audience": "m"}'
    )
from generate_series(1, 2) as n;
-- A rule that was saved well and errs when it is asked: its compiled row has been tampered with.
select t.a_rule('broken', 'mixed', '{"condition": {"event.data.n": 1}}') as broken \gset
select
    t.a_rule(
        'sound', 'mixed', action_type => 'add_to_audience', action_config => '{"audience": "x"}'
    ) as sound
\gset
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
    (select count(*) from pgwhen.scheduled_action as a where a.trigger_rule_id = :queued),
    3::bigint,
    'the other rules of the event fire'
);
select is((pgwhen.tick()).actions, 3, 'their SQL actions too, if later');
select is(t.log_of(:sound), '{success,success,success}', 'and end well');
select is(
    (select count(*) from pgwhen.trigger_log as l where l.trigger_on = 'many'), 6::bigint,
    'as do other events of the batch'
);
select is_empty('table _pgwhen.outbox', 'nothing is left behind');

-- Where not even that can be done, the event is parked.
create trigger curse before insert on pgwhen.scheduled_action
for each row when (new.user_id = 'cursed') execute function t.refuse();
create trigger curse before insert on pgwhen.trigger_log
for each row when (
    new.user_id = 'cursed' and new.trigger_rule_id is not null
) execute function t.refuse();
select t.a_rule('always', 'cursing') as always \gset
select pgwhen.emit('cursing', 'cursed') as cursed \gset
select is(t.process(), 1, 'goes on where an event can neither fire nor fail');
select is(
    (select e.parked from pgwhen.event as e where e.id = :cursed), 'XX123: no more', 'and parks it'
);

select finish();
rollback;
