-- _pgwhen.condition_faults: all that is wrong, with its place. What is refused, case by case,
-- stands in tests/conditions.json.
begin;
\ir ../helpers.psql
select plan(7);

select is_empty(
    $$ select f.* from _pgwhen.condition_faults('{"user.tier": "gold"}') as f $$,
    'condition_faults finds nothing wrong with a good condition'
);
select is_empty(
    $$
    select f.*
    from (values (null::jsonb), ('null'), ('{}')) as c (condition)
    cross join lateral _pgwhen.condition_faults(c.condition) as f
    $$,
    'condition_faults finds nothing wrong with no condition'
);
select results_eq(
    $$
    select f.path, f.code
    from _pgwhen.condition_faults(
        '{
            "tier": {"$foo": 1},
            "$and": [{"user.a": []}, 5, {"user.b": {"$in": [{}, "x", []], "$size": -1}}],
            "user.a-b": {"$not": {"$regex": "("}}
        }',
        'source_config.condition'
    ) as f
    $$,
    $$
    values
    ('source_config.condition.$and[0]["user.a"]', 'PW104'),
    ('source_config.condition.$and[1]', 'PW101'),
    ('source_config.condition.$and[2]["user.b"].$in[0]', 'PW104'),
    ('source_config.condition.$and[2]["user.b"].$in[2]', 'PW104'),
    ('source_config.condition.$and[2]["user.b"].$size', 'PW103'),
    ('source_config.condition.tier', 'PW105'),
    ('source_config.condition.tier.$foo', 'PW102'),
    ('source_config.condition["user.a-b"].$not.$regex', 'PW107')
    $$,
    'condition_faults tells every fault, below the place it is given'
);
select is_empty(
    $$
    select f.*
    from _pgwhen.condition_faults('{"a": {"$b": 1, "c": []}, "$d": 1, "user.1": {"$gt": {}}}') as f
    where coalesce(f.message, '') = '' or f.hint !~ '[.?]$'
    $$,
    'condition_faults says of each fault what to write instead'
);
select results_eq(
    $$
    select f.path, f.code
    from _pgwhen.condition_faults(
        (repeat('{"$and": [', 200) || '{"user.a": {"$foo": 1}}' || repeat(']}', 200))::jsonb
    ) as f
    $$,
    format('values (%L, %L)', 'condition' || repeat('.$and[0]', 16), 'PW108'),
    'condition_faults stops at 16 levels'
);
select results_eq(
    $$
    select f.path, f.code
    from _pgwhen.condition_faults(
        ('{"user.a": ' || repeat('{"$not": ', 200) || '{"$foo": 1}' || repeat('}', 201))::jsonb
    ) as f
    $$,
    format('values (%L, %L)', 'condition["user.a"]' || repeat('.$not', 16), 'PW108'),
    'condition_faults stops at 16 levels beside a field'
);
select results_eq(
    $$
    select f.path, f.code
    from _pgwhen.condition_faults(
        jsonb_build_object('user.' || repeat('x', 1000), 1, 'user.r', jsonb_build_object(
            '$regex', repeat('x', 1001)
        ))
    ) as f
    $$,
    format(
        'values (%L, %L), (%L, %L)',
        'condition["user.r"].$regex', 'PW108',
        format('condition["user.%s"]', repeat('x', 1000)), 'PW108'
    ),
    'condition_faults limits names and regular expressions'
);

select finish();
rollback;
