-- What the rule left of an event: the gate at which the log says that it stopped, 'fired', or null.
create or replace function _pgwhen.trace_of(rule_id bigint, event _pgwhen.outbox)
returns text
language sql
stable
as $$
select coalesce(
    (
        select case
            when l.status = 'failed' and l.error_message like 'delay.until:%' then 'delay'
            when l.status <> 'suppressed' then 'fired'
            when l.error_message = 'condition false' then 'condition'
            when l.error_message like 'loop:%' then 'loop'
            when l.error_message like 'pending:%' then 'whenPending'
            else 'frequency'
        end
        from pgwhen.trigger_log as l
        where
            l.user_id = (trace_of.event).user_id
            and l.trigger_rule_id = trace_of.rule_id
            and l.event_id = (trace_of.event).id
        limit 1
    ),
    (
        select 'fired'
        from _pgwhen.live_actions(trace_of.rule_id, trace_of.event) as a
        where a.event -> 'id' = pg_catalog.to_jsonb((trace_of.event).id)
        limit 1
    )
);
$$;

-- What waits or runs for this rule and user. One by one, as each status has an index of its own.
create or replace function _pgwhen.live_actions(rule_id bigint, event _pgwhen.outbox)
returns setof pgwhen.scheduled_action
language sql
stable
as $$
select a.*
from pgwhen.scheduled_action as a
where
    a.status = 'pending'
    and a.user_id = (live_actions.event).user_id
    and a.line_oa_id = (live_actions.event).line_oa_id
    and a.trigger_rule_id = live_actions.rule_id
union all
select a.*
from pgwhen.scheduled_action as a
where
    a.status = 'processing'
    and a.user_id = (live_actions.event).user_id
    and a.line_oa_id = (live_actions.event).line_oa_id
    and a.trigger_rule_id = live_actions.rule_id;
$$;
