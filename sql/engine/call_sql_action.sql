-- Calling a user's SQL function: what it is told, and who is the cause of what it writes.

-- What a SQL action is told beside its config.
create or replace function _pgwhen.action_context(
    action_id bigint,
    attempt integer,
    rule_id bigint,
    event jsonb,
    idempotency_key uuid
)
returns jsonb
language sql
immutable
as $$
select pg_catalog.jsonb_build_object(
    'actionId', action_context.action_id,
    'attempt', action_context.attempt,
    'rule', action_context.rule_id,
    'event', action_context.event,
    'idempotencyKey', action_context.idempotency_key,
    'trackingId', _pgwhen.tracking_id(action_context.idempotency_key)
);
$$;

create or replace function _pgwhen.context_of(action pgwhen.claimed_action)
returns jsonb
language sql
immutable
as $$
select _pgwhen.action_context(
    (context_of.action).id, (context_of.action).attempt, (context_of.action).rule,
    (context_of.action).event, (context_of.action).idempotency_key
);
$$;

-- A user's function for one action: what it changes is caused by the action, which a setting tells
-- the triggers, so that loops are seen.
create or replace function _pgwhen.call_each(
    fn_schema text,
    fn_name text,
    actions pgwhen.claimed_action[]
)
returns jsonb[]
language plpgsql
volatile
set plan_cache_mode = auto
set enable_seqscan = on
set enable_sort = on
as $$
declare
    v_action pgwhen.claimed_action;
    v_result jsonb;
    v_results jsonb[] := '{}';
begin
    foreach v_action in array actions loop
        perform _pgwhen.say('cause', jsonb_build_object('all', _pgwhen.cause_of_action(v_action)));
        execute format('select %I.%I($1, $2, $3, $4)', fn_schema, fn_name)
            into v_result
            using
                v_action.line_oa_id, v_action.user_id, v_action.action_config,
                _pgwhen.context_of(v_action);
        v_results := v_results || array[v_result];
    end loop;
    perform _pgwhen.say('cause', null);
    return v_results;
end;
$$;

create or replace function _pgwhen.call_batch(
    fn_schema text,
    fn_name text,
    actions pgwhen.claimed_action[]
)
returns jsonb[]
language plpgsql
volatile
set plan_cache_mode = auto
set enable_seqscan = on
set enable_sort = on
as $$
declare
    v_results jsonb[];
begin
    perform _pgwhen.say('cause', _pgwhen.cause_of_actions(actions));
    execute format('select %I.%I($1, $2, $3, $4)', fn_schema, fn_name)
        into v_results
        using
            array(select a.line_oa_id from unnest(actions) as a),
            array(select a.user_id from unnest(actions) as a),
            array(select a.action_config from unnest(actions) as a),
            array(select _pgwhen.context_of(a) from unnest(actions) as a);
    perform _pgwhen.say('cause', null);

    if cardinality(v_results) is distinct from cardinality(actions) then
        raise exception '%.% returned % results for % actions',
            fn_schema, fn_name, coalesce(cardinality(v_results), 0), cardinality(actions)
            using errcode = 'PW205',
                hint = 'A batch function returns one jsonb for each action, in their order.';
    end if;
    return v_results;
end;
$$;

create or replace function _pgwhen.cause_of_action(action pgwhen.claimed_action)
returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select jsonb_build_object('chain', to_jsonb(a.chain))
from pgwhen.scheduled_action as a
where a.id = (cause_of_action.action).id;
$$;

create or replace function _pgwhen.cause_of_actions(actions pgwhen.claimed_action[])
returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select jsonb_build_object('users', jsonb_object_agg(u.who, jsonb_build_object('chain', u.chain)))
from (
    select
        _pgwhen.who(a.line_oa_id, a.user_id) as who,
        array_agg(distinct c.rule_id) as chain
    from pgwhen.scheduled_action as a
    cross join lateral unnest(a.chain) as c (rule_id)
    where a.id = any(array(select i.id from unnest(cause_of_actions.actions) as i))
    group by 1
) as u;
$$;
