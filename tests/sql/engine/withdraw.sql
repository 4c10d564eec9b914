-- _pgwhen.withdraw: events leave the outbox, and are kept for a while.
begin;
\ir ../helpers.psql
select plan(6);

select t.it_is('2030-01-07 12:00+00');
create view t.event as
select e.id, e.uuid, e.line_oa_id, e.user_id, e.type, e.key, e.old, e.new, e.data, e.facts, e.at,
    e.created_at, e.chain
from pgwhen.event as e;

select t.a_user('U1', '{"tier": "gold"}');
select pgwhen.emit('ordered', 'U1', '{"x": 1}', key => 'k', at => '2030-01-01 00:00+00');
create table t.before as table t.event;
select
    is(
        (select count(*) from pgwhen.event as e where e.processed_at is null),
        2::bigint,
        'an event waits'
    );
select t.it_is('2030-01-07 13:00+00');
select t.process();
select results_eq(
    'select distinct e.processed_at, e.parked from pgwhen.event as e',
    $$ values ('2030-01-07 13:00+00'::timestamptz, null::text) $$, 'and then is processed'
);
select set_eq('table t.event', 'table t.before', 'it is kept as it was');
select is_empty('table _pgwhen.outbox', 'and is not in the outbox');

insert into pgwhen.setting (name, value) values ('eventRetention', '0');
select pgwhen.emit('ordered', 'U2') as parked \gset
select pgwhen.emit('ordered', 'U3');
select _pgwhen.park_event(:parked, 'because');
select t.process();
select is_empty(
    $$ select from pgwhen.event as e where e.user_id = 'U3' $$,
    'nothing is kept with a retention of nought'
);
select is(
    (select e.parked from pgwhen.event as e where e.user_id = 'U2'),
    'because',
    'but for what was parked'
);

select finish();
rollback;
