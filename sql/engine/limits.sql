-- Timeouts, as Temporal has them. An attempt ends startToClose after its claim; all of them
-- scheduleToClose after the first could start; what heartbeats is lost when none has come for
-- `heartbeat`; what nobody starts within scheduleToStart fails. A missing startToClose is
-- scheduleToClose, which none of them can pass. Key by key, what is frozen with the action goes
-- before what its type says now.
--
-- What a timeout becomes in a row: `deadline` of a running attempt is the first of what can end it;
-- of a pending action, where scheduleToStart ends it, which stands still under a pause and so is
-- looked at again when it comes (unstarted.sql). close_by does not stand still.

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

-- The term of an action that can start at execute_at, and could for the first time at first_at.
create or replace function _pgwhen.term(
    limits jsonb,
    execute_at timestamptz,
    first_at timestamptz
)
returns _pgwhen.term
language sql
stable
as $$
select row(
    case when term.limits ->> 'scheduleToStart' is not null then term.execute_at end,
    term.execute_at + _pgwhen.limit_of(term.limits, 'scheduleToStart'),
    term.first_at + _pgwhen.limit_of(term.limits, 'scheduleToClose')
)::_pgwhen.term;
$$;

-- The same of a row that is made startable at execute_at: its time goes on from its first attempt.
create or replace function _pgwhen.term_of(
    action pgwhen.scheduled_action,
    execute_at timestamptz
)
returns _pgwhen.term
language plpgsql
stable
as $$
declare
    v_limits constant jsonb := _pgwhen.limits_of(action);
begin
    return _pgwhen.term(
        v_limits, term_of.execute_at,
        coalesce(
            case when action.retry_count > 0
                then action.close_by - _pgwhen.limit_of(v_limits, 'scheduleToClose') end,
            term_of.execute_at
        )
    );
end;
$$;

create or replace function _pgwhen.limits_of(action pgwhen.scheduled_action)
returns jsonb
language plpgsql
stable
as $$
declare
    v_of_type constant jsonb := _pgwhen.timeouts_of_type(action.action_type);
begin
    return _pgwhen.limits(v_of_type, action.timeouts);
end;
$$;

-- A pending row that a person has changed, with its term. A scheduleToClose that is another now
-- counts from when the old one did. Neither time lies where nobody looks any more.
create or replace function _pgwhen.with_term(
    new_row pgwhen.scheduled_action,
    old_row pgwhen.scheduled_action,
    now timestamptz
)
returns pgwhen.scheduled_action
language plpgsql
stable
as $$
declare
    v_row pgwhen.scheduled_action := with_term.new_row;
    v_change constant interval :=
        _pgwhen.limit_of(_pgwhen.limits_of(new_row), 'scheduleToClose')
        - _pgwhen.limit_of(_pgwhen.limits_of(old_row), 'scheduleToClose');
    v_term _pgwhen.term;
begin
    if not v_row.waiting then
        v_row.close_by := v_row.close_by + v_change;
        v_term := _pgwhen.term_of(v_row, v_row.execute_at);
    end if;
    v_row.startable_at := v_term.startable_at;
    v_row.deadline := greatest(v_term.start_by, case when v_term.start_by is not null then now end);
    v_row.close_by := greatest(v_term.close_by, case when v_term.close_by is not null then now end);
    return v_row;
end;
$$;
