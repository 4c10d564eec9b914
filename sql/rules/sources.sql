-- What the source_config of each source type may say, and what it means: a key, by which the index
-- on _pgwhen.rule finds the rule, and a predicate over the event, written as a condition.
--
-- A name that is no built-in source type is an event that an application emits.

create or replace function _pgwhen.source_schema(source_type text)
returns jsonb
language sql
immutable
as $doc$
select case source_schema.source_type
    when 'attribute_changed' then _pgwhen.source_config_schema($${
        "title": "attribute_changed: one of pgwhen.line_user.attributes changed, or was cleared",
        "properties": {
        "attribute": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The attribute's name, for example \"tier\"; leave it out for any."
        },
        "from": {
            "type": ["string", "number", "boolean", "null", "array"], "minItems": 1,
            "items": {"type": ["string", "number", "boolean", "null"]},
            "description": "The old value, or an array of them; null is a value that was missing."
        },
        "to": {
            "type": ["string", "number", "boolean", "null", "array"], "minItems": 1,
            "items": {"type": ["string", "number", "boolean", "null"]},
            "description": "The new value, or an array of them; null is a value that was cleared."
        },
        "crosses": {
            "type": "object", "additionalProperties": false, "minProperties": 1, "maxProperties": 1,
            "properties": {
                "up": {
                    "type": "number",
                    "description": "The number that the value reaches from below, or from nothing."
                },
                "down": {
                    "type": "number",
                    "description": "The number that the value falls to from above."
                }
            },
            "description": "Either {\"up\": 500} or {\"down\": 500}, without \"from\" and \"to\"."
        }}}$$)
    when 'form_submitted' then _pgwhen.source_config_schema($${
        "title": "form_submitted: a row of pgwhen.form_submission",
        "properties": {
        "formId": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The form_id, for example \"quote\"; leave it out for any form."
        }}}$$)
    when 'campaign_click' then _pgwhen.source_config_schema($${
        "title": "campaign_click: a row of pgwhen.campaign_click that has all that is given",
        "properties": {
        "campaign": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The campaign's name, for example \"nov\"; leave it out for any."
        },
        "link": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The link's name, for example \"offer\"; leave it out for any."
        },
        "trackingId": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The tracking_id of one tracked link; leave it out for any."
        }}}$$)
    when 'friend_track_event_inserted' then _pgwhen.source_config_schema($${
        "title": "friend_track_event_inserted: a row of pgwhen.friend_track_event",
        "properties": {
        "event": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "What the friend did, for example \"follow\"; leave it out for anything."
        }}}$$)
    when 'booking_event' then _pgwhen.source_config_schema($${
        "title": "booking_event: a row of pgwhen.booking_event",
        "properties": {
        "status": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The booking's status, for example \"confirmed\"; leave it out for any."
        }}}$$)
    when 'schedule' then _pgwhen.source_config_schema(_pgwhen.schedule_schema())
    else _pgwhen.source_config_schema($${
        "title": "any other source_type: an event of that name, from pgwhen.emit()",
        "properties": {
        "key": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The key that emit() was given; leave it out for any."
        }}}$$)
end;
$doc$;

-- Built of immutable functions alone, so that the planner folds each schema into one constant.
create or replace function _pgwhen.source_config_schema(schema jsonb)
returns jsonb
language sql
immutable
as $doc$
select jsonb_set(
    source_config_schema.schema
    || $${
        "type": "object", "additionalProperties": false,
        "description": "An object, for example {}."
    }$$,
    '{properties}',
    source_config_schema.schema -> 'properties' || $${
        "condition": {
            "type": "object",
            "description": "MongoDB's query syntax, for example {\"user.points\": {\"$gte\": 100}}."
        },
        "log": {
            "enum": ["all"],
            "description": "\"all\" logs also events whose condition was false; or leave it out."
        }
    }$$
);
$doc$;

create or replace function _pgwhen.source_faults(source_type text, source_config jsonb)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_config constant jsonb := source_faults.source_config;
    v_faults _pgwhen.fault[] := case source_faults.source_type
        when 'schedule' then _pgwhen.schedule_faults(v_config, 'source_config')
        else _pgwhen.schema_faults(
            _pgwhen.source_schema(source_faults.source_type), v_config, 'source_config', 'PW002'
        )
    end;
