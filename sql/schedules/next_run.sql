-- _pgwhen.next_run: the first nominal time of a schedule after an instant; null where there is
-- none, or none in the years that Python can read. A pure function of both and of the server's zone
-- files.
--
-- A time on the wall becomes an instant by the zone's offset. Where that changes, two rules apply,
-- one before the change and one after:
--
--     before   all that the wall shows by the old offset; but not what it will show again, where
--              overlap is `second`; and, where gap is `shift`, what it would have shown if its
--              clock had gone on, for as long as the gap
--     after    all that the wall shows by the new offset; but not what it has shown before, where
--              overlap is `first`
--
-- A rhythm (a cron whose minute or hour begins with *) is compiled to gap `skip` and overlap
-- `both`: whatever the wall shows, and nothing else.
--
-- A change moves a clock by 24 hours at most, and two of one zone are 95 hours apart at least (in
-- Freetown in 1939). So three looks at the offset tell whether there is a change to mind: a day
-- before, now, and a day after the next run, or after 30 hours from now. Of a run that is further
-- away than that, all but the last 30 hours are jumped.
--
-- Instants are held as timestamps of UTC, whose arithmetic knows no zone.

create or replace function _pgwhen.next_run(schedule jsonb, after timestamptz)
returns timestamptz
language plpgsql
stable
as $$
declare
    v_after timestamp :=
        greatest(next_run.after, timestamptz '0001-01-03 00:00Z') at time zone 'UTC';
    v_run timestamp;
begin
    if next_run.after is null or v_after > timestamp '9999-12-31 00:00' then
        return null;
    end if;
    if schedule ? 'start' then
        v_after := greatest(v_after, (schedule ->> 'start')::timestamp - interval '1 microsecond');
    end if;
    v_run := case
        when schedule ? 'everySeconds' then _pgwhen.next_beat(
            (schedule -> 'everySeconds')::numeric, (schedule ->> 'anchor')::timestamp, v_after
        )
        when schedule ? 'instant' then _pgwhen.later(
            (schedule ->> 'instant')::timestamp, v_after
        )
        else _pgwhen.next_by_wall(schedule, v_after)
    end;
    return case
        when v_run < least((schedule ->> 'end')::timestamp, timestamp '9999-12-31 00:00')
            then v_run at time zone 'UTC'
    end;
end;
$$;

create or replace function _pgwhen.later(instant timestamp, after timestamp)
returns timestamp
language sql
immutable
as $$
select case when later.instant > later.after then later.instant end;
$$;

-- Hours apart from seconds, because an interval of float seconds is exact to the microsecond only
-- where there are few.
create or replace function _pgwhen.next_beat(seconds numeric, anchor timestamp, after timestamp)
returns timestamp
language plpgsql
immutable
as $$
declare
    v_since constant numeric :=
        seconds * (floor(extract(epoch from after - anchor) / seconds) + 1);
begin
    return anchor + make_interval(
        hours => div(v_since, 3600)::integer, secs => mod(v_since, 3600)::float8
    );
end;
$$;

create or replace function _pgwhen.next_by_wall(schedule jsonb, after timestamp)
returns timestamp
language plpgsql
stable
as $$
declare
    v_zone constant text := schedule ->> 'zone';
    v_day constant interval := '24:00';
    v_near constant interval := '30:00';
    v_after timestamp := next_by_wall.after;
    v_offset interval;
    v_wall timestamp;
    v_run timestamp;
    v_end timestamp;
    v_change timestamp;
begin
    loop
        v_offset := _pgwhen.utc_offset(v_after, v_zone);
        v_wall := _pgwhen.next_wall(schedule, v_after + v_offset);
        v_run := v_wall - v_offset;
        v_end := least(v_run, v_after + v_near) + v_day;
        v_change := _pgwhen.offset_change(v_zone, v_after - v_day, v_after, v_end, v_offset);
        if v_change is not null then
            v_run := _pgwhen.next_by_change(schedule, v_change, v_after);
            if v_run <= v_change + v_near then
                return v_run;
            end if;
            v_after := v_change + v_day;
        elsif v_run <= v_after + v_near or v_run is null then
            return v_run;
        else
            v_after := v_run - v_near;
        end if;
    end loop;
end;
$$;

create or replace function _pgwhen.utc_offset(at timestamp, time_zone text)
returns interval
language sql
immutable
as $$
select (utc_offset.at at time zone 'UTC') at time zone utc_offset.time_zone - utc_offset.at;
$$;

-- When the offset changed between two instants, to the second; null where it did not.
create or replace function _pgwhen.offset_change(
    time_zone text,
    since timestamp,
    middle timestamp,
    until timestamp,
    middle_offset interval
)
returns timestamp
language plpgsql
immutable
as $$
declare
    v_before constant interval := _pgwhen.utc_offset(since, time_zone);
    v_since timestamp := date_trunc('second', since);
    v_seconds integer;
    v_half integer;
begin
    if v_before = middle_offset and _pgwhen.utc_offset(until, time_zone) = middle_offset then
        return null;
    end if;
    v_seconds := ceil(date_part('epoch', until - v_since));
    while v_seconds > 1 loop
        v_half := v_seconds / 2;
        if _pgwhen.utc_offset(v_since + make_interval(secs => v_half), time_zone) = v_before then
            v_since := v_since + make_interval(secs => v_half);
            v_seconds := v_seconds - v_half;
        else
            v_seconds := v_half;
        end if;
    end loop;
    return v_since + interval '1 second';
end;
$$;

-- By the two rules, where a change is near.
create or replace function _pgwhen.next_by_change(
    schedule jsonb,
    change timestamp,
    after timestamp
)
returns timestamp
language plpgsql
stable
as $$
declare
    v_zone constant text := schedule ->> 'zone';
    v_old constant interval := _pgwhen.utc_offset(change - interval '1 second', v_zone);
    v_new constant interval := _pgwhen.utc_offset(change, v_zone);
    v_old_until constant timestamp := change + case
        when v_new > v_old and schedule ->> 'gap' = 'shift' then v_new - v_old
        when v_new < v_old and schedule ->> 'overlap' = 'second' then v_new - v_old
        else interval '0'
    end;
    v_new_from constant timestamp := change + case
        when v_new < v_old and schedule ->> 'overlap' = 'first' then v_old - v_new
        else interval '0'
    end;
    v_early timestamp;
begin
    if after < v_old_until then
        v_early := _pgwhen.next_wall(schedule, after + v_old) - v_old;
    end if;
    return least(
        case when v_early < v_old_until then v_early end,
        _pgwhen.next_wall(
            schedule, greatest(after, v_new_from - interval '1 microsecond') + v_new
        ) - v_new
    );
end;
$$;
