-- _pgwhen.compile_condition: from MongoDB's syntax to one path and its variables.
begin;
\ir ../helpers.psql
select plan(16);

create view t.compiled as
select
    c.condition,
    p.path::text as path,
    p.vars,
    p.needs
from (
    values
    ('{"user.tier": "gold", "user.points": {"$gte": 100}}'::jsonb),
    ('{"user.tier": {"$in": ["gold", null, 1]}}'),
    ('{"$or": [{"$audience": "vip"}, {"user.at": {"$lt": {"$now": "-1 month"}}}]}'),
    ('{"user.it''s \" \\ $v0 ไทย 🎉": {"$regex": "\"\\$", "$options": "i"}}')
) as c (condition)
cross join lateral _pgwhen.compile_condition(c.condition) as p;

select is(c.path::text, null, format('compile_condition has no path for %s', v.condition))
from (values (null::jsonb), ('null'), ('{}')) as v (condition)
cross join lateral _pgwhen.compile_condition(v.condition) as c;

select is(
    (select c.vars from t.compiled as c where c.condition ? 'user.points'),
    '{"v0": "gold", "v1": 100}',
    'compile_condition binds values as variables'
);
select is(
    (select c.vars from t.compiled as c where c.condition @> '{"user.tier": {"$in": [1]}}'),
    '{"v0": ["gold", null, 1]}',
    'compile_condition binds a list as one variable'
);
select is(
    (select c.needs from t.compiled as c where c.condition ? 'user.points'),
    null,
    'compile_condition needs nothing where the document says all'
);
select is(
    (select c.needs from t.compiled as c where c.condition ? '$or'),
    '{
        "audiences": ["vip"],
        "times": [{"path": "$.\"user\".\"at\"[*]", "operator": "$lt", "offset": "P-1M"}]
    }',
    'compile_condition needs the audiences and the times that a condition asks for'
);
select is_empty(
    $$ select c.path from t.compiled as c where c.path ~ 'gold|100|vip|month' $$,
    'compile_condition writes no value into the path'
);
select is(
    jsonb_path_match(
        '{"user": {"it''s \" \\ $v0 ไทย 🎉": "ends with \"$"}}', c.path::jsonpath, c.vars
    ),
    true,
    'compile_condition quotes names and expressions'
)
from t.compiled as c
where c.condition::text like '%🎉%';

select throws_ok(
    $$ select _pgwhen.compile_condition('{"user.a": {"$in": [[1]]}, "tier": 1}') $$,
    'PW105',
    'condition.tier: field "tier" begins with neither user. nor event.',
    'compile_condition raises the first fault'
);
select is(
    t.hint_of($$ select _pgwhen.compile_condition('{"tier": 1}') $$),
    'Write "user.tier" for an attribute, "event.data.tier" for what came with the event.',
    'compile_condition hints at what to write instead'
);

-- Text grows with the condition, not with the square of it or worse.
create function t.nested(levels integer) returns jsonb language sql as $$
select format(
    '%s{"user.a": {"$not": {"$ne": 1}}, "user.b": {"$gt": 1}}%s',
    repeat('{"$nor": [', nested.levels), repeat(']}', nested.levels)
)::jsonb;
$$;
select cmp_ok(
    (select length(c.path::text) from _pgwhen.compile_condition(t.nested(14)) as c), '<',
    3 * (select length(c.path::text) from _pgwhen.compile_condition(t.nested(1)) as c),
    'compile_condition writes each leaf once, however deep the negations'
);
create function t.a_list(length integer) returns jsonb language sql as $$
select jsonb_build_object('$or', jsonb_agg(jsonb_build_object('user.a', n)))
from generate_series(1, a_list.length) as n;
$$;
select lives_ok(
    $$ select _pgwhen.compile_condition(t.a_list(498)) $$,
    'compile_condition takes a condition of a thousand values'
);
select throws_ok(
    $$ select _pgwhen.compile_condition(t.a_list(500)) $$,
    'PW108',
    'condition: the condition is too large: 1002 JSON values of at most 1000',
    'compile_condition refuses one of more'
);
select throws_ok(
    $$ select _pgwhen.compile_condition(format('{"user.a": "%s"}', repeat('x', 10001))::jsonb) $$,
    'PW108',
    'condition: a text is too long: 10001 characters of at most 10000',
    'compile_condition refuses a long text'
);
select throws_ok(
    $$
    select _pgwhen.compile_condition(
        jsonb_build_object('user.a', jsonb_build_object('$in', jsonb_agg(repeat('x', 9999))))
    )
    from generate_series(1, 30)
    $$,
    'PW108',
    'condition: the condition is too large: 300111 bytes of at most 262144',
    'compile_condition refuses many long texts'
);

select finish();
rollback;
