-- When the action is due. An event that is only supposed has no time in it to wait for.
create or replace function _pgwhen.explain_delay(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint,
    trace text
)
returns table (gate text, verdict text, reason text, detail jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_delay constant jsonb := _pgwhen.compiled_delay(rule.action_config -> 'delay');
    v_until constant jsonb := v_delay -> 'until';
    v_value constant jsonb := _pgwhen.document(
        event.type, event.key, event.old, event.new, event.data, event.at, event.facts
    ) #> (v_until ->> 'path')::text[];
    v_moment constant timestamptz := case
        when v_delay ? 'at' then (v_delay ->> 'at')::timestamptz
        else _pgwhen.until_moment(
            v_until, v_value, _pgwhen.zone(event.line_oa_id, event.user_id), '-infinity'
        )
    end;
begin
    if v_delay is null then
        return;
    end if;
    return query select
        'delay',
        case
            when v_until is null or v_moment is not null then 'pass'
            when explain_delay.event_id is null and v_until ->> 'field' like 'event.%' then 'note'
            when explain_delay.trace is null or explain_delay.trace = 'delay' then 'stop'
            else 'note'
        end,
        case
            when v_moment is not null then 'due at ' || _pgwhen.stamp(v_moment)
            when v_until is not null then _pgwhen.no_moment_reason(v_delay, v_value)
            when v_delay ? 'wait' then _pgwhen.wait_reason(v_delay -> 'wait')
            else format('due %s seconds after it fires', v_delay ->> 'seconds')
        end,
        rule.action_config -> 'delay';
end;
$$;

create or replace function _pgwhen.wait_reason(wait jsonb)
returns text
language sql
stable
as $$
select format(
    case when wait_reason.wait ? 'after' then 'executed at once, then waits %s seconds for %s'
        else 'waits %s seconds for %s, then executed' end,
    wait_reason.wait ->> 'expires', _pgwhen.click_asked_for(wait_reason.wait)
)
|| coalesce('; clicked: ' || (wait_reason.wait #>> '{onClick,actionType}'), '')
|| coalesce('; not clicked: ' || (wait_reason.wait #>> '{onExpire,actionType}'), '');
$$;

create or replace function _pgwhen.click_asked_for(wait jsonb)
returns text
language sql
immutable
as $$
select coalesce('a click of ' || (click_asked_for.wait ->> 'tracking'), 'any tracked click');
$$;

-- Whether an action that waits was in the way, or would be.
create or replace function _pgwhen.explain_when_pending(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    trace text
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'whenPending',
    case when p.choice = 'skip' then 'stop' else 'note' end,
    p.reason,
    pg_catalog.jsonb_build_object('whenPending', p.choice)
from (
    select 'skip' as choice, l.error_message as reason
    from pgwhen.trigger_log as l
    where
        explain_when_pending.trace = 'whenPending'
        and l.user_id = (explain_when_pending.event).user_id
        and l.trigger_rule_id = (explain_when_pending.rule).id
        and l.event_id = (explain_when_pending.event).id
    union all
    select
        coalesce((explain_when_pending.rule).action_config #>> '{delay,whenPending}', 'skip'),
        _pgwhen.pending_reason(a)
    from _pgwhen.pending_timers(
        (explain_when_pending.event).line_oa_id, (explain_when_pending.event).user_id,
        (explain_when_pending.rule).id
    ) as a
    where
        explain_when_pending.trace is null
        and (explain_when_pending.rule).action_config ? 'delay'
) as p
limit 1;
$$;
