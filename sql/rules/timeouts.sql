-- What may be said of timeouts: Temporal's four, in its words. They stand in the options of an
-- action type and in an action_config; how the two go together is told in engine/limits.sql.

create or replace function _pgwhen.timeouts_schema()
returns jsonb
language sql
immutable
as $doc$
select $${
    "title": "timeouts: how long an action may wait for a worker, and run",
    "type": "object",
    "description": "For example {\"startToClose\": 30}; see docs/timeouts.md.",
    "additionalProperties": false,
    "properties": {
        "scheduleToStart": {
            "type": ["number", "string", "null"], "minimum": 0.001, "maximum": 315360000,
            "description": "\"1 hour\" or a number of seconds, from 0.001 to ten years; null: none."
        },
        "startToClose": {
            "type": ["number", "string", "null"], "minimum": 0.001, "maximum": 315360000,
            "description": "\"30 s\" or a number of seconds, from 0.001 to ten years; null: none."
        },
        "scheduleToClose": {
            "type": ["number", "string", "null"], "minimum": 0.001, "maximum": 315360000,
            "description": "\"1 day\" or a number of seconds, from 0.001 to ten years; null: none."
        },
        "heartbeat": {
            "type": ["number", "string", "null"], "minimum": 0.001, "maximum": 315360000,
            "description": "\"10 s\" or a number of seconds, from 0.001 to ten years; null: none."
        }
    }
}$$::pg_catalog.jsonb;
$doc$;

-- Of what is said beside `of_type`, which an action type says.
create or replace function _pgwhen.timeouts_faults(
    timeouts jsonb,
    of_type jsonb,
    at_path text,
    code text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults constant _pgwhen.fault[] := _pgwhen.span_faults(
        timeouts, array['scheduleToStart', 'startToClose', 'scheduleToClose', 'heartbeat'],
        _pgwhen.timeouts_schema(), at_path, code
    );
begin
    if cardinality(v_faults) = 0 and _pgwhen.is_endless(
        _pgwhen.limits(timeouts_faults.of_type, timeouts_faults.timeouts)
    ) then
        return _pgwhen.one_fault(
            timeouts_faults.at_path, 'leave an attempt without an end',
            'Give startToClose or scheduleToClose a time; without both keys startToClose is the '
            'setting staleProcessingMinute, 5 minutes.', timeouts_faults.code
        );
    end if;
    return v_faults;
end;
$$;

-- Whether startToClose was taken away, and nothing else ends an attempt.
create or replace function _pgwhen.is_endless(limits jsonb)
returns boolean
language sql
immutable
as $$
select coalesce(
    is_endless.limits -> 'startToClose' = 'null'
    and coalesce(is_endless.limits -> 'scheduleToClose', 'null') = 'null',
    false
);
$$;

create or replace function _pgwhen.timeouts_of_type(action_type text)
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select t.options -> 'timeouts'
        from _pgwhen.action_type as t
        where t.name = timeouts_of_type.action_type
    );
end;
$$;

-- Timeouts as the engine keeps them: in seconds; null for none said.
create or replace function _pgwhen.compiled_timeouts(timeouts jsonb)
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select jsonb_object_agg(t.key, _pgwhen.span_seconds(t.value))
        from jsonb_each(compiled_timeouts.timeouts) as t
    );
end;
$$;

-- A worker that dies is noticed when its heartbeats stop, so long before the attempt would end.
create or replace function _pgwhen.warn_of_slow_heartbeat(limits jsonb, whose text)
returns void
language plpgsql
stable
as $$
declare
    v_heartbeat constant float8 := (limits ->> 'heartbeat')::float8;
    v_close constant float8 := extract(
        epoch from _pgwhen.attempt_time(limits, _pgwhen.default_attempt_time())
    );
begin
    if v_heartbeat > v_close / 2 then
        raise warning
            '%: a heartbeat every % s finds a dead worker hardly before startToClose, % s',
            whose, v_heartbeat, v_close
            using hint = 'Give heartbeat a tenth of startToClose or less.';
    end if;
end;
$$;
