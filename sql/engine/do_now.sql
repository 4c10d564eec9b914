-- _pgwhen.do_now: one call of a built-in batch function for all firings of its type.
create or replace function _pgwhen.do_now(action_type text, firings _pgwhen.firing[])
returns _pgwhen.ending[]
language plpgsql
volatile
as $$
declare
    v_accounts text[];
    v_users text[];
    v_configs jsonb[];
    v_results jsonb[];
begin
    select array_agg(f.line_oa_id), array_agg(f.user_id), array_agg(f.action_config)
    into v_accounts, v_users, v_configs
    from unnest(do_now.firings) as f;

    v_results := _pgwhen.call_builtin(
        do_now.action_type, v_accounts, v_users, v_configs,
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
            -- side by side: to find one element by its number, all before it are walked
            select unnest(do_now.firings) as firing, unnest(v_results) as result
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
