create or replace function pgwhen.retry_action(action_id bigint, reason text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set "pgwhen.by_engine" = on
as $$
declare
    v_action pgwhen.scheduled_action;
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    perform _pgwhen.require_read_committed('retry_action');
    v_action := _pgwhen.action_by_hand(action_id);
    if v_action.status not in ('failed', 'cancelled') then
        perform _pgwhen.refuse_by_state(v_action, 'retried');
    end if;

    update pgwhen.scheduled_action as a
    set
        status = 'pending',
        execute_at = v_now,
        executed_at = case when _pgwhen.was_tried(a) then coalesce(a.executed_at, a.updated_at) end,
        retry_count = 0,
        held_by = null,
        cancel_reason = null,
        retry_state = null,
        result = null,
        keeps_batch = a.batch_id is not null,
        startable_at = t.startable_at,
        deadline = t.start_by,
        close_by = t.close_by,
        error_message = concat_ws(
            '; before: ', _pgwhen.by_whom('retried', retry_action.reason), a.error_message
        ),
        updated_at = v_now
    from _pgwhen.term(_pgwhen.limits_of(v_action), v_now, v_now) as t
    where a.id = v_action.id;
    perform _pgwhen.reserve_again(v_action);
    perform _pgwhen.ring('pgwhen_due');
    return v_action.id;
end;
$$;

comment on function pgwhen.retry_action(bigint, text) is
$doc$Make an action that failed or was cancelled due again, at once; returns its id.

It keeps its idempotency key, so that a receiver which got it already can tell; its attempts are
counted anew, up to its maximumAttempts. error_message notes who retried it, why, and the error before.
A frequency slot that its end had given back is taken again where it is still free. If its rule has
fired for that user since, this is one firing more, which is what you asked for.

What may have been sent in a batch stays in it, and goes out under the batch's key with those others
of it that are pending by then: retry them in one statement, as the view failed_actions shows.

Raises PW601 where there is no such action, PW602 where it is pending, running or done, PW202
outside READ COMMITTED.

  select pgwhen.retry_action(7, 'the gateway is back');
  select pgwhen.retry_action(a.id) from pgwhen.failed_actions as a where a.rule = 'nudge';
$doc$;

-- As if the event had fired its rule now; where somebody holds the slot, it stays theirs.
create or replace function _pgwhen.reserve_again(action pgwhen.scheduled_action)
returns void
language plpgsql
volatile
as $$
declare
    v_rule _pgwhen.rule;
    v_event _pgwhen.outbox;
    v_firing _pgwhen.firing;
begin
    select r.*
    into v_rule
    from _pgwhen.rule as r
    where r.trigger_rule_id = action.trigger_rule_id;
    if not found or action.event is null then
        return;
    end if;

    v_event.uuid := action.event ->> 'uuid';
    v_event.at := action.event ->> 'at';
    v_event.line_oa_id := action.line_oa_id;
    v_event.user_id := action.user_id;
    v_firing := _pgwhen.firing_of(v_event, v_rule);
    v_firing.verdict := 'fire';
    perform _pgwhen.reserve(array[v_firing]);
end;
$$;
