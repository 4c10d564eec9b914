-- _pgwhen.run_builtin_actions: built-in actions that were claimed.
begin;
\ir ../helpers.psql
select plan(6);

select t.it_is('2030-01-07 12:00+00');
select t.a_user('U' || n, '{"n": 0}') from generate_series(1, 2) as n;
delete from _pgwhen.outbox;

create function t.run(action_type text) returns void language sql as $$
select _pgwhen.run_builtin_actions(
    'w-1', action_type, array(select c from pgwhen.claim_actions('w-1',
        action_types => array[action_type]) as c)
);
$$;

select t.an_action(
    action_type => 'set_attribute',
    action_config => jsonb_build_object('attribute', 'n', 'value', n),
    user_id => 'U1'
) from generate_series(1, 3) as n;
select t.an_action(
    action_type => 'set_attribute',
    action_config => '{"attribute": "m", "value": 1}',
    user_id => 'nobody'
);
select t.force('update pgwhen.scheduled_action set chain = array[id]');
select t.run('set_attribute');
select results_eq(
    'select a.status, a.error_message from pgwhen.scheduled_action as a order by a.id',
    $$
    values
        ('done', null::text), ('done', null), ('done', null),
        ('failed', 'there is no such user in pgwhen.line_user')
    $$,
    'settles each in its own way'
);
select is(
    (select u.attributes from pgwhen.line_user as u where u.user_id = 'U1'),
    '{"n": 3}',
    'does them in their order'
);
select results_eq(
    'select o.new, o.chain from _pgwhen.outbox as o order by o.id',
    'select to_jsonb(row_number() over (order by a.id)), a.chain
    from pgwhen.scheduled_action as a order by a.id limit 3',
    'one at a time, so that each event has one cause'
);

truncate pgwhen.scheduled_action;
select
    t.an_action(
        action_type => 'add_to_audience', action_config => '{"audience": "a"}', user_id => 'U' || n
    )
from generate_series(1, 2) as n;
select t.run('add_to_audience');
select results_eq(
    $$ select l.user_id, a.name from pgwhen.trigger_log as l
        inner join pgwhen.audience as a on l.audience_id = a.id order by 1 $$,
    $$ values ('U1', 'a'), ('U2', 'a') $$, 'logs the audience'
);
select t.an_action(action_type => 'add_to_audience', action_config => '{"audience": "b"}');
create table t.claim as select _pgwhen.claim_sql_actions('w-1', 100) as actions;
select _pgwhen.run_builtin_actions('w-1', 'remove_from_audience', c.actions) from t.claim as c;
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.status = 'processing'), 1::bigint,
    'does nothing under another type''s name'
);
select
    lives_ok(
        $$ select _pgwhen.run_builtin_actions('w-1', 'set_attribute', '{}') $$,
        'does nothing for nobody'
    );

select finish();
rollback;
