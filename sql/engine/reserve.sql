-- _pgwhen.reserve: frequency. Turns 'fire' into 'suppressed' where the rule fired for this user too
-- recently; reserves the rest. One row per (rule, user), decided by one conditional upsert, so
-- fifty simultaneous events give one action. Goes by event time: an event from before the last
-- firing plus the period is suppressed, also one that is older than the last firing.
--
-- Lock order: reservations by (rule, user). A call has at most one event of each user, so no key
-- comes twice. The FULL JOIN is a hash join under any statistics; a LEFT JOIN of the two CTEs is
-- planned as a nested loop. So nothing strict about `wanted` may stand in its WHERE.

create or replace function _pgwhen.reserve(firings _pgwhen.firing[])
returns _pgwhen.firing[]
language plpgsql
volatile
as $$
declare
    v_firings _pgwhen.firing[] := reserve.firings;
    v_suppressed integer[];
    v_n integer;
begin
    with wanted as materialized (
        select
            f.ordinality::integer as n,
            f.trigger_rule_id,
            f.user_id,
            f.at,
            f.uuid,
            _pgwhen.allowed_before(
                f.frequency, f.period, f.at,
                case when f.calendar is not null
                    then _pgwhen.period_start(f.calendar, f.at, f.line_oa_id, f.user_id) end
            ) as allowed_before
        from unnest(reserve.firings) with ordinality as f
        where
            f.verdict = 'fire'
            and (f.frequency = 'once' or f.period is not null or f.calendar is not null)
    ),
    reserved as (
        insert into _pgwhen.reservation as held
            (trigger_rule_id, user_id, last_at, allowed_before, holder)
        select w.trigger_rule_id, w.user_id, w.at, w.allowed_before, w.uuid
        from wanted as w
        order by w.trigger_rule_id, w.user_id
        on conflict on constraint reservation_pkey do update
        set
            last_at = excluded.last_at,
            allowed_before = excluded.allowed_before,
            holder = excluded.holder,
            previous_at = held.last_at
        where held.last_at <= excluded.allowed_before
        returning held.trigger_rule_id, held.user_id
    )
    select array_agg(w.n)
    into v_suppressed
    from wanted as w
    full join reserved as r on r.trigger_rule_id = w.trigger_rule_id and r.user_id = w.user_id
    where r.user_id is null;

    foreach v_n in array coalesce(v_suppressed, '{}') loop
        v_firings[v_n].verdict := 'suppressed';
    end loop;
    return v_firings;
end;
$$;

-- The latest last firing that still lets an event at `at` fire; null where a rule remembers
-- nothing, -infinity where it fires once. Inlined: no parameter is used twice.
create or replace function _pgwhen.allowed_before(
    frequency text,
    period interval,
    at timestamptz,
    period_start timestamptz
)
returns timestamptz
language sql
stable
as $$
select case
    when allowed_before.frequency = 'once' then '-infinity'
    else least(
        allowed_before.at - allowed_before.period,
        allowed_before.period_start - interval '1 microsecond'
    )
end;
$$;

-- When the calendar period began that an event at `at` falls in, for this user.
create or replace function _pgwhen.period_start(
    calendar text,
    at timestamptz,
    line_oa_id text,
    user_id text
)
returns timestamptz
language plpgsql
stable
as $$
declare
    v_zone constant text := _pgwhen.zone(period_start.line_oa_id, period_start.user_id);
begin
    return _pgwhen.first_instant(
        date_trunc(period_start.calendar, period_start.at at time zone v_zone), v_zone
    );
end;
$$;

-- When the rule is free again for a user whose last firing was at last_at.
create or replace function _pgwhen.free_at(
    frequency text,
    period interval,
    calendar text,
    last_at timestamptz,
    time_zone text
)
returns timestamptz
language plpgsql
stable
as $$
begin
    if free_at.frequency = 'once' then
        return 'infinity';
    end if;
    return greatest(
        free_at.last_at + free_at.period,
        _pgwhen.first_instant(
            date_trunc(free_at.calendar, free_at.last_at at time zone free_at.time_zone)
            + ('1 ' || free_at.calendar)::interval,
            free_at.time_zone
        )
    );
end;
$$;

-- When a wall clock first shows a time. Where clocks go back over midnight, it shows midnight
-- twice, and Postgres means the second; a day begins with the first, which goes by the offset of
-- the day before.
create or replace function _pgwhen.first_instant(wall timestamp, time_zone text)
returns timestamptz
language plpgsql
stable
as $$
declare
    v_plain constant timestamptz := first_instant.wall at time zone first_instant.time_zone;
    v_day_before constant timestamptz := v_plain - interval '24 hours';
    v_early constant timestamptz := (
        first_instant.wall
        - (v_day_before at time zone first_instant.time_zone - v_day_before at time zone 'UTC')
    ) at time zone 'UTC';
begin
    if v_early at time zone first_instant.time_zone = first_instant.wall then
        return least(v_early, v_plain);
    end if;
    return v_plain;
end;
$$;

-- The zone in which a user's days begin: the user's, else the account's, else UTC.
create or replace function _pgwhen.zone(line_oa_id text, user_id text)
returns text
language plpgsql
stable
as $$
begin
    return coalesce(
        (
            select _pgwhen.known_zone(u.time_zone)
            from pgwhen.line_user as u
            where u.line_oa_id = zone.line_oa_id and u.user_id = zone.user_id
        ),
        (
            select _pgwhen.known_zone(a.time_zone)
            from pgwhen.account as a
            where a.line_oa_id = zone.line_oa_id
        ),
        'UTC'
    );
end;
$$;

-- A zone that this server does not know counts as none. Asking pg_timezone_names would read every
-- zone file of the machine for each user.
create or replace function _pgwhen.known_zone(zone text)
returns text
language plpgsql
stable
as $$
begin
    perform timestamptz 'epoch' at time zone known_zone.zone;
    return known_zone.zone;
exception
    when invalid_parameter_value then
        return null;
end;
$$;

-- Why a rule is suppressed for a user, and until when; null where it never fired.
create or replace function _pgwhen.suppression_reason(
    rule_id bigint,
    frequency text,
    period interval,
    calendar text,
    line_oa_id text,
    user_id text
)
returns text
language plpgsql
stable
as $$
begin
    return (
        select pg_catalog.format(
            '%s: last fired at %s, free again %s',
            case suppression_reason.frequency
                when 'always' then 'cooldown' else suppression_reason.frequency end,
            _pgwhen.stamp(h.last_at),
            case when pg_catalog.isfinite(f.free_at)
                then 'at ' || _pgwhen.stamp(f.free_at) else 'never' end
        )
        from _pgwhen.reservation as h
        cross join lateral _pgwhen.free_at(
            suppression_reason.frequency, suppression_reason.period,
            suppression_reason.calendar, h.last_at,
            case when suppression_reason.calendar is not null
                then _pgwhen.zone(suppression_reason.line_oa_id, suppression_reason.user_id) end
        ) as f (free_at)
        where
            h.trigger_rule_id = suppression_reason.rule_id
            and h.user_id = suppression_reason.user_id
    );
end;
$$;

create or replace function _pgwhen.stamp(at timestamptz)
returns text
language sql
stable
as $$
select pg_catalog.to_char(stamp.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"');
$$;
