-- A rule that could not fire for this event as it stands now may have been able to when the event
-- was processed, if it was changed since. It was, if it left a trace; it was not, if it would have
-- fired and left none; else nobody knows, and the gates below say why it did nothing either way.
create or replace function _pgwhen.explain_rule(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    processed_at timestamptz,
    trace text,
    out gate text,
    out verdict text,
    out reason text,
    out detail jsonb
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    gate := 'rule';
    detail := jsonb_build_object('name', rule.name, 'updated', rule.updated_date);
    reason := case
        when rule.deleted_date is not null then 'deleted at ' || _pgwhen.stamp(rule.deleted_date)
        when rule.parked_reason is not null then 'parked: ' || rule.parked_reason
        when not rule.enabled then 'disabled'
        when rule.line_oa_id <> event.line_oa_id
            then format('belongs to account %s, not %s', rule.line_oa_id, event.line_oa_id)
        when rule.enabled_date > event.created_at
            then 'enabled only at ' || _pgwhen.stamp(rule.enabled_date)
                || ', after the event; rules look forward'
    end;
    if reason is null then
        verdict := 'pass';
        reason := 'live since ' || _pgwhen.stamp(rule.enabled_date);
    elsif rule.updated_date > explain_rule.processed_at and (
        explain_rule.trace is not null
        or rule.line_oa_id = event.line_oa_id and _pgwhen.verdict_on(rule, event) <> 'fire'
    ) then
        verdict := 'note';
        reason := reason || '; changed at ' || _pgwhen.stamp(rule.updated_date)
            || ', after this event was processed';
    else
        verdict := 'stop';
    end if;
end;
$$;

-- The judge's verdict; of a rule that cannot fire, and so has no compiled form, what it would be.
create or replace function _pgwhen.verdict_on(rule pgwhen.trigger_rule, event _pgwhen.outbox)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_doc constant jsonb := _pgwhen.document(
        event.type, event.key, event.old, event.new, event.data, event.at, event.facts
    );
    v_verdict text;
begin
    select j.verdict into v_verdict from _pgwhen.judge(array[event], rule.id) as j;
    return case
        when v_verdict is not null then v_verdict
        when not _pgwhen.asks_for(rule, event) then 'source_false'
        when not _pgwhen.holds_for(
            _pgwhen.source_predicate(rule.source_type, rule.source_config), v_doc, event
        ) then 'source_false'
        when _pgwhen.is_loop(event.chain, rule.id) then 'loop'
        when _pgwhen.holds_for(rule.source_config -> 'condition', v_doc, event) then 'fire'
        else 'condition_false'
    end;
end;
$$;

create or replace function _pgwhen.asks_for(rule pgwhen.trigger_rule, event _pgwhen.outbox)
returns boolean
language sql
stable
as $$
select
    (asks_for.event).type = (asks_for.rule).source_type
    and _pgwhen.source_key((asks_for.rule).source_type, (asks_for.rule).source_config)
    = any((asks_for.event).keys);
$$;

create or replace function _pgwhen.explain_event(
    event _pgwhen.outbox,
    kept _pgwhen.processed_event,
    event_id bigint,
    out gate text,
    out verdict text,
    out reason text,
    out detail jsonb
)
language sql
stable
as $$
select
    'event',
    case when (explain_event.kept).parked is null then 'note' else 'stop' end,
    case
        when explain_event.event_id is null then 'as if it happened now'
        when (explain_event.kept).processed_at is null then 'waits in the outbox'
        when (explain_event.kept).parked is not null then 'parked: ' || (explain_event.kept).parked
        else 'processed at ' || _pgwhen.stamp((explain_event.kept).processed_at)
    end,
    _pgwhen.document(
        (explain_event.event).type, (explain_event.event).key, (explain_event.event).old,
        (explain_event.event).new, (explain_event.event).data, (explain_event.event).at,
        (explain_event.event).facts
    );
$$;
