-- Timeouts, as the reference has them. An attempt ends startToClose after its claim; all of them
-- scheduleToClose after the first could start; what heartbeats is lost when none has come for
-- `heartbeat`; what nobody starts within scheduleToStart fails. Of startToClose and scheduleToStart
-- the missing is scheduleToClose, which neither can pass. Key by key, what is frozen with the
-- action goes before what its type says now.
--
-- What a timeout becomes in a row: `deadline` of a running attempt is the first of what can end it;
-- of a pending action, where scheduleToStart ends it, which stands still under a pause and so is
-- looked at again when it comes (recover_stale_actions). close_by does not stand still.

create or replace function _pgwhen.limits(of_type jsonb, of_action jsonb)
returns jsonb
language sql
immutable
as $$
select coalesce(limits.of_type || limits.of_action, limits.of_type, limits.of_action);
$$;

create or replace function _pgwhen.limit_of(limits jsonb, name text)
returns interval
language sql
immutable
as $$
select pg_catalog.make_interval(secs => (limit_of.limits ->> limit_of.name)::float8);
$$;

-- How long an attempt may run, which close_by may shorten further.
create or replace function _pgwhen.attempt_time(limits jsonb, default_time interval)
returns interval
language sql
immutable
as $$
select coalesce(
    least(
        _pgwhen.limit_of(attempt_time.limits, 'startToClose'),
        _pgwhen.limit_of(attempt_time.limits, 'scheduleToClose')
    ),
    attempt_time.default_time
);
$$;

-- How long an attempt may show no sign of life: to its end, or to its first heartbeat.
create or replace function _pgwhen.time_to_show(limits jsonb, default_time interval)
returns interval
language sql
immutable
as $$
select least(
    _pgwhen.attempt_time(time_to_show.limits, time_to_show.default_time),
    _pgwhen.limit_of(time_to_show.limits, 'heartbeat')
);
$$;

-- How often an attempt is to heartbeat, which its end may shorten; null where it need not.
create or replace function _pgwhen.heartbeat_time(limits jsonb, default_time interval)
returns interval
language sql
immutable
as $$
select case when heartbeat_time.limits ->> 'heartbeat' is not null
    then _pgwhen.time_to_show(heartbeat_time.limits, heartbeat_time.default_time) end;
$$;

-- Until when an attempt that is to heartbeat may go on; null where its deadline says it all.
create or replace function _pgwhen.attempt_ends(
    limits jsonb,
    default_time interval,
    now timestamptz,
    close_by timestamptz
)
returns timestamptz
language sql
stable
as $$
select case when attempt_ends.limits ->> 'heartbeat' is not null then least(
    attempt_ends.close_by,
    attempt_ends.now + _pgwhen.attempt_time(attempt_ends.limits, attempt_ends.default_time)
) end;
$$;

create or replace function _pgwhen.default_attempt_time()
returns interval
language sql
stable
as $$
select pg_catalog.make_interval(
    secs => 60 * (_pgwhen.setting('staleProcessingMinute'))::float8
);
$$;

-- Of the action types that have any, their timeouts by name.
create or replace function _pgwhen.limits_of_types()
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select coalesce(jsonb_object_agg(t.name, t.options -> 'timeouts'), '{}')
        from _pgwhen.action_type as t
        where t.options ? 'timeouts'
    );
end;
$$;

-- The term of an action that can start at execute_at. close_by is set once, by the first time it
-- can start.
create or replace function _pgwhen.term(
    limits jsonb,
    execute_at timestamptz,
    close_by timestamptz default null
)
returns _pgwhen.term
language sql
stable
as $$
select row(
    case when term.limits ->> 'scheduleToStart' is not null then term.execute_at end,
    term.execute_at + _pgwhen.limit_of(term.limits, 'scheduleToStart'),
    coalesce(
        term.close_by, term.execute_at + _pgwhen.limit_of(term.limits, 'scheduleToClose')
    )
)::_pgwhen.term;
$$;

-- The same of a row that is made startable at execute_at.
create or replace function _pgwhen.term_of(
    action pgwhen.scheduled_action,
    execute_at timestamptz,
    close_by timestamptz default null
)
returns _pgwhen.term
language plpgsql
stable
as $$
begin
    return _pgwhen.term(
        _pgwhen.limits(
            _pgwhen.timeouts_of_type(term_of.action.action_type), term_of.action.timeouts
        ),
        term_of.execute_at, term_of.close_by
    );
end;
$$;

-- How long an action has been under a pause between two moments: now and then several at a time.
create or replace function _pgwhen.time_paused(
    action pgwhen.scheduled_action,
    since timestamptz,
    until timestamptz
)
returns interval
language plpgsql
stable
as $$
begin
    return (
        select coalesce(sum(upper(s.span) - lower(s.span)), interval '0')
        from unnest((
            select range_agg(d.during) * tstzmultirange(tstzrange(time_paused.since, time_paused.until))
            from (
                select h.during
                from _pgwhen.past_pause as h
                where
                    upper(h.during) > time_paused.since
                    and _pgwhen.scope_covers(
                        h.action_type, h.line_oa_id, h.trigger_rule_id, time_paused.action
                    )
                union all
                select tstzrange(p.paused_at, null)
                from _pgwhen.pause as p
                where _pgwhen.scope_covers(
                    p.action_type, p.line_oa_id, p.trigger_rule_id, time_paused.action
                )
            ) as d
        )) as s (span)
    );
end;
$$;

create or replace function _pgwhen.scope_covers(
    action_type text,
    line_oa_id text,
    trigger_rule_id bigint,
    action pgwhen.scheduled_action
)
returns boolean
language sql
immutable
as $$
select
    coalesce(scope_covers.action_type = (scope_covers.action).action_type, true)
    and coalesce(scope_covers.line_oa_id = (scope_covers.action).line_oa_id, true)
    and (
        scope_covers.trigger_rule_id is null
        or scope_covers.trigger_rule_id is not distinct from (scope_covers.action).trigger_rule_id
    );
$$;
