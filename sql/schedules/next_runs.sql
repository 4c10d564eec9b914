create or replace function pgwhen.next_runs(
    rule bigint default null,
    source jsonb default null,
    n integer default 10,
    after timestamptz default null
)
returns table (scheduled_at timestamptz, local_time timestamp, time_zone text, note text)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schedule constant jsonb := _pgwhen.schedule_to_preview(next_runs.rule, next_runs.source);
    v_zone constant text := v_schedule ->> 'zone';
    v_run timestamptz := coalesce(next_runs.after, _pgwhen.clock());
    v_last timestamptz;
begin
    if next_runs.n is null or next_runs.n not between 1 and 1000 then
        raise exception 'n must be from 1 to 1000, got %', next_runs.n
            using errcode = 'PW402', hint = 'Ask for fewer, then again after the last of them.';
    end if;
    for v_n in 1 .. next_runs.n loop
        v_last := v_run;
        v_run := _pgwhen.next_run(v_schedule, v_last);
        exit when v_run is null;
        return query
        select
            v_run, v_run at time zone v_zone, v_zone,
            _pgwhen.run_note(v_schedule, v_last, v_run);
    end loop;
end;
$$;

comment on function pgwhen.next_runs(bigint, jsonb, integer, timestamptz) is
$doc$Show the next n times of a schedule: of a rule, or of a source_config before it is saved.

scheduled_at is the nominal time, by which a round is known; local_time is what a clock shows then
in the schedule's time zone. note says in words where a change of clocks plays a part: which time
does not exist and when it runs instead, or that it is skipped; which of two it is where a time
comes twice. It is null on all other days. Fewer rows come where the schedule ends. Jitter, pauses
and rounds that are still running are not looked at: these are times, not promises.

after is now by default; a run at that very moment is not shown. n is from 1 to 1000.

Raises PW401 where neither or both of rule and source are given, the rule does not exist or is no
schedule, PW402 for another n, and PW002 for a source that could not be saved.

  select * from pgwhen.next_runs(rule => 7);
  select local_time, note
  from pgwhen.next_runs(source => '{"cron": "30 2 * * *", "timezone": "Europe/Berlin"}', n => 3,
      after => '2026-03-28');
$doc$;

create or replace function _pgwhen.schedule_to_preview(rule bigint, source jsonb)
returns jsonb
language plpgsql
stable
as $$
declare
    v_source constant jsonb := coalesce(source, (
        select r.source_config
        from pgwhen.trigger_rule as r
        where r.id = rule and r.source_type = 'schedule'
    ));
    v_faults _pgwhen.fault[];
begin
    if num_nonnulls(rule, source) <> 1 then
        raise exception 'next_runs needs either a rule or a source'
            using errcode = 'PW401',
                hint = 'Write next_runs(rule => 7), '
                    'or next_runs(source => ''{"cron": "0 9 * * 1"}'').';
    end if;
    if v_source is null then
        raise exception 'there is no rule % that is a schedule', rule
            using errcode = 'PW401',
                hint = 'select id, name from pgwhen.trigger_rule where source_type = ''schedule''';
    end if;
    v_faults := _pgwhen.source_faults('schedule', v_source);
    if cardinality(v_faults) > 0 then
        raise exception '%: %', v_faults[1].path, v_faults[1].message
            using errcode = v_faults[1].code, hint = v_faults[1].hint;
    end if;
    return _pgwhen.compiled_schedule(v_source);
end;
$$;

-- What a change of clocks has to do with a run, in words; null where nothing has. `last` is the run
-- before, or the moment from which runs are told: what was skipped since is told too.
create or replace function _pgwhen.run_note(schedule jsonb, last timestamptz, run timestamptz)
returns text
language plpgsql
stable
as $$
begin
    if schedule ?| array['everySeconds', 'instant'] then
        return null;
    end if;
    return coalesce(
        case schedule ->> 'gap'
            when 'shift' then _pgwhen.shift_note(schedule, run)
            else _pgwhen.skip_note(schedule, last, run)
        end,
        _pgwhen.overlap_note(schedule, run)
    );
end;
$$;

-- Had the clock not gone forward in the last 24 hours, it would show a time of the schedule.
create or replace function _pgwhen.shift_note(schedule jsonb, run timestamptz)
returns text
language plpgsql
stable
as $$
declare
    v_zone constant text := schedule ->> 'zone';
    v_run constant timestamp := run at time zone 'UTC';
    v_wall constant timestamp := v_run + _pgwhen.utc_offset(v_run - interval '24 hours', v_zone);
begin
    return case
        when v_wall <> (v_wall at time zone v_zone) at time zone v_zone
            and _pgwhen.next_wall(schedule, v_wall - interval '1 microsecond') = v_wall
            then format(
                '%s does not exist on %s: runs at %s', to_char(v_wall, 'HH24:MI'),
                to_char(v_wall, 'YYYY-MM-DD'),
                to_char(
                    run at time zone v_zone,
                    case when (run at time zone v_zone)::date > v_wall::date
                        then 'YYYY-MM-DD HH24:MI' else 'HH24:MI' end
                )
            )
    end;
end;
$$;

-- Of a rhythm nothing is skipped that runs when the clock goes forward over its time.
create or replace function _pgwhen.skip_note(schedule jsonb, last timestamptz, run timestamptz)
returns text
language plpgsql
stable
as $$
declare
    v_zone constant text := schedule ->> 'zone';
    v_wall constant timestamp := _pgwhen.next_wall(schedule, last at time zone v_zone);
begin
    return case
        when v_wall < run at time zone v_zone
            and v_wall <> (v_wall at time zone v_zone) at time zone v_zone
            and not (schedule @> '{"fixed": false}' and v_wall at time zone v_zone = run)
            then format(
                '%s did not exist on %s: skipped', to_char(v_wall, 'HH24:MI'),
                to_char(v_wall, 'YYYY-MM-DD')
            )
    end;
end;
$$;

create or replace function _pgwhen.overlap_note(schedule jsonb, run timestamptz)
returns text
language plpgsql
stable
as $$
declare
    v_zone constant text := schedule ->> 'zone';
    v_wall constant timestamp := run at time zone v_zone;
    v_first constant timestamptz := _pgwhen.first_instant(v_wall, v_zone);
    v_second constant timestamptz := v_wall at time zone v_zone;
begin
    return case when v_first < v_second then format(
        '%s comes twice on %s: runs the %s time',
        to_char(v_wall, 'HH24:MI'), to_char(v_wall, 'YYYY-MM-DD'),
        case when run = v_first then 'first' else 'second' end
    ) end;
end;
$$;
