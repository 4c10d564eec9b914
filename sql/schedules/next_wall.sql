-- The next time that a wall clock shows what a schedule asks for, as if no clock were ever changed;
-- what becomes of it where clocks are, is said in next_run.sql.
--
-- Hot: PL/pgSQL for its kept plans, casts written out because an assignment would cast by text, SQL
-- helpers that are inlined. What casts text to a timestamp is stable, or it would not be inlined.

-- Strictly after `wall`; null where there is none, or none before the year 10000.
create or replace function _pgwhen.next_wall(schedule jsonb, wall timestamp)
returns timestamp
language sql
stable
as $$
select case
    when next_wall.schedule ? 'minutes'
        then _pgwhen.next_cron_wall(next_wall.schedule, next_wall.wall)
    when next_wall.schedule ? 'everyDays' then _pgwhen.next_day_wall(
        (next_wall.schedule -> 'everyDays')::integer,
        (next_wall.schedule ->> 'anchor')::timestamp, next_wall.wall
    )
    when next_wall.schedule ? 'everyMonths' then _pgwhen.next_month_wall(
        (next_wall.schedule -> 'everyMonths')::integer,
        (next_wall.schedule ->> 'anchor')::timestamp, next_wall.wall
    )
    when (next_wall.schedule ->> 'at')::timestamp > next_wall.wall
        then (next_wall.schedule ->> 'at')::timestamp
end;
$$;

create or replace function _pgwhen.next_cron_wall(schedule jsonb, wall timestamp)
returns timestamp
language plpgsql
immutable
as $$
declare
    v_minutes constant bigint := (schedule -> 'minutes')::bigint;
    v_hours constant bigint := (schedule -> 'hours')::bigint;
    v_months constant bigint := (schedule -> 'months')::bigint;
    v_of_month constant bigint := (schedule -> 'days')::bigint;
    v_weekdays constant bigint := (schedule -> 'weekdays')::bigint;
    v_either constant boolean := (schedule -> 'either')::boolean;
    v_from constant timestamp := date_trunc('minute', wall) + interval '1 minute';
    v_month date := date_trunc('month', v_from)::date;
    v_day integer := v_from::date - v_month;
    v_days bigint := 0;
    v_time integer;
begin
    if (v_months >> (date_part('month', v_month)::integer - 1)) & 1 = 1 then
        v_days := _pgwhen.cron_days(v_of_month, v_weekdays, v_either, v_month);
        if (v_days >> v_day) & 1 = 1 then
            v_time := _pgwhen.next_minute_of_day(
                v_minutes, v_hours,
                date_part('hour', v_from)::integer, date_part('minute', v_from)::integer
            );
            if v_time is not null then
                return v_month + v_day + make_interval(mins => v_time);
            end if;
        end if;
        v_days := (v_days >> (v_day + 1)) << (v_day + 1);
    end if;
    while v_days = 0 loop
        v_month := _pgwhen.next_cron_month(v_months, v_month);
        if v_month is null then
            return null;
        end if;
        v_days := _pgwhen.cron_days(v_of_month, v_weekdays, v_either, v_month);
    end loop;
    return v_month + _pgwhen.lowest_bit(v_days) + make_interval(
        hours => _pgwhen.lowest_bit(v_hours), mins => _pgwhen.lowest_bit(v_minutes)
    );
end;
$$;

-- The first minute of the day from hour:minute on; null where the day has none left.
create or replace function _pgwhen.next_minute_of_day(
    minutes bigint,
    hours bigint,
    hour integer,
    minute integer
)
returns integer
language plpgsql
immutable
as $$
begin
    return case
        when (hours >> hour) & 1 = 1 and minutes >> minute <> 0
            then hour * 60 + minute + _pgwhen.lowest_bit(minutes >> minute)
        when hours >> (hour + 1) <> 0 then
            (hour + 1 + _pgwhen.lowest_bit(hours >> (hour + 1))) * 60
            + _pgwhen.lowest_bit(minutes)
    end;
end;
$$;

create or replace function _pgwhen.next_cron_month(months bigint, month date)
returns date
language plpgsql
immutable
as $$
declare
    v_year integer := date_part('year', month);
    v_month integer := date_part('month', month);
begin
    if months >> v_month <> 0 then
        v_month := v_month + 1 + _pgwhen.lowest_bit(months >> v_month);
    else
        v_year := v_year + 1;
        v_month := 1 + _pgwhen.lowest_bit(months);
    end if;
    return case when v_year < 10000 then make_date(v_year, v_month, 1) end;
end;
$$;

-- The days of a month that both fields allow, or either; bit 0 is the first. A row of `weekdays`
-- begins with Sunday and a week of the month with its first day: all rows are rotated at once.
create or replace function _pgwhen.cron_days(
    of_month bigint,
    weekdays bigint,
    either boolean,
    month date
)
returns bigint
language plpgsql
immutable
as $$
declare
    v_length constant integer := (month + interval '1 month')::date - month;
    v_all constant bigint := (1::bigint << v_length) - 1;
    v_first constant integer := date_part('dow', month);
    v_end constant integer := (v_first + v_length) % 7;
    v_before bigint := 270549121 * ((1::bigint << (7 - v_first)) - 1);
    v_days bigint := of_month & v_all;
    v_weekdays bigint := weekdays >> 35;
begin
    if of_month >> 31 <> 0 then
        v_days := v_days
            | (((of_month >> 31) & 1) << (v_length - 1))
            | ((of_month >> 32) << (v_length - case v_end when 0 then 2 when 1 then 3 else 1 end));
    end if;
    if v_weekdays <> 0 then
        v_weekdays :=
            (((v_weekdays >> v_end) | (v_weekdays << (7 - v_end))) & 127) << (v_length - 7);
    end if;
    v_weekdays := v_weekdays
        | (((weekdays & 34359738367) >> v_first) & v_before)
        | ((weekdays << (7 - v_first)) & (34359738367 - v_before));
    return v_all & case when either then v_days | v_weekdays else v_days & v_weekdays end;
end;
$$;

-- The place of the lowest bit that is set, of a number that is not 0.
create or replace function _pgwhen.lowest_bit(bits bigint)
returns integer
language sql
immutable
as $$
select (ln((lowest_bit.bits & -lowest_bit.bits)::float8) / 0.6931471805599453)::integer;
$$;

create or replace function _pgwhen.next_day_wall(days integer, anchor timestamp, wall timestamp)
returns timestamp
language plpgsql
immutable
as $$
declare
    v_wall constant timestamp := anchor + make_interval(
        days => days * floor((wall::date - anchor::date)::float8 / days)::integer
    );
begin
    return case when v_wall > wall then v_wall else v_wall + make_interval(days => days) end;
end;
$$;

-- Always counted from the anchor: step by step, the 31st would become the 28th in February, and
-- stay it.
create or replace function _pgwhen.next_month_wall(months integer, anchor timestamp, wall timestamp)
returns timestamp
language plpgsql
immutable
as $$
declare
    v_between constant integer :=
        12 * (date_part('year', wall) - date_part('year', anchor))
        + date_part('month', wall) - date_part('month', anchor);
    v_rounds constant integer := floor(v_between::float8 / months);
    v_wall constant timestamp := anchor + make_interval(months => months * v_rounds);
begin
    return case
        when v_wall > wall then v_wall
        else anchor + make_interval(months => months * (v_rounds + 1))
    end;
end;
$$;
