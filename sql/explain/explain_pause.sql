-- What holds the rule's actions now: where the question is about an event, only while what the
-- event made is still to be done.
create or replace function _pgwhen.explain_pause(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'pause',
    'stop',
    pg_catalog.format(
        'held since %s by %s: %s', _pgwhen.stamp(p.paused_at), p.paused_by, p.reason
    ),
    pg_catalog.jsonb_build_object(
        'actionType', p.action_type, 'lineOaId', p.line_oa_id, 'rule', p.trigger_rule_id
    )
from _pgwhen.pause as p
where
    _pgwhen.pause_covers(
        p, (explain_pause.rule).action_type, (explain_pause.event).line_oa_id,
        (explain_pause.rule).id
    )
    and (
        explain_pause.event_id is null
        or exists (
            select
            from _pgwhen.actions_to_explain(
                explain_pause.rule, explain_pause.event, explain_pause.event_id
            ) as a
            where a.status = 'pending'
        )
    )
order by p.id;
$$;
