-- _pgwhen.carry_out: from verdicts to actions and log rows. What nothing asks for is not even
-- looked at: most calls of a listener that is not busy have one event, and each statement is a part
-- of its latency.
create or replace function _pgwhen.carry_out(
    judgement _pgwhen.judgement,
    worker text,
    action_types text[],
    room integer,
    queue boolean
)
returns _pgwhen.fired
language plpgsql
volatile
as $$
declare
    v_firings _pgwhen.firing[] := (carry_out.judgement).firings;
begin
    if (carry_out.judgement).limited then
        v_firings := _pgwhen.reserve(v_firings);
    end if;
    if (carry_out.judgement).limited or (carry_out.judgement).silent then
        perform _pgwhen.settle(array(
            select _pgwhen.ending_of(
                f, case f.verdict when 'no_moment' then 'failed' else 'suppressed' end,
                _pgwhen.why_not(f)
            )
            from unnest(v_firings) as f
            where f.verdict <> 'fire'
        ));
        v_firings := array(select f from unnest(v_firings) as f where f.verdict = 'fire');
    end if;
    return _pgwhen.dispatch(
        v_firings, carry_out.worker, carry_out.action_types, carry_out.room, carry_out.queue
    );
end;
$$;

create or replace function _pgwhen.why_not(firing _pgwhen.firing)
returns text
language sql
stable
as $$
select case (why_not.firing).verdict
    when 'loop' then 'loop: the rule is in its own chain, or the chain is too long'
    when 'condition_false' then 'condition false'
    when 'no_moment' then _pgwhen.no_moment_reason(
        (why_not.firing).delay, (why_not.firing).until_value
    )
    when 'suppressed' then
        _pgwhen.suppression_reason(
            (why_not.firing).trigger_rule_id, (why_not.firing).frequency,
            (why_not.firing).period, (why_not.firing).calendar,
            (why_not.firing).line_oa_id, (why_not.firing).user_id
        )
end;
$$;
