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
    v_turn record;
    v_results jsonb[];
begin
    -- One action of a user at a time where actions write events, so that each event has one cause.
    for v_turn in
        select array_agg(t.action order by t.id) as actions
        from (
            select
                a.id,
                a as action,
                case when _pgwhen.writes_events(a.action_type) then row_number() over (
                    partition by a.line_oa_id, a.user_id order by a.id
                ) end as n
            from unnest(_pgwhen.own_claims(run_builtin_actions.actions)) as a
            where a.action_type = run_builtin_actions.action_type
        ) as t
        group by t.n
        order by t.n
    loop
        v_results := _pgwhen.call_builtin(
            run_builtin_actions.action_type,
            array(select a.line_oa_id from unnest(v_turn.actions) as a),
            array(select a.user_id from unnest(v_turn.actions) as a),
            array(select a.action_config from unnest(v_turn.actions) as a),
            case when _pgwhen.writes_events(run_builtin_actions.action_type)
                then _pgwhen.cause_of_actions(v_turn.actions) end
        );
        perform _pgwhen.settle(array(
            select _pgwhen.ending_of_action(
                (v_turn.actions[i.n]).id, (v_turn.actions[i.n]).token,
                case when v_results[i.n] ? 'error' then 'failed' else 'success' end,
                v_results[i.n] ->> 'error', v_results[i.n], v_results[i.n] ? 'error',
                (v_results[i.n] ->> 'audienceId')::bigint
            )
            from generate_subscripts(v_results, 1) as i (n)
        ));
    end loop;
end;
$$;
