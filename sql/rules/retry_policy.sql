-- What a retry policy may say: Temporal's, in its words. It stands in the options of an action type
-- and in an action_config; how the two go together is told in engine/retry.sql.

create or replace function _pgwhen.retry_policy_schema()
returns jsonb
language sql
immutable
as $doc$
select $${
    "title": "retryPolicy: how often, and when, a failed action is tried again",
    "type": "object",
    "description": "For example {\"initialInterval\": 10}; see docs/retries.md.",
    "additionalProperties": false,
    "properties": {
        "initialInterval": {
            "type": ["number", "string"], "minimum": 0.001, "maximum": 315360000,
            "description": "\"10 seconds\" or a number of seconds, from 0.001 to ten years."
        },
        "backoffCoefficient": {
            "type": "number", "minimum": 1, "maximum": 10000000000,
            "description": "How many times as long each interval is as the one before, 1 or more."
        },
        "maximumInterval": {
            "type": ["number", "string"], "minimum": 0.001, "maximum": 315360000,
            "description": "\"1 hour\" or a number of seconds, from initialInterval to ten years."
        },
        "maximumAttempts": {
            "type": "integer", "minimum": 0, "maximum": 1000000,
            "description": "How often it is tried, the first attempt included; 0 is without a limit."
        },
        "nonRetryableErrorTypes": {
            "type": "array", "maxItems": 100,
            "description": "For example [\"BankRejected\"].",
            "items": {
                "type": "string", "minLength": 1, "maxLength": 200,
                "description": "The type as error_message begins with it, such as \"BankRejected\"."
            }
        }
    }
}$$::pg_catalog.jsonb;
$doc$;

create or replace function _pgwhen.retry_policy_faults(policy jsonb, at_path text, code text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults constant _pgwhen.fault[] := _pgwhen.span_faults(
        policy, array['initialInterval', 'maximumInterval'], _pgwhen.retry_policy_schema(),
        at_path, code
    );
begin
    if cardinality(v_faults) = 0
        and _pgwhen.span_seconds(policy -> 'maximumInterval')
        < _pgwhen.span_seconds(policy -> 'initialInterval')
    then
        return _pgwhen.one_fault(
            _pgwhen.path_to(at_path, 'maximumInterval'),
            format(
                'is shorter than initialInterval, %s',
                _pgwhen.excerpt(policy -> 'initialInterval')
            ),
            _pgwhen.retry_policy_schema() #>> '{properties,maximumInterval,description}', code
        );
    end if;
    return v_faults;
end;
$$;

-- Of an object in which some keys are spans of time: first keys and types, and where these are
-- right, whether each span can be one. What is not there is right.
create or replace function _pgwhen.span_faults(
    config jsonb,
    spans text[],
    schema jsonb,
    at_path text,
    code text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults _pgwhen.fault[];
begin
    if config is null then
        return '{}';
    end if;
    v_faults := _pgwhen.schema_faults(schema, config, at_path, code);
    if cardinality(v_faults) > 0 then
        return v_faults;
    end if;
    return array(
        select
            row(
                _pgwhen.path_to(at_path, s.key),
                'is no interval from a millisecond to ten years, got '
                || _pgwhen.excerpt(config -> s.key),
                schema #>> array['properties', s.key, 'description'], code
            )::_pgwhen.fault
        from unnest(spans) as s (key)
        where config -> s.key <> 'null' and _pgwhen.span_seconds(config -> s.key) is null
    );
end;
$$;

-- A policy as the engine keeps it: the keys that are given, intervals in seconds; null for none.
create or replace function _pgwhen.compiled_retry_policy(policy jsonb)
returns jsonb
language sql
stable
as $$
select case when compiled_retry_policy.policy <> '{}' then
    compiled_retry_policy.policy || pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'initialInterval',
        _pgwhen.span_seconds(compiled_retry_policy.policy -> 'initialInterval'),
        'maximumInterval',
        _pgwhen.span_seconds(compiled_retry_policy.policy -> 'maximumInterval')
    ))
end;
$$;

-- Null where it is no interval, or none that a policy can have. The style is set because it changes
-- how signs are read.
create or replace function _pgwhen.span_seconds(value jsonb)
returns numeric
language plpgsql
stable
strict
set search_path = pg_catalog, pg_temp
set intervalstyle = 'postgres'
as $$
declare
    v_seconds numeric;
begin
    v_seconds := case jsonb_typeof(span_seconds.value)
        when 'number' then span_seconds.value::numeric
        when 'string' then extract(epoch from (span_seconds.value #>> '{}')::interval)
    end;
    return case
        when v_seconds between 0.001 and 315360000 then trim_scale(round(v_seconds, 6))
    end;
exception
    when data_exception then
        return null;
end;
$$;
