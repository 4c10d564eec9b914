-- emit_event: an event for the same user.
begin;
\ir ../helpers.psql
select plan(6);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule(
    'first', action_type => 'emit_event',
    action_config => '{"type": "became gold", "key": "shop", "data": {"points": 5}}',
    line_oa_id => 'shop'
) as first \gset
select t.a_rule('second', 'became gold', '{"key": "shop"}', line_oa_id => 'shop') as second \gset
select
    pgwhen.emit('ordered', 'U1', line_oa_id => 'shop', at => '2029-12-24 18:00+00') as cause
\gset
select is(t.process(), 2, 'is processed as any other event');
select results_eq(
    $$ select e.line_oa_id, e.user_id, e.key, e.data from pgwhen.event as e
        where e.type = 'became gold' $$,
    $$ values ('shop', 'U1', 'shop', '{"points": 5}'::jsonb) $$,
    'emits for the same user in the same account'
);
select is(
    (select e.chain from pgwhen.event as e where e.type = 'became gold'), array[:first]::bigint[],
    'carries the rule that caused it'
);
select is(
    (select e.at from pgwhen.event as e where e.type = 'became gold'), '2029-12-24 18:00+00',
    'happens when its cause did'
);
select is(
    (select a.chain from pgwhen.scheduled_action as a where a.trigger_rule_id = :second),
    array[:first, :second]::bigint[], 'what it leads to knows the whole chain'
);
create table t.answer as
select r.n, r.result
from unnest(
    _pgwhen.emit_event(
        '{default,default}', '{U1,U2}', array['{"type": "a"}', '{"type": "b"}']::jsonb[]
    )
) with ordinality as r (result, n);
select results_eq(
    $$
    select o.user_id, o.type, o.data
    from t.answer as r
    inner join _pgwhen.outbox as o on (r.result ->> 'eventId')::bigint = o.id
    order by r.n
    $$,
    $$ values ('U1', 'a', '{}'::jsonb), ('U2', 'b', '{}') $$,
    'answers for a batch in its order'
);

select finish();
rollback;
