-- _pgwhen.schedule_faults: what is wrong with the source_config of a schedule: first keys and
-- types, then each time by itself, and where these are right, whether there is any run at all.

create or replace function _pgwhen.schedule_faults(source_config jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_config constant jsonb := schedule_faults.source_config;
    v_path constant text := schedule_faults.at_path;
    v_faults _pgwhen.fault[] := _pgwhen.schema_faults(
        _pgwhen.source_schema('schedule'), v_config, v_path, 'PW002'
    );
begin
    if cardinality(v_faults) > 0 then
        return v_faults;
    end if;
    v_faults := _pgwhen.kind_faults(v_config, v_path)
        || case when v_config ? 'cron' then
            _pgwhen.cron_faults(v_config ->> 'cron', v_path || '.cron') else '{}' end
        || case when v_config ? 'every' then
            _pgwhen.every_faults(v_config -> 'every', v_path || '.every') else '{}' end
        || case when v_config ? 'timezone' then
            _pgwhen.zone_faults(v_config ->> 'timezone', v_path || '.timezone') else '{}' end
        || _pgwhen.moment_faults(v_config, v_path)
        || _pgwhen.leeway_faults(v_config, v_path);
    if cardinality(v_faults) = 0 then
        v_faults := _pgwhen.term_faults(v_config, v_path);
    end if;
    return v_faults;
end;
$$;

-- Exactly one of the three, and no anchor for another one than `every`.
create or replace function _pgwhen.kind_faults(source_config jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults constant _pgwhen.fault[] := _pgwhen.when_faults(
        kind_faults.source_config, '{at,cron,every}', kind_faults.at_path,
        'Add one of "cron", "every" and "at", for example {"cron": "0 9 * * 1"}.', 'PW002'
    );
begin
    if v_faults = '{}'
        and kind_faults.source_config ? 'anchor'
        and not kind_faults.source_config ? 'every'
    then
        return _pgwhen.one_fault(
            kind_faults.at_path || '.anchor', 'has no meaning without "every"',
            'Leave it out, or write "start" for the time before which nothing is to run.', 'PW002'
        );
    end if;
    return v_faults;
end;
$$;

-- Those of one unit only: where days and hours are added, the order in which they are matters.
create or replace function _pgwhen.every_faults(every jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_every constant record := _pgwhen.every_of(every_faults.every);
    v_units constant integer := (v_every.months <> 0)::integer + (v_every.days <> 0)::integer
        + (v_every.seconds <> 0)::integer;
    v_message constant text := case
        when v_units is null then 'is no interval'
        when v_units > 1 then 'mixes months, days and hours'
        when v_every.months < 0 or v_every.days < 0 or v_every.seconds < 0 then 'goes backwards'
        when v_units = 0 or v_every.seconds > 0 and v_every.seconds < 1
            then 'is shorter than a second'
        when v_every.months > 120 or v_every.days > 3653 or v_every.seconds > 315360000
            then 'is longer than ten years'
    end;
begin
    return case
        when v_message is null then '{}'
        else _pgwhen.one_fault(
            at_path, format('%s, got %s', v_message, _pgwhen.excerpt(every)),
            case
                when v_units > 1
                    then 'Write it in one unit: "36 hours" and not "1 day 12 hours".'
                else 'Write "15 minutes", "2 weeks", or a number of seconds; at most ten years.'
            end, 'PW002'
        )
    end;
end;
$$;

-- A name that stands for a place, or for UTC. What a server would also take is refused where it is
-- not what it seems: abbreviations, which are one offset all the year ("CET" and "EST" too), and
-- POSIX strings, whose sign is reversed. The latter have a digit, and only names with one have to
-- be looked up among all, which reads every zone file of the machine.
create or replace function _pgwhen.zone_faults(zone text, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_message constant text := case
        when zone !~ '^[A-Za-z][A-Za-z0-9_+/-]*$'
            or lower(zone) ~ '^(posix/|right/|local(time)$|posixrules$|factory$)'
            or _pgwhen.known_zone(zone) is null
            then 'is no time zone that this server knows'
        when zone ~ '[0-9]' and not exists (
            select from pg_timezone_names as n where lower(n.name) = lower(zone)
        ) then 'is no name of a time zone'
        when upper(zone) not in ('UTC', 'GMT', 'UCT', 'ZULU') and exists (
            select from pg_timezone_abbrevs as a where a.abbrev = upper(zone)
        ) then 'is an abbreviation, which has one offset all the year'
    end;
begin
    return case
        when v_message is null then '{}'
        else _pgwhen.one_fault(
            at_path, format('%s, got %s', v_message, _pgwhen.excerpt(to_jsonb(zone))),
            'Write a name of pg_timezone_names such as "Asia/Bangkok" or "UTC"; for an offset '
            '"Etc/GMT-7", which is 7 hours ahead of UTC.', 'PW002'
        )
    end;
end;
$$;

create or replace function _pgwhen.moment_faults(source_config jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            _pgwhen.path_to(moment_faults.at_path, k.key),
            format(m.message, moment_faults.source_config -> k.key), m.hint, 'PW002'
        )::_pgwhen.fault
    from unnest(array['at', 'anchor', 'start', 'end']) as k (key)
    cross join lateral (
        select
            'is no time, got %s' as message,
            'Write a date and time such as "2026-11-30T09:00:00+07:00".' as hint
        where _pgwhen.to_instant(moment_faults.source_config ->> k.key) is null
        union all
        select
            'has no offset from UTC, got %s',
            'Add the offset, as in "+07:00" or "Z", or a "timezone" whose time it is.'
        where
            _pgwhen.is_local_time(moment_faults.source_config ->> k.key)
            and not moment_faults.source_config ? 'timezone'
        limit 1
    ) as m
    where moment_faults.source_config ? k.key
);
$$;

create or replace function _pgwhen.leeway_faults(source_config jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            leeway_faults.at_path || s.path,
            format('is no interval %s, got %s', s.span, _pgwhen.excerpt(s.value)),
            s.hint, 'PW002'
        )::_pgwhen.fault
    from (
        values
        (
            '.jitter', leeway_faults.source_config -> 'jitter', 0.0, 86400.0,
            'from none to a day', 'Write "5 minutes", or a number of seconds up to 86400.'
        ),
        (
            '.catchUp.window', leeway_faults.source_config #> '{catchUp,window}', 1.0, 315360000.0,
            'from a second to ten years', 'Write "1 hour", or a number of seconds.'
        )
    ) as s (path, value, shortest, longest, span, hint)
    where s.value is not null and s.value <> '0'
        and coalesce(_pgwhen.span_seconds(s.value) not between s.shortest and s.longest, true)
);
$$;

-- Of a config that is right but for this.
create or replace function _pgwhen.term_faults(source_config jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_schedule constant jsonb := _pgwhen.compiled_schedule(source_config);
begin
    if (v_schedule ->> 'end')::timestamp <= (v_schedule ->> 'start')::timestamp then
        return _pgwhen.one_fault(
            at_path || '.end', 'is not after "start"', 'Write a later one, or leave it out.',
            'PW002'
        );
    elsif _pgwhen.next_run(v_schedule, '-infinity') is null then
        return _pgwhen.one_fault(
            at_path, 'never runs',
            'Nothing of it comes between "start" and "end", or it is skipped where clocks change.',
            'PW002'
        );
    end if;
    return '{}';
end;
$$;
