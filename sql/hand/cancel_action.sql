create or replace function pgwhen.cancel_action(action_id bigint, reason text default null)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set "pgwhen.by_engine" = on
as $$
declare
    v_action pgwhen.scheduled_action;
    v_reason constant text := _pgwhen.by_whom('cancelled', cancel_action.reason);
begin
    perform _pgwhen.require_read_committed('cancel_action');
    v_action := _pgwhen.action_by_hand(action_id);
    if v_action.status not in ('pending', 'processing') then
        perform _pgwhen.refuse_by_state(v_action, 'cancelled');
    end if;

    update pgwhen.scheduled_action as a
    set cancel_reason = v_reason, updated_at = _pgwhen.clock()
    where a.id = v_action.id;

    if v_action.status = 'processing' then
        raise notice 'action % %: that attempt is not interrupted, and may still succeed',
            v_action.id, _pgwhen.state_words(v_action)
            using hint = 'It is told with its next heartbeat. If it fails, or is given back, the '
                'action is not tried again.';
    else
        perform _pgwhen.cancel_as_asked(array[v_action.id]);
    end if;
    return v_action.id;
end;
$$;

comment on function pgwhen.cancel_action(bigint, text) is
$doc$Cancel an action; returns its id.

A pending one is cancelled at once: it ends as cancelled, with who and why in its row and in
trigger_log, and if it was never tried its frequency slot is given back. One that a worker is
running is not interrupted, for what it does may have left already; a notice says who runs it and
until when. The answer to its next heartbeat tells the worker, which may give way: then it is
cancelled. It is done if the attempt succeeds, failed if it fails, and not tried again; cancelled if
the worker gives it back. The scheduled_action row has the request as cancel_reason.

Raises PW601 where there is no such action, PW602 where it has ended, PW202 outside READ COMMITTED.

  select pgwhen.cancel_action(7, 'sent by phone');
  select pgwhen.cancel_action(a.id, 'withdrawn')
  from (select id from pgwhen.scheduled_action where trigger_rule_id = 3 and status = 'pending'
      order by id for no key update skip locked) as a;
$doc$;

-- Those of the actions whose cancellation was asked for and that nobody runs. Whatever puts a
-- claimed action back to pending calls this with it.
create or replace function _pgwhen.cancel_as_asked(action_ids bigint[])
returns void
language plpgsql
volatile
as $$
begin
    perform _pgwhen.settle(array(
        select _pgwhen.ending_of_action(
            a.id, null, 'cancelled',
            concat_ws(
                '; last error: ',
                a.cancel_reason, case when _pgwhen.was_tried(a) then a.error_message end
            ),
            null, not _pgwhen.was_tried(a)
        )
        from pgwhen.scheduled_action as a
        where
            a.id = any(cancel_as_asked.action_ids)
            and a.status = 'pending'
            and a.cancel_reason is not null
        order by a.id
        for no key update
    ));
end;
$$;
