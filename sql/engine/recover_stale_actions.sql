create or replace function pgwhen.recover_stale_actions(batch_size integer default null)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_batch_size constant integer := _pgwhen.batch_size_of(batch_size);
    v_done integer;
begin
    perform _pgwhen.require_read_committed('recover_stale_actions');
    perform _pgwhen.raise_time_floors('{deadline,start,close}');
    v_done := _pgwhen.recover(
        _pgwhen.stale(v_batch_size) || _pgwhen.unstarted(v_batch_size)
    );
    if v_done > 0 then
        perform _pgwhen.ring('pgwhen_due');
    end if;
    return v_done;
end;
$$;

comment on function pgwhen.recover_stale_actions(integer) is
$doc$Take back actions that have passed a deadline, up to batch_size of each kind; returns how many.

A running one has failed an attempt, with the type Timeout:StartToClose, Timeout:Heartbeat or
Timeout:ScheduleToClose: it is tried again as its retry policy says, or ends as failed. The worker
that held it finds its token refused. One whose heartbeats have moved its deadline on is left to
it. Of a batch all that run have failed with one of them. A pending one that nobody has started in time ends as failed, Timeout:ScheduleToStart or
Timeout:ScheduleToClose: docs/timeouts.md. Harmless to run at any time, by anybody, in parallel.

Raises PW202 outside READ COMMITTED, PW301 for a batch_size below 1.

  select pgwhen.recover_stale_actions();
$doc$;

-- As many of the failures together as go: what raises is halved, down to the one that did. Those
-- with a token are of attempts, those without of actions that nobody has started.
create or replace function _pgwhen.recover(failures _pgwhen.failure[])
returns integer
language plpgsql
volatile
as $$
declare
    v_todo _pgwhen.failure[] := recover.failures;
    v_size integer := cardinality(recover.failures);
    v_why text;
    v_done integer := 0;
begin
    while v_todo <> '{}' loop
        begin
            perform _pgwhen.try_again(v_todo[:v_size], _pgwhen.write_clock());
            perform _pgwhen.settle(_pgwhen.too_late(v_todo[:v_size]));
            set constraints all immediate;
            v_done := v_done + cardinality(v_todo[:v_size]);
        exception
            when assert_failure or others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                get stacked diagnostics v_why = message_text;
                perform _pgwhen.recover_later(v_todo[1].action_id, sqlstate || ': ' || v_why);
        end;
        v_todo := v_todo[v_size + 1:];
        v_size := 2 * v_size;
    end loop;
    return v_done;
end;
$$;

-- The oldest of what has passed its deadline, as failures. Those that live are told another
-- deadline: a timer is set anew once in a heartbeat timeout, not at each heartbeat. Where all of a
-- page live the next one is looked at, so that they do not hide what is stale, but not for ever. A
-- batch was one call: with one of its attempts all are over.
-- Lock order: scheduled_action, then heartbeats; both SKIP LOCKED, so never waiting: what beats at
-- this moment is not stale.
create or replace function _pgwhen.stale(batch_size integer)
returns _pgwhen.failure[]
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
    v_until constant timestamptz := v_now + _pgwhen.yield_after();
    v_since constant timestamptz := _pgwhen.scan_since('deadline');
    v_late bigint[];
    v_batches uuid[];
    v_size integer;
    v_stale bigint[];
begin
    loop
        select
            array_agg(p.id), count(*),
            array_agg(distinct p.batch_id) filter (where p.batch_id is not null)
        into v_late, v_size, v_batches
        from (
            select a.id, a.batch_id
            from pgwhen.scheduled_action as a
            where a.status = 'processing' and a.deadline >= v_since and a.deadline < v_now
            order by a.deadline
            limit stale.batch_size
            for no key update skip locked
        ) as p;
        if v_size = 0 then
            return '{}';
        elsif v_batches is not null then
            v_late := _pgwhen.with_running_batches(v_late, v_batches);
        end if;
        v_stale := array(
            select unnest(v_late) except select unnest(_pgwhen.alive(v_late, v_now))
        );
        exit when v_stale <> '{}' or v_size < stale.batch_size
            or _pgwhen.clock() > v_until;
    end loop;
    return _pgwhen.timed_out(v_stale, v_now);
end;
$$;

-- Running actions, and what else runs in their batches, locked too.
create or replace function _pgwhen.with_running_batches(ids bigint[], batches uuid[])
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_members constant bigint[] := array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.batch_id = any(with_running_batches.batches)
            and not a.waiting
            and a.status in ('pending', 'processing')
            and case a.status when 'processing' then true end
        for no key update skip locked
    );
begin
    return array(select unnest(with_running_batches.ids) union select unnest(v_members));
end;
$$;

-- Of actions past their deadline, those whose heartbeats say otherwise, and those that beat now.
create or replace function _pgwhen.alive(ids bigint[], now timestamptz)
returns bigint[]
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_beating constant bigint[] := array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.id = any(alive.ids)
            and a.has_heartbeat
            and a.heartbeat_timeout is not null
            and a.attempt_ends >= alive.now
    );
    v_silent bigint[];
    v_moved bigint[];
begin
    if v_beating = '{}' then
        return '{}';
    end if;
    v_silent := array(
        select b.action_id
        from _pgwhen.heartbeat as b
        where b.action_id = any(v_beating)
        for no key update skip locked
    );
    v_moved := array(
        select a.id
        from pgwhen.scheduled_action as a
        inner join _pgwhen.heartbeat as b on b.action_id = a.id and b.token = a.claim_token
        where a.id = any(v_silent) and b.beat_at + a.heartbeat_timeout >= alive.now
    );
    update pgwhen.scheduled_action as a
    set deadline = least(a.attempt_ends, b.beat_at + a.heartbeat_timeout)
    from _pgwhen.heartbeat as b
    where a.id = any(v_moved) and b.action_id = a.id;
    return v_moved || array(select unnest(v_beating) except select unnest(v_silent));
end;
$$;

create or replace function _pgwhen.timed_out(ids bigint[], now timestamptz)
returns _pgwhen.failure[]
language plpgsql
volatile
as $$
begin
    return array(
        select row(a.id, a.claim_token, jsonb_build_object('type', w.type, 'message', case w.type
            when 'Timeout:Heartbeat' then format(
                'no heartbeat of attempt %s by %s within %s',
                a.retry_count + 1, a.worker, a.heartbeat_timeout
            )
            else format('attempt %s by %s passed its deadline', a.retry_count + 1, a.worker)
                || case when w.type = 'Timeout:ScheduleToClose'
                    then coalesce('; last error: ' || a.error_message, '') else '' end
        end))::_pgwhen.failure
        from pgwhen.scheduled_action as a
        cross join lateral (
            select case
                when a.close_by < timed_out.now then 'Timeout:ScheduleToClose'
                when a.attempt_ends >= timed_out.now then 'Timeout:Heartbeat'
                else 'Timeout:StartToClose'
            end as type
            offset 0
        ) as w
        where a.id = any(timed_out.ids)
    );
end;
$$;

-- What cannot be taken back (a trigger of the application raises, say) gives way to the others.
create or replace function _pgwhen.recover_later(action_id bigint, why text)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    update pgwhen.scheduled_action as a
    set
        deadline = case when a.deadline is not null then v_now + interval '1 minute' end,
        close_by = greatest(
            a.close_by, case when a.close_by is not null then v_now + interval '1 minute' end
        ),
        error_message = 'cannot be recovered: ' || recover_later.why,
        updated_at = v_now
    where a.id = recover_later.action_id;
end;
$$;
