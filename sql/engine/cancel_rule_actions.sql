-- Rules that were deleted take their pending actions with them. What runs already is not stopped.

create or replace function _pgwhen.cancel_rule_actions(rule_ids bigint[], reason text)
returns void
language plpgsql
volatile
as $$
begin
    if cancel_rule_actions.rule_ids = '{}' then
        return;
    end if;
    perform _pgwhen.settle(array(
        select _pgwhen.ending_of_action(
            a.id, null, 'cancelled', cancel_rule_actions.reason, null, not _pgwhen.was_tried(a)
        )
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = any(cancel_rule_actions.rule_ids) and a.status = 'pending'
        order by a.id
        for no key update
    ));
end;
$$;
