-- _pgwhen.run_builtin_actions: built-in functions run as the owner, so only for what own_claims()
-- says.
create or replace function _pgwhen.run_builtin_actions(
    worker text,
    action_type text,
    actions pgwhen.claimed_action[]
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_own constant pgwhen.claimed_action[] := array(
        select a
        from unnest(_pgwhen.own_claims(run_builtin_actions.actions)) as a
        where a.action_type = run_builtin_actions.action_type
    );
    v_results jsonb[];
begin
    if v_own = '{}' then
        return;
    end if;

    v_results := _pgwhen.call_builtin(
        run_builtin_actions.action_type,
        array(select a.line_oa_id from unnest(v_own) as a),
        array(select a.user_id from unnest(v_own) as a),
        array(select a.action_config from unnest(v_own) as a),
        case when _pgwhen.writes_events(run_builtin_actions.action_type)
            then _pgwhen.cause_of_actions(v_own) end
    );

    perform _pgwhen.settle(array(
        select _pgwhen.ending_of_action(
            r.id, r.token,
            case when r.result ? 'error' then 'failed' else 'success' end,
            r.result ->> 'error', r.result, r.result ? 'error',
            (r.result ->> 'audienceId')::bigint
        )
        from (
            select (v_own[i.n]).id as id, (v_own[i.n]).token as token, v_results[i.n] as result
            from generate_subscripts(v_results, 1) as i (n)
        ) as r
    ));
end;
$$;
