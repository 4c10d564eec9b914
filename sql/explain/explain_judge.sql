-- Source, loop and condition, by the judge; then each clause of both predicates.
create or replace function _pgwhen.explain_judge(
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
    v_doc constant jsonb := _pgwhen.document(
        event.type, event.key, event.old, event.new, event.data, event.at, event.facts
    );
    v_key constant text := _pgwhen.source_key(rule.source_type, rule.source_config);
    v_asked constant boolean := _pgwhen.asks_for(rule, event);
    v_condition constant jsonb := coalesce(rule.source_config -> 'condition', '{}');
    v_stop constant text := case when explain_judge.trace is null then 'stop' else 'note' end;
begin
    return query select
        'source',
        case
            when not v_asked then v_stop
            when explain_judge.event_id is null then 'note'
            when _pgwhen.verdict_on(rule, event) = 'source_false' then v_stop
            else 'pass'
        end,
        case
            when v_asked then format('asks for %s, key %s', rule.source_type, v_key)
            else format(
                'asks for %s, key %s; the event is %s, keys %s',
                rule.source_type, v_key, event.type, array_to_string(event.keys, ', ')
            )
        end,
        rule.source_config - 'condition';
    return query select * from _pgwhen.explain_clauses(
        'source', _pgwhen.source_predicate(rule.source_type, rule.source_config), v_doc, event
    ) where explain_judge.event_id is not null;

    if event.chain <> '{}' then
        return query select
            'loop',
            case when _pgwhen.is_loop(event.chain, rule.id) then 'stop' else 'pass' end,
            'caused by rules ' || array_to_string(event.chain, ' > '),
            to_jsonb(event.chain);
    end if;

    if v_condition <> '{}' then
        return query select
            'condition',
            case
                when explain_judge.trace = 'condition' then 'stop'
                when _pgwhen.holds_for(v_condition, v_doc, event) then 'pass'
                else v_stop
            end,
            null,
            v_condition;
        return query select * from _pgwhen.explain_clauses('condition', v_condition, v_doc, event);
    end if;
end;
$$;

create or replace function _pgwhen.holds_for(condition jsonb, doc jsonb, event _pgwhen.outbox)
returns boolean
language sql
stable
as $$
select _pgwhen.holds(
    c.path, c.vars, c.needs, holds_for.doc, (holds_for.event).at,
    _pgwhen.memberships((holds_for.event).line_oa_id, (holds_for.event).user_id, c.needs)
)
from _pgwhen.compile_condition(holds_for.condition) as c;
$$;

create or replace function _pgwhen.explain_clauses(
    gate text,
    condition jsonb,
    doc jsonb,
    event _pgwhen.outbox
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    explain_clauses.gate || ' clause',
    'note',
    case when e.holds then 'true: ' else 'false: ' end || e.clause,
    pg_catalog.jsonb_build_object('field', e.field, 'saw', e.saw)
from _pgwhen.compile_condition(explain_clauses.condition) as c
cross join lateral _pgwhen.explain_condition(
    explain_clauses.condition, explain_clauses.doc, (explain_clauses.event).at,
    _pgwhen.memberships(
        (explain_clauses.event).line_oa_id, (explain_clauses.event).user_id, c.needs
    )
) as e;
$$;
