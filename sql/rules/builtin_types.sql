-- The action types that pgwhen brings. log_message is the listener's; the others are SQL functions
-- of sql/actions/.

create or replace function _pgwhen.builtin_schemas()
returns jsonb
language sql
immutable
as $doc$
select $${
    "add_to_audience": {
        "title": "add_to_audience: the user becomes a member of an audience of this account",
        "type": "object", "additionalProperties": false, "required": ["audience"],
        "properties": {
            "audience": {
                "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                "description": "The audience's name, for example \"gold members\"."
            }
        }
    },
    "remove_from_audience": {
        "title": "remove_from_audience: the user leaves an audience of this account",
        "type": "object", "additionalProperties": false, "required": ["audience"],
        "properties": {
            "audience": {
                "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                "description": "The audience's name, for example \"gold members\"."
            }
        }
    },
    "set_attribute": {
        "title": "set_attribute: one of the user's attributes is set, or cleared by null",
        "type": "object", "additionalProperties": false, "required": ["attribute", "value"],
        "properties": {
            "attribute": {
                "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                "description": "The attribute's name, for example \"tier\"."
            },
            "value": {"description": "Any JSON value; null clears the attribute."}
        }
    },
    "emit_event": {
        "title": "emit_event: an event for the same user",
        "type": "object", "additionalProperties": false, "required": ["type"],
        "properties": {
            "type": {
                "type": "string", "minLength": 1, "maxLength": 200,
                "pattern": "^(?!(attribute_changed|schedule)$|pgwhen\\.).*\\S",
                "description": "The event's name, for example \"became_gold\"; not attribute_changed (use set_attribute), not schedule, nothing with pgwhen. before it."
            },
            "key": {
                "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                "description": "A key by which rules can ask for the event, or leave it out."
            },
            "data": {"type": "object", "description": "An object, for example {\"points\": 5}."}
        }
    },
    "log_message": {
        "title": "log_message: the listener writes a line to its log",
        "type": "object", "additionalProperties": false, "required": ["text"],
        "properties": {
            "text": {
                "type": "string", "minLength": 1,
                "description": "The line as it stands, for example \"Thank you\"."
            }
        }
    }
}$$::pg_catalog.jsonb;
$doc$;

do $$
begin
    insert into _pgwhen.action_type as t (
        name, kind, fn_schema, fn_name, batch, builtin, config_schema, registered_at
    )
    select
        b.key,
        case b.key when 'log_message' then 'python' else 'sql' end,
        case b.key when 'log_message' then null else '_pgwhen' end,
        nullif(b.key, 'log_message'),
        b.key != 'log_message',
        true,
        b.value,
        _pgwhen.clock()
    from jsonb_each(_pgwhen.builtin_schemas()) as b
    on conflict on constraint action_type_pkey do update
    set
        kind = excluded.kind,
        fn_schema = excluded.fn_schema,
        fn_name = excluded.fn_name,
        batch = excluded.batch,
        builtin = excluded.builtin,
        config_schema = excluded.config_schema,
        registered_at = excluded.registered_at
    where
        (t.kind, t.fn_schema, t.fn_name, t.batch, t.builtin, t.config_schema)
        is distinct from (
            excluded.kind, excluded.fn_schema, excluded.fn_name, excluded.batch, excluded.builtin,
            excluded.config_schema
        );
end;
$$;
