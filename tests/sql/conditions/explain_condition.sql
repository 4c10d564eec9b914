-- _pgwhen.explain_condition: clause by clause, by what judges the whole.
begin;
\ir ../helpers.psql
select plan(5);

create function t.explained(condition jsonb, doc jsonb, audiences text[] default '{}')
returns table (clause jsonb, field text, saw jsonb, holds boolean)
language sql
as $$
select e.clause::jsonb, e.field, e.saw, e.holds
from _pgwhen.explain_condition(
    explained.condition, explained.doc, '2024-03-31 12:00Z', explained.audiences
) as e;
$$;

select results_eq(
    $$
    select e.*
    from t.explained(
        '{
            "user.tier": "gold",
            "user.points": {"$gte": 100, "$lt": 200},
            "user.name": {"$regex": "^A", "$options": "i"},
            "user.last": {"$gte": {"$now": "-7 days"}},
            "user.gone": {"$not": {"$exists": true}}
        }',
        '{"user": {"tier": "silver", "points": 150, "name": "ann", "last": "2024-03-30"}}'
    ) as e
    $$,
    $$
    values
    ('{"user.gone": {"$not": {"$exists": true}}}'::jsonb, 'user.gone', null::jsonb, true),
    ('{"user.last": {"$gte": {"$now": "-7 days"}}}', 'user.last', '"2024-03-30"', true),
    ('{"user.name": {"$regex": "^A", "$options": "i"}}', 'user.name', '"ann"', true),
    ('{"user.tier": "gold"}', 'user.tier', '"silver"', false),
    ('{"user.points": {"$lt": 200}}', 'user.points', '150', true),
    ('{"user.points": {"$gte": 100}}', 'user.points', '150', true)
    $$,
    'explain_condition tells each operator of each field, and the value it saw'
);
select results_eq(
    $$
    select e.*
    from t.explained(
        '{"$nor": [{"$audience": "vip"}, {"$not": {"$or": [{"user.a": 1}, {"user.b": 2}]}}], "user.c": 3}',
        '{"user": {"a": 1, "b": null}}',
        '{vip}'
    ) as e
    $$,
    $$
    values
    ('{"$audience": "vip"}'::jsonb, '$audience', 'true'::jsonb, true),
    ('{"user.a": 1}', 'user.a', '1', true),
    ('{"user.b": 2}', 'user.b', 'null', false),
    ('{"user.c": 3}', 'user.c', null, false)
    $$,
    'explain_condition tells clauses under logic as they stand there, in order'
);
select results_eq(
    $$
    select e.saw
    from t.explained('{"user.o.b": 1}', '{"user": {"o": [{"b": 1}, {"b": [2]}, {}]}}') as e
    $$,
    $$ values ('[1, [2]]'::jsonb) $$,
    'explain_condition saw all that a path leads to'
);
select is_empty(
    $$
    select e.*
    from (values (null::jsonb), ('null'), ('{}')) as c (condition)
    cross join lateral t.explained(c.condition, '{}') as e
    $$,
    'explain_condition has nothing to tell of no condition'
);
select results_eq(
    $$ select e.holds, e.saw from t.explained('{"$audience": "vip"}', '{}', null) as e $$,
    $$ values (false, 'false'::jsonb) $$,
    'explain_condition takes NULL for no audience'
);

select finish();
rollback;