begin
    if v_config ? 'crosses' and v_config ?| array['from', 'to'] then
        v_faults := v_faults || _pgwhen.one_fault(
            'source_config.crosses', 'cannot stand beside "from" or "to"',
            'Keep "crosses" alone: it says where the value came from and where it went.', 'PW002'
        );
    end if;
    if '*' in (
        v_config ->> 'attribute', v_config ->> 'formId', v_config ->> 'event',
        v_config ->> 'status', v_config ->> 'key'
    ) then
        v_faults := v_faults || _pgwhen.one_fault(
            'source_config', 'cannot ask for the key "*"',
            'Leave the key out: the rule then takes every event of its type.', 'PW002'
        );
    end if;
    if v_config ?| array[
        'attribute', 'from', 'to', 'crosses', 'formId', 'campaign', 'link', 'trackingId', 'event',
        'status'
    ] and source_faults.source_type <> all(_pgwhen.builtin_sources()) then
        v_faults := _pgwhen.one_fault(
            'source_type', 'is no built-in source type, so it has none of their keys',
            'The built-in ones are ' || array_to_string(_pgwhen.builtin_sources(), ', ') || '.',
            'PW002'
        ) || v_faults;
    end if;
    v_faults := v_faults
        || _pgwhen.faults_in_condition(v_config -> 'condition', 'source_config.condition');
    -- A right config makes a right predicate, but for its size; under 2 kB none is too large.
    if cardinality(v_faults) = 0 and pg_column_size(v_config) > 2000 then
        v_faults := _pgwhen.faults_in_condition(
            _pgwhen.source_predicate(source_faults.source_type, v_config), 'source_config'
        );
    end if;
    return v_faults;
end;
$$;

create or replace function _pgwhen.faults_in_condition(condition jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select f
    from _pgwhen.condition_faults(
        faults_in_condition.condition, faults_in_condition.at_path
    ) as f
    where jsonb_typeof(faults_in_condition.condition) = 'object'
    limit _pgwhen.most_faults()
);
$$;

create or replace function _pgwhen.builtin_sources()
returns text[]
language sql
immutable
as $$
select array[
    'attribute_changed', 'form_submitted', 'campaign_click', 'friend_track_event_inserted',
    'booking_event'
];
$$;

-- Every event carries the key '*' besides its own: a rule without a key takes all of its type.
create or replace function _pgwhen.source_key(source_type text, source_config jsonb)
returns text
language sql
immutable
as $$
select coalesce(
    case source_key.source_type
        when 'attribute_changed' then source_key.source_config ->> 'attribute'
        when 'form_submitted' then source_key.source_config ->> 'formId'
        when 'campaign_click' then coalesce(
            'tracking:' || (source_key.source_config ->> 'trackingId'),
            'link:' || (source_key.source_config ->> 'link'),
            'campaign:' || (source_key.source_config ->> 'campaign')
        )
        when 'friend_track_event_inserted' then source_key.source_config ->> 'event'
        when 'booking_event' then source_key.source_config ->> 'status'
        else source_key.source_config ->> 'key'
    end,
    '*'
);
$$;

-- What the key leaves to be asked of the event; {} where the key says it all.
create or replace function _pgwhen.source_predicate(source_type text, source_config jsonb)
returns jsonb
language sql
stable
as $$
select case source_predicate.source_type
    when 'attribute_changed' then
        _pgwhen.value_predicate('event.old', source_predicate.source_config -> 'from')
        || _pgwhen.value_predicate('event.new', source_predicate.source_config -> 'to')
        || _pgwhen.crossing_predicate(source_predicate.source_config -> 'crosses')
    when 'campaign_click' then case
        when source_predicate.source_config ? 'trackingId' then
            _pgwhen.value_predicate('event.data.link', source_predicate.source_config -> 'link')
            || _pgwhen.value_predicate(
                'event.data.campaign', source_predicate.source_config -> 'campaign'
            )
        when source_predicate.source_config ? 'link' then
            _pgwhen.value_predicate(
                'event.data.campaign', source_predicate.source_config -> 'campaign'
            )
        else '{}'
    end
    else '{}'
end;
$$;

create or replace function _pgwhen.value_predicate(field text, wanted jsonb)
returns jsonb
language sql
stable
as $$
select case
    when value_predicate.wanted is null then '{}'
    else jsonb_build_object(
        value_predicate.field,
        jsonb_build_object(
            case jsonb_typeof(value_predicate.wanted) when 'array' then '$in' else '$eq' end,
            value_predicate.wanted
        )
    )
end;
$$;

-- Reaching the number is crossing it, in either direction. A value that was missing, or was no
-- number, counts as below: a first value of 600 has crossed 500 upwards, and nothing downwards.
create or replace function _pgwhen.crossing_predicate(crosses jsonb)
returns jsonb
language sql
stable
as $$
select case
    when crossing_predicate.crosses ? 'up' then jsonb_build_object(
        '$nor', jsonb_build_array(
            jsonb_build_object(
                'event.old', jsonb_build_object('$gte', crossing_predicate.crosses -> 'up')
            )
        ),
        'event.new', jsonb_build_object('$gte', crossing_predicate.crosses -> 'up')
    )
    when crossing_predicate.crosses ? 'down' then jsonb_build_object(
        'event.old', jsonb_build_object('$gt', crossing_predicate.crosses -> 'down'),
        'event.new', jsonb_build_object('$lte', crossing_predicate.crosses -> 'down')
    )
    else '{}'
end;
$$;
