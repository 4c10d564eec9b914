-- _pgwhen.call_builtin: the one door to the built-in SQL actions.
begin;
\ir ../helpers.psql
select plan(7);

select t.a_user('U1');
create function t.call(action_type text, config jsonb, cause jsonb default null) returns jsonb[]
language sql as $$
select _pgwhen.call_builtin(action_type, '{default}', '{U1}', array[config], cause);
$$;

-- Every type that says it is built in, and is no listener's, can be called.
select is(
    (
        select array_agg(b.name order by b.name)
        from _pgwhen.action_type as b
        where b.builtin and b.kind = 'sql'
    ),
    array['add_to_audience', 'emit_event', 'remove_from_audience', 'set_attribute'],
    'serves these types'
);
select isnt(t.call(c.name, c.config), null, 'knows ' || c.name)
from (values
    ('add_to_audience', '{"audience": "a"}'::jsonb),
    ('remove_from_audience', '{"audience": "a"}'),
    ('set_attribute', '{"attribute": "a", "value": 1}'),
    ('emit_event', '{"type": "a"}')
) as c (name, config);

select t.call('emit_event', '{"type": "b"}', '{"users": {"7 defaultU1": {"chain": [7, 8]}}}');
select is(
    (select o.chain from _pgwhen.outbox as o where o.type = 'b'), '{7,8}',
    'tells the events who caused them'
);
select pgwhen.emit('c', 'U1');
select is(
    (select o.chain from _pgwhen.outbox as o where o.type = 'c'), '{}',
    'and nobody after that'
);

select finish();
rollback;
