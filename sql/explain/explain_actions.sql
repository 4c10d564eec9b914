-- What waits or runs for this user and rule.
create or replace function _pgwhen.explain_pending(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'pending',
    'note',
    case
        when a.waiting then pg_catalog.format(
            'waits for %s until %s', _pgwhen.click_asked_for(a.wait), _pgwhen.stamp(a.expires_at)
        )
        else a.status || ', due at ' || _pgwhen.stamp(a.execute_at)
    end
    || coalesce(', ' || a.outcome, '')
    || case when a.error_message is null then '' else '; last error: ' || a.error_message end,
    pg_catalog.jsonb_build_object(
        'actionId', a.id, 'attempts', a.retry_count, 'eventId', a.event -> 'id'
    )
    || case when a.batch_id is null then '{}'
        else pg_catalog.jsonb_build_object('batchId', a.batch_id) end
from _pgwhen.actions_to_explain(
    explain_pending.rule, explain_pending.event, explain_pending.event_id
) as a;
$$;

create or replace function _pgwhen.actions_to_explain(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns setof pgwhen.scheduled_action
language sql
stable
as $$
select a.*
from _pgwhen.live_actions(
    (actions_to_explain.rule).id, actions_to_explain.event
) as a
where
    actions_to_explain.event_id is null
    or a.event -> 'id' = pg_catalog.to_jsonb(actions_to_explain.event_id)
order by a.execute_at, a.id
limit 20;
$$;

-- The gates of what waits, as the claim asks them, as if it were due now. Only where the question
-- is about the event that made it are they the answer.
create or replace function _pgwhen.explain_due(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    d.gate,
    case
        when d.reason is null then 'pass'
        when explain_due.event_id is null then 'note'
        else 'stop'
    end,
    d.reason,
    pg_catalog.jsonb_build_object('actionId', g.action_id)
from _pgwhen.gates(
    array(
        select a.id
        from _pgwhen.actions_to_explain(
            explain_due.rule, explain_due.event, explain_due.event_id
        ) as a
        where a.status = 'pending'
    ),
    _pgwhen.clock()
) as g
cross join lateral (
    values
    ('still wanted', g.unwanted), ('user', g.unreachable), ('condition again', g.untrue)
) as d (gate, reason)
where d.gate <> 'condition again' or g.asks_again
order by g.action_id;
$$;

-- What the log says.
create or replace function _pgwhen.explain_log(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'log',
    'note',
    l.status || ' at ' || _pgwhen.stamp(l.created_date)
    || case when l.error_message is null then '' else ': ' || l.error_message end,
    pg_catalog.jsonb_build_object(
        'logId', l.id, 'eventId', l.event_id, 'eventAt', l.event_at, 'actionId', l.action_id
    )
from pgwhen.trigger_log as l
where
    l.user_id = (explain_log.event).user_id
    and l.line_oa_id = (explain_log.event).line_oa_id
    and l.trigger_rule_id = (explain_log.rule).id
    and (explain_log.event_id is null or l.event_id = explain_log.event_id)
order by l.created_date desc, l.id desc
limit 20;
$$;
