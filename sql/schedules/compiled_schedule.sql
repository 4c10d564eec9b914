-- A schedule as next_run() reads it, of a source_config that is right; compiled when a rule is
-- saved.
--
--   zone, gap, overlap           how a time on the wall becomes an instant
--   start, end                   UTC; runs are from start on and before end
--   the keys of cron_parsed()    or
--   everySeconds, anchor (UTC)   or
--   everyDays, anchor (wall)     or everyMonths
--   instant (UTC)                or at (wall)

create or replace function _pgwhen.compiled_schedule(source_config jsonb)
returns jsonb
language plpgsql
stable
as $$
declare
    v_config constant jsonb := compiled_schedule.source_config;
    v_zone constant text := coalesce(v_config ->> 'timezone', 'UTC');
    v_schedule constant jsonb := jsonb_strip_nulls(jsonb_build_object(
        'zone', v_zone,
        'gap', coalesce(v_config #>> '{dst,gap}', 'shift'),
        'overlap', coalesce(v_config #>> '{dst,overlap}', 'first'),
        'start', _pgwhen.utc_of(v_config ->> 'start', v_zone),
        'end', _pgwhen.utc_of(v_config ->> 'end', v_zone)
    )) || case
        when v_config ? 'cron' then _pgwhen.cron_parsed(v_config ->> 'cron')
        when v_config ? 'every' then _pgwhen.compiled_every(v_config, v_zone)
        when _pgwhen.is_local_time(v_config ->> 'at')
            then jsonb_build_object('at', _pgwhen.wall_of(v_config ->> 'at', v_zone))
        else jsonb_build_object('instant', _pgwhen.utc_of(v_config ->> 'at', v_zone))
    end;
begin
    return v_schedule || case
        when v_schedule @> '{"fixed": false}' then jsonb '{"gap": "skip", "overlap": "both"}'
        else '{}'
    end;
end;
$$;

-- Without an anchor, runs are counted from the start; without either from a midnight that begins a
-- week, a month and a year.
create or replace function _pgwhen.compiled_every(source_config jsonb, time_zone text)
returns jsonb
language plpgsql
stable
as $$
declare
    v_every constant record := _pgwhen.every_of(source_config -> 'every');
    v_anchor constant text :=
        coalesce(source_config ->> 'anchor', source_config ->> 'start', '2001-01-01T00:00');
begin
    return case
        when v_every.months > 0 then jsonb_build_object(
            'everyMonths', v_every.months, 'anchor', _pgwhen.wall_of(v_anchor, time_zone)
        )
        when v_every.days > 0 then jsonb_build_object(
            'everyDays', v_every.days, 'anchor', _pgwhen.wall_of(v_anchor, time_zone)
        )
        else jsonb_build_object(
            'everySeconds', v_every.seconds, 'anchor', _pgwhen.utc_of(v_anchor, time_zone)
        )
    end;
end;
$$;

-- An interval in its three parts, of which "every" may use one. Nulls where it is none. The style
-- is set because it changes how signs are read.
create or replace function _pgwhen.every_of(
    value jsonb,
    out months integer,
    out days integer,
    out seconds numeric
)
language plpgsql
stable
set intervalstyle = 'postgres'
as $$
declare
    v_interval interval;
begin
    if jsonb_typeof(value) = 'number' then
        months := 0;
        days := 0;
        seconds := trim_scale(round(value::numeric, 6));
        return;
    end if;
    v_interval := (value #>> '{}')::interval;
    if isfinite(v_interval) then
        months := 12 * extract(year from v_interval) + extract(month from v_interval);
        days := extract(day from v_interval);
        seconds := trim_scale(
            extract(epoch from v_interval - make_interval(months => months, days => days))
        );
    end if;
exception
    when data_exception then
        null;
end;
$$;

-- The instant that a text means, as a timestamp of UTC.
create or replace function _pgwhen.utc_of(moment text, time_zone text)
returns timestamp
language sql
stable
as $$
select case
    when _pgwhen.is_local_time(utc_of.moment) then _pgwhen.first_instant(
        _pgwhen.to_instant(utc_of.moment) at time zone 'UTC', utc_of.time_zone
    )
    else _pgwhen.to_instant(utc_of.moment)
end at time zone 'UTC';
$$;

-- What the wall shows then.
create or replace function _pgwhen.wall_of(moment text, time_zone text)
returns timestamp
language sql
stable
as $$
select _pgwhen.to_instant(wall_of.moment) at time zone case
    when _pgwhen.is_local_time(wall_of.moment) then 'UTC' else wall_of.time_zone end;
$$;
