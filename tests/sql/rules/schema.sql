-- _pgwhen.schema_faults: JSON Schema's meaning of every keyword that pgwhen reads.
begin;
select plan(72);

create function pg_temp.faults(schema jsonb, value jsonb) returns text[] language sql as $$
select array(
    select f.path || ' ' || f.message
    from unnest(_pgwhen.schema_faults(schema, value, 'v', 'PW003')) as f
);
$$;

select
    is(
        pg_temp.faults(k.schema, k.good), '{}', k.schema::text || ' takes ' || k.good::text
    )
from (
    values
    ('{}'::jsonb, '{"a": [1]}'::jsonb),
    ('{"type": "string"}', '""'),
    ('{"type": "integer"}', '1.0'),
    ('{"type": "number"}', '1.5'),
    ('{"type": ["null", "boolean"]}', 'null'),
    ('{"const": {"a": 1}}', '{"a": 1.0}'),
    ('{"enum": [{}, 2]}', '2'),
    ('{"minLength": 2, "maxLength": 2}', '"กข"'),
    ('{"pattern": "^a"}', '"ab"'),
    ('{"pattern": "^a"}', '7'),
    ('{"minimum": 1, "maximum": 1}', '1'),
    ('{"minimum": 1}', '"0"'),
    ('{"items": {"type": "string"}, "minItems": 1, "maxItems": 2}', '["a"]'),
    ('{"properties": {"a": {"type": "string"}}}', '{"b": 1}'),
    ('{"additionalProperties": {"type": "number"}, "properties": {"a": {}}}', '{"a": "x", "b": 1}'),
    ('{"required": ["a"]}', '{"a": null}'),
    ('{"required": ["a"]}', '[]'),
    ('{"minProperties": 1, "maxProperties": 1}', '{"a": 1}'),
    -- a secret is a text that nobody here knows
    ('{"type": "string", "pattern": "^x", "maxLength": 1}', '{"$secret": "name"}'),
    ('{"properties": {"a": {"type": "string", "enum": ["x"]}}}', '{"a": {"$secret": "name"}}'),
    ('{"items": {"type": ["number", "string"]}}', '[{"$secret": "name"}]'),
    (
        '{"type": ["object", "string"], "additionalProperties": false, "required": ["a"]}',
        '{"$secret": "name"}'
    )
) as k (schema, good);

select is(pg_temp.faults(k.schema, k.bad), k.faults, k.schema::text || ' refuses ' || k.bad::text)
from (
    values
    ('{"type": "string"}'::jsonb, '7'::jsonb, array['v must be a string, got 7']),
    ('{"type": "integer"}', '1.5', array['v must be an integer, got 1.5']),
    (
        '{"type": ["string", "object", "null"]}',
        '[]',
        array['v must be a string, an object or null, got []']
    ),
    ('{"const": 1}', '2', array['v must be 1, got 2']),
    ('{"enum": ["a", 1]}', '"b"', array['v must be one of "a", 1, got "b"']),
    ('{"enum": [{"a": 1}]}', '{}', array['v must be one of {"a": 1}, got {}']),
    ('{"minLength": 1}', '""', array['v must not be empty']),
    ('{"minLength": 2}', '"a"', array['v must have at least 2 characters, has 1']),
    ('{"maxLength": 1}', '"ab"', array['v must have at most 1 character, has 2']),
    ('{"pattern": "^a"}', '"b"', array['v must match ^a, got "b"']),
    ('{"pattern": "\\S"}', '" "', array['v must not be blank']),
    ('{"minimum": 1}', '0', array['v must be at least 1, got 0']),
    ('{"maximum": 1}', '1.1', array['v must be at most 1, got 1.1']),
    ('{"minItems": 1}', '[]', array['v must have at least 1 element, has 0']),
    ('{"maxItems": 1}', '[1, 2]', array['v must have at most 1 element, has 2']),
    (
        '{"items": {"type": "string"}}', '["a", 1, null]',
        array['v[1] must be a string, got 1', 'v[2] must be a string, got null']
    ),
    (
        '{"properties": {"a": {"properties": {"b": {"type": "null"}}}}}', '{"a": {"b": 1}}',
        array['v.a.b must be null, got 1']
    ),
    (
        '{"additionalProperties": false, "properties": {"a": {}}}', '{"a": 1, "b": 1}',
        array['v.b is not a key that is known here']
    ),
    (
        '{"additionalProperties": {"type": "number"}}',
        '{"b": "x"}',
        array['v.b must be a number, got "x"']
    ),
    ('{"required": ["b", "a"]}', '{}', array['v.b is required', 'v.a is required']),
    ('{"minProperties": 1}', '{}', array['v must have at least 1 key, has 0']),
    ('{"maxProperties": 1}', '{"a": 1, "b": 1}', array['v must have at most 1 key, has 2']),
    (
        '{"type": "integer"}', '{"$secret": "name"}',
        array['v must be an integer, got {"$secret": "name"}']
    ),
    ('{"type": "string"}', '{"$secret": 5}', array['v must be a string, got {"$secret": 5}']),
    (
        '{"additionalProperties": false}', '{"$secret": "name"}',
        array['v.$secret is not a key that is known here']
    )
) as k (schema, bad, faults);

