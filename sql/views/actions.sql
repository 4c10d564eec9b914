create or replace view pgwhen.due as
select
    a.id, r.name as rule, a.line_oa_id, a.user_id, a.action_type, a.action_config, a.execute_at,
    a.retry_count, a.error_message
from pgwhen.scheduled_action as a
left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
where a.status = 'pending' and not a.waiting and a.execute_at <= (select _pgwhen.clock());

comment on view pgwhen.due is
'Actions whose time has come and that nobody has claimed yet.';

create or replace view pgwhen.failed_actions as
select
    a.id, r.name as rule, a.line_oa_id, a.user_id, a.action_type, a.action_config,
    a.retry_count as attempts, a.error_message, a.executed_at
from pgwhen.scheduled_action as a
left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
where a.status = 'failed';

comment on view pgwhen.failed_actions is
'Actions that ended as failed, with the last error, for the setting actionRetention.';
