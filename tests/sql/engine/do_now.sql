-- _pgwhen.do_now, _pgwhen.cause_of: built-in actions done at once.
begin;
\ir ../helpers.psql
select plan(4);

select t.it_is('2030-01-07 12:00+00');
select t.a_user('U1');
select t.process();
select t.a_rule(
    'r',
    action_type => 'set_attribute',
    action_config => '{"attribute": "n", "value": 1}',
    frequency => 'once'
) as rule \gset
select pgwhen.emit('ordered', 'U1', at => '2030-01-06 12:00+00');
select pgwhen.emit('ordered', 'nobody');
update _pgwhen.outbox set chain = '{7}' where user_id = 'U1';
create table t.firing as
select array_agg(j order by j.user_id) as firings
from (select array_agg(o) as events from _pgwhen.outbox as o) as e
cross join lateral _pgwhen.judge(e.events) as j;

select is(
    (
        select _pgwhen.cause_of(f.firings) -> 'users' -> _pgwhen.who('default', 'U1')
        from t.firing as f
    ),
    jsonb_build_object('chain', array[7, :rule], 'at', timestamptz '2030-01-06 12:00+00'),
    'cause_of says who caused what a user''s action does, and when'
);
select results_eq(
    $$
    select e.user_id, e.status, e.error_message, e.give_back
    from t.firing as f
    cross join lateral unnest(_pgwhen.do_now('set_attribute', f.firings)) as e
    $$,
    $$
    values
        ('U1', 'success', null::text, false),
        ('nobody', 'failed', 'there is no such user in pgwhen.line_user', true)
    $$,
    'do_now says how each has ended; what certainly failed gives its slot back'
);
select is(
    (select u.attributes from pgwhen.line_user as u), '{"n": 1}', 'and has done it'
);
select results_eq(
    $$ select o.chain, o.at from _pgwhen.outbox as o where o.type = 'attribute_changed' $$,
    format($$ values (array[7, %s]::bigint[], '2030-01-06 12:00+00'::timestamptz) $$, :rule),
    'its events happen when their cause did'
);

select finish();
rollback;
