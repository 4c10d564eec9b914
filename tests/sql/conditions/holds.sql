-- _pgwhen.holds: two-valued of every document. What holds, case by case, stands in
-- tests/conditions.json.
begin;
\ir ../helpers.psql
select plan(16);

create function t.holds(
    condition jsonb,
    doc jsonb,
    as_of timestamptz default '2024-03-31 12:00Z',
    audiences text[] default '{}'
)
returns boolean
language sql
as $$
select _pgwhen.holds(c.path, c.vars, c.needs, holds.doc, holds.as_of, holds.audiences)
from _pgwhen.compile_condition(holds.condition) as c;
$$;

select ok(
    _pgwhen.holds(null, '{}', null, '[]', now(), '{}'),
    'holds where there is no condition'
);

-- Every kind of leaf against every kind of document: a clause and its negation never agree.
create table t.leaf as
select jsonb_build_object(f.field, l.predicate) as clause
from (values ('user.a'), ('user.a.b'), ('event.data.a.b.c')) as f (field)
cross join jsonb_array_elements(
    '[
        1, "x", true, null, {"$gt": 1}, {"$lte": "x"}, {"$gte": null}, {"$lt": false},
        {"$in": [1, null, "x"]}, {"$in": []}, {"$all": ["x", 1]}, {"$exists": true},
        {"$type": "array"}, {"$type": ["string", "null"]}, {"$regex": "^x"}, {"$size": 1},
        {"$mod": [2, 0]}, {"$gte": {"$now": "-1 day"}}, {"$elemMatch": {"$gt": 1}},
        {"$elemMatch": {"b": null, "c": {"$gt": {"$now": 0}}}},
        {"$elemMatch": {"$elemMatch": {"$regex": "x"}}}
    ]'
) as l (predicate);
create table t.document as
select d.doc
from (
    select jsonb_build_object('user', jsonb_build_object('a', v.value), 'event', v.value) as doc
    from jsonb_array_elements(
        '[
            1, 1e400, -1e-400, "x", "", true, null, [], {}, [[]], [[[1]]], {"b": 1},
            [{"b": [1, "x"]}], {"b": {"c": [null]}}, [1, "x", null, {"b": null}, [2]], "2024-03-31T12:00:00Z",
            {"data": {"a": {"b": {"c": "2024-03-31"}}}}, {"data": {"a": [{"b": []}, 1, [{"b": 1}]]}}
        ]'
    ) as v (value)
    union all
    select v.value
    from jsonb_array_elements(
        '[1, "x", null, true, [], {}, [1, {"user": 1}], {"user": null}, {"user": [{"a": 1}, 2]}]'
    ) as v (value)
) as d;

select is_empty(
    $$
    select l.clause, d.doc
    from t.leaf as l
    cross join lateral _pgwhen.compile_condition(l.clause) as c
    cross join lateral
        _pgwhen.compile_condition(jsonb_build_object('$nor', jsonb_build_array(l.clause))) as n
    cross join t.document as d
    where
        _pgwhen.holds(c.path, c.vars, c.needs, d.doc, '2024-03-31 12:00Z', '{}')
        is not distinct from _pgwhen.holds(n.path, n.vars, n.needs, d.doc, '2024-03-31 12:00Z', '{}')
    $$,
    'holds says the opposite of the negated clause, whatever the document'
);

-- An audience
select ok(t.holds('{"$audience": "a"}', '{}', audiences => '{b,a}'), 'holds of a member');
select ok(not t.holds('{"$audience": "a"}', '{}', audiences => '{b}'), 'holds not of another');
select ok(
    not t.holds('{"$audience": "a"}', '{}', audiences => null), 'holds not of a member of NULL'
);
select ok(
    not t.holds('{"$audience": "a"}', '{}', audiences => array[null]),
    'holds not of a member of what has no name'
);
select ok(
    t.holds('{"$nor": [{"$audience": "a"}]}', '{}', audiences => array[null]),
    'holds, negated, of a member of what has no name'
);

-- A moment, wherever the clock and the session stand
select is(
    t.holds(
        '{"user.a": {"$lt": {"$now": "-1000 years"}}}', '{"user": {"a": "9999-12-31"}}', s.as_of
    ),
    s.expected,
    format('holds without an error as of %s', s.as_of)
)
from (
    values
    ('infinity'::timestamptz, true), ('-infinity', false), ('294276-12-31 23:59Z', true),
    ('4713-01-01 00:00Z BC', false)
) as s (as_of, expected);

set local timezone = 'Asia/Bangkok';
set local datestyle = 'SQL, DMY';
set local intervalstyle = 'sql_standard';
select ok(
    t.holds(
        '{"user.a": {"$eq": {"$now": "-1 day 2 hours"}}}',
        '{"user": {"a": "2024-03-30T14:00:00"}}'
    ),
    'holds alike whatever the settings of the session'
);
select ok(
    t.holds('{"user.a": {"$eq": {"$now": "-12 hours"}}}', '{"user": {"a": "2024-03-31"}}'),
    'holds a date to begin in UTC, whatever the time zone of the session'
);

select is(
    _pgwhen.asked_audiences(c.needs), '{a,b}', 'asked_audiences names each audience once'
)
from _pgwhen.compile_condition(
    '{"$or": [{"$audience": "b"}, {"$nor": [{"$audience": "a"}]}], "$audience": "b"}'
) as c;
select is(
    _pgwhen.asked_audiences(null), '{}', 'asked_audiences names none where nothing is needed'
);
select is(
    _pgwhen.asked_audiences(c.needs), '{}', 'asked_audiences names none where only a time is'
)
from _pgwhen.compile_condition('{"user.a": {"$gt": {"$now": 0}}}') as c;

select finish();
rollback;
