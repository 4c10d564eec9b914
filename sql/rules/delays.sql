-- What action_config.delay may say. The delay is pgwhen's; the rest of the config is the action's.

create or replace function _pgwhen.delay_schema()
returns jsonb
language sql
immutable
as $doc$
select $${
    "title": "delay: when the action is executed, if not at once",
    "type": "object",
    "description": "Either {\"seconds\": 3600} or {\"at\": \"2026-11-30T09:00:00+07:00\"}.",
    "additionalProperties": false,
    "minProperties": 1,
    "maxProperties": 1,
    "properties": {
        "seconds": {
            "type": "number", "minimum": 0, "maximum": 315360000,
            "description": "Seconds from the moment the rule fires, at most 315360000 (ten years)."
        },
        "at": {
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9-]{5}[T ][0-9:.]+(Z|[+-][0-9:]{2,5})$",
            "description": "An instant with its offset, for example \"2026-11-30T09:00:00+07:00\"."
        }
    }
}$$::pg_catalog.jsonb;
$doc$;

-- Keys that have a meaning, which this version does not serve: refused rather than ignored.
create or replace function _pgwhen.later_delay_keys()
returns text[]
language sql
immutable
as $$
select array[
    'waitForTracking', 'tracking', 'expiresSeconds', 'delaySeconds', 'onExpire', 'onClick', 'until',
    'after', 'reEvaluateConditions', 'whenPending', 'onRuleDisabled'
];
$$;

create or replace function _pgwhen.delay_faults(delay jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults _pgwhen.fault[];
begin
    if jsonb_typeof(delay_faults.delay) = 'object'
        and delay_faults.delay ?| _pgwhen.later_delay_keys()
    then
        return _pgwhen.later_delay_faults(delay_faults.delay, delay_faults.at_path);
    end if;

    v_faults := _pgwhen.schema_faults(
        _pgwhen.delay_schema(), delay_faults.delay, delay_faults.at_path, 'PW004'
    );
    if cardinality(v_faults) = 0
        and delay_faults.delay ? 'at'
        and _pgwhen.to_instant(delay_faults.delay ->> 'at') is null
    then
        v_faults := _pgwhen.one_fault(
            delay_faults.at_path || '.at',
            format('is no date that exists, got %s', delay_faults.delay -> 'at'),
            _pgwhen.delay_schema() #>> '{properties,at,description}', 'PW004'
        );
    end if;
    return v_faults;
end;
$$;

create or replace function _pgwhen.later_delay_faults(delay jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            _pgwhen.path_to(later_delay_faults.at_path, k.key), 'is not served by this version',
            'Leave it out: this version serves "seconds" and "at".', 'PW005'
        )::_pgwhen.fault
    from unnest(_pgwhen.keys_of(later_delay_faults.delay)) as k (key)
    where k.key = any(_pgwhen.later_delay_keys())
);
$$;
