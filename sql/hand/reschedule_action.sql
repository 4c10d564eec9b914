create or replace function pgwhen.reschedule_action(action_id bigint, execute_at timestamptz)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform _pgwhen.require_read_committed('reschedule_action');
    perform _pgwhen.check_execute_at(execute_at);
    perform _pgwhen.put_at(action_id, execute_at, 'rescheduled');
    return action_id;
end;
$$;

comment on function pgwhen.reschedule_action(bigint, timestamptz) is
$doc$Make a pending action due at execute_at; returns its id.

A time that has passed means now. Nothing else about it changes: not its key, not its attempts. Of
an action that waits for a click it is the wait that ends then. What may have been sent in a batch
takes along what is pending of it and in nobody's hands: they can only go together. Updating
execute_at of the pending row does the same, but for that: the batch then goes when the last of it
is due.

Raises PW601 where there is no such action, PW602 where it is not pending, PW603 for a time that is
null, infinite or outside of the years 1 to 9999, PW202 outside READ COMMITTED.

  select pgwhen.reschedule_action(7, now() + interval '2 hours');
$doc$;

-- Of an action that waits for a click, execute_at is the end of the wait; to run it now ends it.
-- What stays in a batch takes the batch along.
create or replace function _pgwhen.put_at(
    action_id bigint,
    execute_at timestamptz,
    verb text,
    ends_wait boolean default false
)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
    v_action pgwhen.scheduled_action;
    v_ids bigint[];
begin
    v_action := _pgwhen.action_by_hand(put_at.action_id);
    if v_action.status <> 'pending'
        or put_at.ends_wait and v_action.waiting and v_action.wait ? 'after'
    then
        perform _pgwhen.refuse_by_state(v_action, put_at.verb);
    end if;
    v_ids := _pgwhen.with_its_batch(v_action);

    update pgwhen.scheduled_action as a
    set
        execute_at = greatest(put_at.execute_at, v_now),
        expires_at = case when w.waits then greatest(put_at.execute_at, v_now) end,
        waiting = w.waits,
        startable_at = case when not w.waits then (w.term).startable_at end,
        deadline = case when not w.waits then (w.term).start_by end,
        close_by = case when not w.waits then (w.term).close_by end,
        updated_at = v_now
    from (
        select
            m.id,
            m.waiting and not put_at.ends_wait as waits,
            _pgwhen.term_of(m, greatest(put_at.execute_at, v_now)) as term
        from pgwhen.scheduled_action as m
        where m.id = any(v_ids)
    ) as w
    where a.id = any(v_ids) and a.id = w.id;

    perform _pgwhen.ring_for(put_at.execute_at, v_now);
    perform _pgwhen.warn_if_paused(v_action);
end;
$$;

-- A listener looks again within a second by itself.
create or replace function _pgwhen.ring_for(execute_at timestamptz, now timestamptz)
returns void
language plpgsql
volatile
as $$
begin
    if ring_for.execute_at <= ring_for.now + interval '1 second' then
        perform _pgwhen.ring('pgwhen_due');
    end if;
end;
$$;
