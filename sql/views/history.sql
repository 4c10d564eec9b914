create or replace view pgwhen.rule_history as
select
    l.trigger_rule_id as rule_id, r.name as rule, l.created_date, l.line_oa_id, l.user_id,
    l.trigger_on, l.event_at, l.action_type, l.status, l.error_message, l.event_id, l.action_id
from pgwhen.trigger_log as l
left join pgwhen.trigger_rule as r on r.id = l.trigger_rule_id;

comment on view pgwhen.rule_history is
$$What a rule did, a row for each outcome. Filter by rule_id.

  select * from pgwhen.rule_history where rule_id = 7 order by created_date desc limit 20;
$$;

create or replace view pgwhen.user_history as
select
    l.line_oa_id, l.user_id, l.created_date, r.name as rule, l.trigger_on, l.event_at,
    l.action_type, l.status, l.error_message, l.event_id, l.action_id
from pgwhen.trigger_log as l
left join pgwhen.trigger_rule as r on r.id = l.trigger_rule_id;

comment on view pgwhen.user_history is
$$What happened to a user, a row for each outcome. Filter by user_id.

  select * from pgwhen.user_history where user_id = 'U1' order by created_date desc;
$$;

create or replace view pgwhen.event as
select
    o.id, o.uuid, o.line_oa_id, o.user_id, o.type, o.key, o.old, o.new, o.data, o.facts, o.at,
    o.created_at, null::timestamptz as processed_at, null::text as parked, o.chain
from _pgwhen.outbox as o
union all
select
    p.id, p.uuid, p.line_oa_id, p.user_id, p.type, p.key, p.old, p.new, p.data, p.facts, p.at,
    p.created_at, p.processed_at, p.parked, p.chain
from _pgwhen.processed_event as p;

comment on view pgwhen.event is
'Events: those that wait (processed_at is null), and those kept for the setting eventRetention.';

create or replace view pgwhen.rule_counts as
select
    r.id as rule_id, r.name as rule, r.line_oa_id,
    coalesce((
        select sum(f.n) from _pgwhen.false_count as f where f.trigger_rule_id = r.id
    ), 0) as condition_false
from pgwhen.trigger_rule as r;

comment on view pgwhen.rule_counts is
$$How often each rule's condition was false: counted, and not logged unless the rule says
"log": "all".$$;
