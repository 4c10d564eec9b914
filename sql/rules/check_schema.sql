-- Is this a schema that schema_faults() understands whole? Asked when a schema is registered.

create or replace function _pgwhen.schema_of_schemas()
returns jsonb
language sql
immutable
as $doc$
select $${
    "title": "A config_schema: the part of JSON Schema that pgwhen reads",
    "type": "object",
    "description": "pgwhen reads a part of JSON Schema: see docs/schema/README.md.",
    "additionalProperties": false,
    "properties": {
        "$schema": {"type": "string"},
        "$id": {"type": "string"},
        "$comment": {"type": "string"},
        "title": {"type": "string"},
        "description": {"type": "string"},
        "default": {},
        "examples": {"type": "array"},
        "type": {
            "type": ["string", "array"], "minItems": 1,
            "description": "One or more of string, number, integer, boolean, object, array, null."
        },
        "enum": {"type": "array", "minItems": 1},
        "const": {},
        "minLength": {"type": "integer", "minimum": 0, "maximum": 1000000000},
        "maxLength": {"type": "integer", "minimum": 0, "maximum": 1000000000},
        "pattern": {
            "type": "string",
            "description": "A regular expression that PostgreSQL understands."
        },
        "minimum": {"type": "number"},
        "maximum": {"type": "number"},
        "minItems": {"type": "integer", "minimum": 0, "maximum": 1000000000},
        "maxItems": {"type": "integer", "minimum": 0, "maximum": 1000000000},
        "items": {"type": "object", "description": "One schema, for every element."},
        "minProperties": {"type": "integer", "minimum": 0, "maximum": 1000000000},
        "maxProperties": {"type": "integer", "minimum": 0, "maximum": 1000000000},
        "required": {"type": "array", "items": {"type": "string"}},
        "properties": {"type": "object", "additionalProperties": {"type": "object"}},
        "additionalProperties": {"type": ["boolean", "object"]}
    }
}$$::pg_catalog.jsonb;
$doc$;

create or replace function _pgwhen.definition_faults(
    schema jsonb,
    at_path text,
    depth integer default 1
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults _pgwhen.fault[] := _pgwhen.schema_faults(
        _pgwhen.schema_of_schemas(), definition_faults.schema, definition_faults.at_path, 'PW012'
    );
    v_part record;
begin
    if cardinality(v_faults) > 0 then
        return v_faults;
    elsif definition_faults.depth > 20 then
        return _pgwhen.one_fault(
            definition_faults.at_path, 'is nested deeper than 20 schemas',
            'Check the depths with the handler.', 'PW012'
        );
    end if;

    v_faults := _pgwhen.type_name_faults(definition_faults.schema, definition_faults.at_path)
        || _pgwhen.pattern_faults(definition_faults.schema, definition_faults.at_path);
    for v_part in
        select definition_faults.at_path || '.properties.' || p.key as path, p.value as schema
        from jsonb_each(definition_faults.schema -> 'properties') as p
        union all
        select definition_faults.at_path || '.' || k.key, definition_faults.schema -> k.key
        from (values ('items'), ('additionalProperties')) as k (key)
        where jsonb_typeof(definition_faults.schema -> k.key) = 'object'
    loop
        v_faults := v_faults || _pgwhen.definition_faults(
            v_part.schema, v_part.path, definition_faults.depth + 1
        );
    end loop;
    return v_faults;
end;
$$;

create or replace function _pgwhen.type_name_faults(schema jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select case
    when
        _pgwhen.texts(type_name_faults.schema -> 'type')
        <@ array['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'] is false
        then _pgwhen.one_fault(
            type_name_faults.at_path || '.type',
            format('knows no type %s', _pgwhen.excerpt(type_name_faults.schema -> 'type')),
            _pgwhen.schema_of_schemas() #>> '{properties,type,description}', 'PW012'
        )
    else '{}'
end;
$$;

create or replace function _pgwhen.pattern_faults(schema jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
begin
    perform '' ~ (pattern_faults.schema ->> 'pattern');
    return '{}';
exception
    when invalid_regular_expression then
        return _pgwhen.one_fault(
            pattern_faults.at_path || '.pattern', sqlerrm,
            _pgwhen.schema_of_schemas() #>> '{properties,pattern,description}', 'PW012'
        );
end;
$$;
