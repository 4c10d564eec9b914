create or replace view pgwhen.waiting as
select
    a.id, r.name as rule, a.line_oa_id, a.user_id, a.action_type, a.action_config,
    coalesce(a.wait -> 'tracking', '{}') as click, a.wait ? 'after' as sent, a.counts_from,
    a.expires_at, a.wait -> 'onClick' as on_click, a.wait -> 'onExpire' as on_expire
from pgwhen.scheduled_action as a
left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
where a.status = 'pending' and a.waiting;

comment on view pgwhen.waiting is
$$Actions that wait for a click: of whom, for which click ({} is any), and until when. Where sent
is true the action is done, and the wait is for what follows.$$;
