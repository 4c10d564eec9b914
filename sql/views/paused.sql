create or replace view pgwhen.paused as
select
    p.action_type, p.line_oa_id, p.trigger_rule_id as rule_id, r.name as rule, p.reason,
    p.paused_by, p.paused_at,
    format(
        'select pgwhen.resume(%s);',
        concat_ws(
            ', ', 'action_type => ' || quote_literal(p.action_type),
            'line_oa_id => ' || quote_literal(p.line_oa_id), 'rule => ' || p.trigger_rule_id
        )
    ) as remedy
from _pgwhen.pause as p
left join pgwhen.trigger_rule as r on r.id = p.trigger_rule_id;

comment on view pgwhen.paused is
'The pauses in force: what (null: all), why, by whom, since when, and the call that ends each.';