select is(
    array(
        select f.message
        from unnest(_pgwhen.schema_faults(
            '{"properties": {"name": {"type": "string"}}}', '{"name": {"$secret": "x"}}', '',
            code.code
        )) as f
    ),
    array['must be a string, got {"$secret": "x"}'],
    'knows no secrets outside of configs: ' || code.code
)
from (values ('PW001'), ('PW006')) as code (code);

select is(f.hint, 'Write a colour.', 'takes the hint from the description')
from unnest(
    _pgwhen.schema_faults('{"type": "string", "description": "Write a colour."}', '1', 'v', 'PW003')
) as f;
select is(f.hint, 'Known keys: a, b.', 'names the keys that are known')
from unnest(
    _pgwhen.schema_faults(
        '{"additionalProperties": false, "properties": {"b": {}, "a": {}}}',
        '{"c": 1}',
        'v',
        'PW003'
    )
) as f;
select
    cmp_ok(
        length(f.message), '<', 200, 'quotes long values in short'
    )
from
    unnest(_pgwhen.schema_faults('{"type": "null"}', to_jsonb(repeat('x', 100000)), 'v', 'PW003'))
        as f;

select
    is(
        cardinality(_pgwhen.schema_faults('{"items": {"type": "null"}}', v.value, 'v', 'PW003')),
        100, 'tells a hundred faults of ' || jsonb_array_length(v.value) || ' elements'
    )
from (
    select to_jsonb(array(select generate_series(1, 100000))) as value
) as v;
select
    is(
        cardinality(
            _pgwhen.schema_faults('{"additionalProperties": false}', v.value, 'v', 'PW003')
        ),
        100, 'tells a hundred faults of many keys'
    )
from (
    select jsonb_object_agg(n, n) as value from generate_series(1, 100000) as n
) as v;

-- What is no schema here ------------------------------------------------------------------

select
    is(
        array(
            select f.code || ' ' || f.path
            from unnest(_pgwhen.definition_faults(d.schema, 's')) as f
        ),
        d.faults, 'knows no schema ' || left(d.schema::text, 60)
    )
from (
    values
    ('[]'::jsonb, array['PW012 s']),
    ('true', array['PW012 s']),
    ('{"oneOf": []}', array['PW012 s.oneOf']),
    ('{"properties": {"a": {"format": "date"}}}', array['PW012 s.properties.a.format']),
    ('{"items": [{}]}', array['PW012 s.items']),
    (
        '{"items": {"additionalProperties": {"$ref": "#"}}}',
        array['PW012 s.items.additionalProperties.$ref']
    ),
    ('{"type": "text"}', array['PW012 s.type']),
    ('{"type": ["string", 7]}', array['PW012 s.type']),
    ('{"type": []}', array['PW012 s.type']),
    ('{"minLength": -1}', array['PW012 s.minLength']),
    ('{"maxItems": "3"}', array['PW012 s.maxItems']),
    ('{"enum": []}', array['PW012 s.enum']),
    ('{"pattern": "("}', array['PW012 s.pattern']),
    ('{"required": "a"}', array['PW012 s.required']),
    ('{"properties": {"a": true}}', array['PW012 s.properties.a']),
    (
        (repeat('{"items": ', 25) || '{}' || repeat('}', 25))::jsonb,
        array['PW012 s' || repeat('.items', 20)]
    )
) as d (schema, faults);

select
    is(_pgwhen.definition_faults(_pgwhen.schema_of_schemas(), 's'), '{}', 'knows its own schema');
select is(_pgwhen.definition_faults(b.value, b.key), '{}', 'knows the schema of ' || b.key)
from jsonb_each(_pgwhen.builtin_schemas()) as b where b.key = 'emit_event';

select finish();
rollback;
