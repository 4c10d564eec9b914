-- Pending actions in parts, so that each is read from its own index.
create or replace view pgwhen.pending as
with pending as (
    select a.*
    from pgwhen.scheduled_action as a
    where a.status = 'pending' and not a.waiting and a.held_by is null
    union all
    select a.* from pgwhen.scheduled_action as a where a.status = 'pending' and a.waiting
    union all
    select a.*
    from pgwhen.scheduled_action as a
    where a.status = 'pending' and not a.waiting and a.held_by is not null
),

moment as (
    select _pgwhen.clock() as now
)

select
    a.id, r.name as rule, a.line_oa_id, a.user_id, a.action_type, a.action_config, a.execute_at,
    a.expires_at, a.waiting, a.retry_count, a.error_message,
    case
        when a.waiting then 'waits for a click'
        when s.reason is not null then 'paused: ' || s.reason
        when a.execute_at > m.now and a.retry_count > 0 then 'waits for its next try'
        when a.execute_at > m.now then 'waits for its time'
        when not _pgwhen.is_served(a.action_type) then 'due, and nobody serves ' || a.action_type
        else 'due, and next for a worker'
    end as why
from pending as a
cross join moment as m
left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
left join lateral (
    select p.reason
    from _pgwhen.pause as p
    where
        p.id = a.held_by
        or coalesce(p.action_type = a.action_type, true)
        and coalesce(p.line_oa_id = a.line_oa_id, true)
        and (p.trigger_rule_id is null or p.trigger_rule_id = a.trigger_rule_id)
    order by p.id
    limit 1
) as s on true;

comment on view pgwhen.pending is
$$What waits, for whom, until when, and why. A row for each pending action: filter by user_id or
action_type, which indexes serve, or take some with LIMIT.

  select * from pgwhen.pending where user_id = 'U1';
$$;

create or replace view pgwhen.due as
select
    w.id, w.rule, w.line_oa_id, w.user_id, w.action_type, w.action_config, w.execute_at,
    w.retry_count, w.error_message, w.why
from pgwhen.pending as w
where w.execute_at <= (select _pgwhen.clock()) and not w.waiting;

comment on view pgwhen.due is
$$Actions whose time has come and that nobody has claimed yet, and why. Cheap where an action_type
is named, which an index serves; else it looks at all that is pending.

  select * from pgwhen.due where action_type = 'send_message' order by execute_at limit 20;
$$;

create or replace view pgwhen.running as
select
    a.id, r.name as rule, a.line_oa_id, a.user_id, a.action_type, a.action_config, a.worker,
    a.retry_count + 1 as attempt, coalesce(a.attempt_ends, a.deadline) as deadline, h.beat_at,
    h.details as heartbeat_details, a.cancel_reason, a.batch_id
from pgwhen.scheduled_action as a
left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
left join _pgwhen.heartbeat as h on a.has_heartbeat and h.action_id = a.id
where a.status = 'processing';

comment on view pgwhen.running is
$$Actions that a worker is at: which one, in which attempt and until when at the latest, when it
last said that it lives (beat_at; null: not yet, in no attempt) and how far it was
(heartbeat_details, also of earlier attempts), and why somebody has asked it to stop
(cancel_reason). What has one batch_id went out in one call. Cheap: an index has what runs.

  select id, heartbeat_details, beat_at from pgwhen.running where action_type = 'payroll';
$$;

create or replace view pgwhen.failed_actions as
select
    a.id, r.name as rule, a.line_oa_id, a.user_id, a.action_type, a.action_config,
    a.retry_count as attempts, a.retry_state, a.error_message, a.result as details, a.executed_at,
    case
        when a.batch_id is null then format('select pgwhen.retry_action(%s);', a.id)
        else format(
            'select pgwhen.retry_action(f.id) from pgwhen.failed_actions as f '
            'where f.batch_id = %L;', a.batch_id
        )
    end as remedy,
    a.batch_id
from pgwhen.scheduled_action as a
left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
where a.status = 'failed';

comment on view pgwhen.failed_actions is
$$Actions that ended as failed, with the last error and its details, why it was the last one
(retry_state: non_retryable, maximum_attempts_reached, timeout or cancel_requested) and the call
that tries each again, for the setting actionRetention. Looks at all that has ended: some seconds
for 10 million.

  select * from pgwhen.failed_actions where executed_at > now() - interval '1 hour';
$$;
