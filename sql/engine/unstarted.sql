-- Pending actions that have passed the time in which they were to start, or all their time, as
-- failures without a token. Lock order: scheduled_action, SKIP LOCKED, so never waiting.
create or replace function _pgwhen.unstarted(batch_size integer)
returns _pgwhen.failure[]
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
    v_start_since constant timestamptz := _pgwhen.scan_since('start');
    v_close_since constant timestamptz := _pgwhen.scan_since('close');
    v_late constant bigint[] := array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.status = 'pending'
            and a.held_by is null
            and a.deadline >= v_start_since
            and a.deadline < v_now
        order by a.deadline
        limit unstarted.batch_size
        for no key update skip locked
    );
    v_closed constant bigint[] := array(
        select a.id
        from pgwhen.scheduled_action as a
        where a.status = 'pending' and a.close_by >= v_close_since and a.close_by < v_now
        order by a.close_by
        limit unstarted.batch_size
        for no key update skip locked
    );
    v_still bigint[];
begin
    if v_late = '{}' and v_closed = '{}' then
        return '{}';
    end if;
    v_still := _pgwhen.stood_still(v_late, v_now);
    return _pgwhen.as_failures(v_closed, 'Timeout:ScheduleToClose', 'not done within its time')
        || _pgwhen.as_failures(
            array(
                select unnest(v_late) except select unnest(v_closed) except select unnest(v_still)
            ),
            'Timeout:ScheduleToStart', 'no worker started it within its time'
        );
end;
$$;

create or replace function _pgwhen.as_failures(ids bigint[], type text, message text)
returns _pgwhen.failure[]
language sql
immutable
as $$
select array(
    select row(
        i, null,
        pg_catalog.jsonb_build_object('type', as_failures.type, 'message', as_failures.message)
    )::_pgwhen.failure
    from unnest(as_failures.ids) as i
);
$$;

-- Those of the actions whose clock has stood still under a pause. What a pause holds now is put
-- away until resume() brings it back, so that a sweep meets it once; the others are looked at again
-- when their time is over.
create or replace function _pgwhen.stood_still(ids bigint[], now timestamptz)
returns bigint[]
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_still bigint[];
begin
    with still as (
        update pgwhen.scheduled_action as a
        set deadline = case when s.is_paused then _pgwhen.put_away() else s.start_by end
        from (
            select
                l.id,
                _pgwhen.start_by(l, stood_still.now) as start_by,
                _pgwhen.is_paused(l.action_type, l.line_oa_id, l.trigger_rule_id) as is_paused
            from pgwhen.scheduled_action as l
            where l.id = any(stood_still.ids)
        ) as s
        where a.id = s.id and (s.is_paused or s.start_by >= stood_still.now)
        returning a.id
    )
    select coalesce(array_agg(s.id), '{}') into v_still from still as s;
    return v_still;
end;
$$;

-- Until when an action is to start, as long as no pause stops it again.
create or replace function _pgwhen.start_by(action pgwhen.scheduled_action, now timestamptz)
returns timestamptz
language plpgsql
stable
as $$
begin
    return (_pgwhen.term_of(action, action.startable_at)).start_by
        + _pgwhen.time_paused(action, action.startable_at, start_by.now);
end;
$$;

-- A time that no sweep comes to, and that every client can read.
create or replace function _pgwhen.put_away()
returns timestamptz
language sql
immutable
as $$
select timestamptz '9999-12-31 00:00Z';
$$;

-- Of the failures those without a token, as endings. What was never tried was certainly not
-- delivered, and gives its slot back.
create or replace function _pgwhen.too_late(failures _pgwhen.failure[])
returns _pgwhen.ending[]
language plpgsql
volatile
as $$
begin
    return array(
        select _pgwhen.ending_of_action(
            a.id, null, 'failed',
            concat_ws('; last error: ', _pgwhen.error_text(f.error), a.error_message),
            give_back => not _pgwhen.was_tried(a), retry_state => 'timeout'
        )
        from unnest(too_late.failures) as f
        inner join pgwhen.scheduled_action as a on a.id = f.action_id
        where
            f.token is null
            and a.id = any(array(select u.action_id from unnest(too_late.failures) as u))
        order by a.id
    );
end;
$$;
