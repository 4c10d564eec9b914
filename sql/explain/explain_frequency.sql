-- For a processed event, what was decided then; else what the reservation says now.
create or replace function _pgwhen.explain_frequency(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    processed_at timestamptz,
    out gate text,
    out verdict text,
    out reason text,
    out detail jsonb
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_compiled _pgwhen.rule;
    v_held _pgwhen.reservation;
begin
    gate := 'frequency';
    select h.*
    into v_held
    from _pgwhen.reservation as h
    where h.trigger_rule_id = explain_frequency.rule.id and h.user_id = event.user_id;
    detail := jsonb_build_object(
        'frequency', rule.frequency, 'cooldownSeconds', rule.cooldown_seconds,
        'lastFiredAt', v_held.last_at
    );

    if processed_at is not null then
        select l.error_message
        into reason
        from pgwhen.trigger_log as l
        where
            l.user_id = event.user_id
            and l.trigger_rule_id = explain_frequency.rule.id
            and l.event_id = event.id
            and l.status = 'suppressed'
            and l.error_message not like all(array['loop:%', 'pending:%'])
            and l.error_message <> 'condition false';
        verdict := case when reason is null then 'pass' else 'stop' end;
        reason := coalesce(reason, 'did not suppress this event');
        return;
    end if;

    select c.* into v_compiled from _pgwhen.rule as c where c.trigger_rule_id = rule.id;
    verdict := case
        when v_held.last_at > _pgwhen.allowed_before(
            v_compiled.frequency, v_compiled.period, event.at,
            case when v_compiled.calendar is not null
                then _pgwhen.period_start(
                    v_compiled.calendar, event.at, event.line_oa_id, event.user_id
                ) end
        ) then 'stop'
        else 'pass'
    end;
    reason := case verdict
        when 'stop' then _pgwhen.suppression_reason(
            v_compiled.trigger_rule_id, v_compiled.frequency, v_compiled.period,
            v_compiled.calendar, event.line_oa_id, event.user_id
        )
        else 'free'
    end;
end;
$$;
