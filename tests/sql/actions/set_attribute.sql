-- set_attribute: one of the user's attributes is set, or cleared by null.
begin;
\ir ../helpers.psql
select plan(14);

select t.a_user('U1', '{"tier": "gold", "points": 5}');
select t.a_user('U1', '{"tier": "iron"}', line_oa_id => 'shop');
delete from _pgwhen.outbox;

create function t.set_attribute(user_ids text[], config jsonb[]) returns jsonb[] language sql as $$
select _pgwhen.set_attribute(array_fill('default'::text, array[cardinality($1)]), $1, $2);
$$;
create function t.tier() returns jsonb language sql as $$
select attributes from pgwhen.line_user where user_id = 'U1' and line_oa_id = 'default';
$$;

select is(
    t.set_attribute('{U1}', array['{"attribute": "tier", "value": {"level": [1]}}'::jsonb]),
    array['{}'::jsonb], 'answers'
);
select is(t.tier(), '{"tier": {"level": [1]}, "points": 5}', 'sets any JSON');
select is(
    (select attributes from pgwhen.line_user where line_oa_id = 'shop'), '{"tier": "iron"}',
    'in this account alone'
);
select results_eq(
    'select o.key, o.old, o.new from _pgwhen.outbox as o',
    $$ values ('tier', '"gold"'::jsonb, '{"level": [1]}'::jsonb) $$, 'which is an event'
);

update pgwhen.line_user set updated_date = '2020-01-01 00:00+00';
delete from _pgwhen.outbox;
select t.set_attribute('{U1}', array['{"attribute": "tier", "value": {"level": [1]}}'::jsonb]);
select is_empty('table _pgwhen.outbox', 'is no event where nothing changes');
select set_eq(
    'select u.updated_date from pgwhen.line_user as u',
    $$ values ('2020-01-01 00:00+00'::timestamptz) $$, 'and does not write the row'
);
select t.set_attribute('{U1}', array['{"attribute": "tier", "value": null}'::jsonb]);
select results_eq(
    'select o.key, o.old, o.new from _pgwhen.outbox as o',
    $$ values ('tier', '{"level": [1]}'::jsonb, null::jsonb) $$, 'clears by null'
);

delete from _pgwhen.outbox;
select t.set_attribute(
    '{U1,U1,U1}',
    array[
        '{"attribute": "a", "value": 1}',
        '{"attribute": "b", "value": 2}',
        '{"attribute": "a", "value": 3}'
    ]::jsonb[]
);
select is(t.tier() - 'tier', '{"points": 5, "a": 3, "b": 2}', 'merges a batch, the later one wins');
select results_eq(
    'select o.key, o.new from _pgwhen.outbox as o order by o.key',
    $$ values ('a', '3'::jsonb), ('b', '2') $$, 'as one change of each attribute'
);

select is(
    t.set_attribute(
        '{nobody,U1}',
        array['{"attribute": "a", "value": 1}', '{"attribute": "a", "value": 4}']::jsonb[]
    ),
    array['{"error": "there is no such user in pgwhen.line_user"}', '{}']::jsonb[],
    'says of each whether there is such a user'
);

-- Through the engine: a user that does not exist is a definite failure, which gives the slot back.
select t.a_rule(
    'vip', action_type => 'set_attribute', action_config => '{"attribute": "vip", "value": true}',
    frequency => 'once'
) as rule \gset
delete from _pgwhen.outbox;
select pgwhen.emit('ordered', 'nobody');
select pgwhen.emit('ordered', 'U1');
select t.process();
select bag_eq(
    'select l.user_id, l.status, l.error_message from pgwhen.trigger_log as l',
    $$
    values
        ('nobody', 'failed', 'there is no such user in pgwhen.line_user'),
        ('U1', 'success', null)
    $$,
    'fails for a user that does not exist, and only for that one'
);
select results_eq(
    'select r.user_id from _pgwhen.reservation as r', array['U1'], 'which costs no frequency'
);
select is(t.tier() -> 'vip', 'true', 'and the others have what was to be set');
select is(
    (select e.chain from pgwhen.event as e where e.key = 'vip'), array[:rule]::bigint[],
    'an event that it causes carries the rule'
);

select finish();
rollback;
