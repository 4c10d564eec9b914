-- _pgwhen.due_at: when an action is due, by the compiled form of its delay. Delays count from the
-- database clock at dispatch, never from event time. A time that has passed is now: an action is
-- not late before it exists. One expression, so that it is inlined where it is called.
create or replace function _pgwhen.due_at(
    delay jsonb,
    now timestamptz,
    until_value jsonb,
    time_zone text
)
returns timestamptz
language sql
stable
as $$
select case
    when due_at.delay is null then due_at.now
    when due_at.delay ? 'seconds'
        then due_at.now + pg_catalog.make_interval(secs => (due_at.delay -> 'seconds')::float8)
    when due_at.delay ? 'until' then _pgwhen.until_moment(
        due_at.delay -> 'until', due_at.until_value, due_at.time_zone, due_at.now
    )
    when due_at.delay ? 'at' then greatest(due_at.now, (due_at.delay ->> 'at')::timestamptz)
    when due_at.delay -> 'wait' ? 'after' then due_at.now
    else due_at.now
        + pg_catalog.make_interval(secs => (due_at.delay -> 'wait' -> 'expires')::float8)
end;
$$;

-- The moment that a value means, moved by the offset: months (to a month's last day at most) and
-- days by the calendar of the zone, seconds by the clock. A text without an offset is a time of
-- that zone. A local time that does not exist is as much later as the clock was put forward; of
-- one that there is twice, the first counts. Never past the year 9999, which is all that Python
-- can read; null where the value is no time.
create or replace function _pgwhen.until_moment(
    until jsonb,
    value jsonb,
    time_zone text,
    now timestamptz
)
returns timestamptz
language plpgsql
stable
as $$
declare
    v_moment timestamptz := _pgwhen.moment_in(until_moment.value);
    v_local constant boolean := _pgwhen.is_local_time(until_moment.value #>> '{}');
    v_months constant integer := until_moment.until -> 'months';
    v_days constant integer := until_moment.until -> 'days';
begin
    if v_moment is null then
        return null;
    end if;
    if v_local or v_months <> 0 or v_days <> 0 then
        v_moment := _pgwhen.first_instant(
            v_moment at time zone (case when v_local then 'UTC' else until_moment.time_zone end)
            + make_interval(months => v_months, days => v_days),
            until_moment.time_zone
        );
    end if;
    v_moment := v_moment + make_interval(secs => (until_moment.until -> 'seconds')::float8);
    return greatest(until_moment.now, least(v_moment, timestamptz '9999-12-31 00:00Z'));
end;
$$;

-- The moment that a value means as conditions read it: one without an offset as if of UTC. Null
-- where it is no time. Not inlined, because the judge's plan would be as large again.
create or replace function _pgwhen.moment_in(value jsonb)
returns timestamptz
language plpgsql
stable
as $$
begin
    return case jsonb_typeof(moment_in.value)
        when 'string' then _pgwhen.to_instant(moment_in.value #>> '{}')
    end;
end;
$$;

create or replace function _pgwhen.is_local_time(value text)
returns boolean
language sql
immutable
as $$
select length(is_local_time.value) = 10 or is_local_time.value !~ '([Zz]|[+-][0-9:]+)$';
$$;

-- Why a firing has no moment to wait for.
create or replace function _pgwhen.no_moment_reason(delay jsonb, value jsonb)
returns text
language sql
stable
as $$
select pg_catalog.format(
    'delay.until: %s %s', no_moment_reason.delay #>> '{until,field}',
    case
        when no_moment_reason.value is null then 'is missing'
        else 'is no time, got ' || _pgwhen.excerpt(no_moment_reason.value)
    end
);
$$;
