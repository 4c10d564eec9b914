-- pgwhen.retry_event: a parked event waits again, once.
begin;
\ir ../helpers.psql
select plan(9);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r') as rule \gset
select pgwhen.emit('ordered', 'U1', '{"n": 1}', key => 'web', at => '2030-01-06 12:00+00') as event
\gset
create table t.before as select * from pgwhen.event;
select _pgwhen.park_event(:event, 'it ended the connection');
select pgwhen.emit('ordered', 'U1') as newer \gset
select t.it_is('2030-01-07 13:00+00');

select pgwhen.retry_event(:event) as again \gset
select cmp_ok(:again, '>', :newer, 'draws a new id, for a scan may have passed the old one');
select results_eq(
    format(
        $$ select to_jsonb(e) - 'id' from pgwhen.event as e where e.id = %s $$, :again
    ),
    $$ select to_jsonb(b) - 'id' from t.before as b $$, 'changes nothing else about it'
);
select is_empty('table _pgwhen.processed_event', 'leaves no second one among those that are done');
select throws_ok(
    format('select pgwhen.retry_event(%s)', :event), 'PW605',
    format('event %s is not parked', :event), 'happens once'
);
select is(t.process(), 2, 'and it is processed');
select results_eq(
    format(
        $$ select a.key from pgwhen.scheduled_action as a where a.event ->> 'id' = '%s' $$, :again
    ),
    format(
        $$ select _pgwhen.action_key(b.uuid, 'default', 'U1', %s) from t.before as b $$, :rule
    ),
    'its actions have the keys that they would have had'
);
select throws_ok(
    format('select pgwhen.retry_event(%s)', :again), 'PW605', null,
    'refuses what was processed: nothing is done twice'
);
select throws_ok('select pgwhen.retry_event(null)', 'PW605', null, 'refuses nothing');
select pgwhen.emit('ordered', 'U1') as waits \gset
select throws_ok(
    format('select pgwhen.retry_event(%s)', :waits), 'PW605', null, 'refuses what waits already'
);

select finish();
rollback;
