-- _pgwhen.do_now: one call of a built-in batch function for all firings of its type.
create or replace function _pgwhen.do_now(action_type text, firings _pgwhen.firing[])
returns _pgwhen.ending[]
language plpgsql
volatile
as $$
declare
    v_results jsonb[];
begin
    v_results := _pgwhen.call_builtin(
        do_now.action_type,
        array(select f.line_oa_id from unnest(do_now.firings) as f),
        array(select f.user_id from unnest(do_now.firings) as f),
        array(select f.action_config from unnest(do_now.firings) as f),
        case when _pgwhen.writes_events(do_now.action_type)
            then _pgwhen.cause_of(do_now.firings) end
    );

    return array(
        select _pgwhen.ending_of(
            r.firing,
            case when r.result ? 'error' then 'failed' else 'success' end,
            r.result ->> 'error',
            (r.result ->> 'audienceId')::bigint
        )
        from (
            select do_now.firings[i.n] as firing, v_results[i.n] as result
            from generate_subscripts(v_results, 1) as i (n)
        ) as r
    );
end;
$$;

-- Who caused the events of a batch of actions, one of each user: the event's chain and the rule.
create or replace function _pgwhen.cause_of(firings _pgwhen.firing[])
returns jsonb
language sql
stable
as $$
select pg_catalog.jsonb_build_object(
    'users',
    pg_catalog.jsonb_object_agg(
        _pgwhen.who(f.line_oa_id, f.user_id),
        pg_catalog.jsonb_build_object('chain', f.chain || f.trigger_rule_id, 'at', f.at)
    )
)
from unnest(cause_of.firings) as f;
$$;
