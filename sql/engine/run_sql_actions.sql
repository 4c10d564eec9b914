-- _pgwhen.run_sql_actions: call the SQL functions of claimed actions and settle them, in one
-- transaction: exactly once by construction. A claim that was committed before may have been taken
-- back since, so only what own_claims() has locked is done. SECURITY INVOKER: a user's function
-- runs as whoever called the page, never as the owner of pgwhen.

create or replace function _pgwhen.run_sql_actions(worker text, actions pgwhen.claimed_action[])
returns void
language plpgsql
volatile
as $$
declare
    v_type record;
    v_some pgwhen.claimed_action[];
begin
    for v_type in
        select t.*
        from _pgwhen.sql_types() as t
        where t.name in (select a.action_type from unnest(actions) as a)
        order by t.name
    loop
        v_some := array(select a from unnest(actions) as a where a.action_type = v_type.name);
        if v_type.builtin then
            perform _pgwhen.run_builtin_actions(worker, v_type.name, v_some);
            continue;
        end if;

        v_some := _pgwhen.own_claims(v_some);
        continue when v_some = '{}';
        perform pgwhen.complete_actions(
            worker,
            array(select a.id from unnest(v_some) as a),
            array(select a.token from unnest(v_some) as a),
            case when v_type.batch
                then _pgwhen.call_batch(v_type.fn_schema, v_type.fn_name, v_some)
                else _pgwhen.call_each(v_type.fn_schema, v_type.fn_name, v_some) end
        );
    end loop;
end;
$$;

-- Those of the actions that are really this claim's, as they stand in their rows and not as they
-- were handed in, and locked, so that nobody takes them back before this transaction ends.
create or replace function _pgwhen.own_claims(actions pgwhen.claimed_action[])
returns pgwhen.claimed_action[]
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids constant bigint[] := array(select i.id from unnest(own_claims.actions) as i);
begin
    perform _pgwhen.lock_actions(v_ids);
    return array(
        select _pgwhen.as_claimed(a)
        from pgwhen.scheduled_action as a
        inner join unnest(own_claims.actions) as i
            on i.id = a.id and i.token = a.claim_token
        where a.id = any(v_ids) and a.status = 'processing'
        order by a.id
    );
end;
$$;

create or replace function _pgwhen.sql_types()
returns setof _pgwhen.action_type
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select t.* from _pgwhen.action_type as t where t.kind = 'sql';
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

-- The built-in functions run as the owner, so only for what own_claims() says.
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

-- Due SQL actions that are already claimed: in one block, halved where it raises, down to the one
-- that did. That one has failed an attempt, unless it only could not have a lock: then it is put
-- off.
create or replace function _pgwhen.run_claimed(worker text, actions pgwhen.claimed_action[])
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_todo pgwhen.claimed_action[] := actions;
    v_lock_timeout constant text := current_setting('lock_timeout');
    v_size integer := cardinality(actions);
    v_why text;
begin
    while cardinality(v_todo) > 0 loop
        begin
            perform set_config('lock_timeout', _pgwhen.patience(v_size), true);
            perform _pgwhen.run_sql_actions(worker, v_todo[:v_size]);
            set constraints all immediate;
        exception
            when others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                get stacked diagnostics v_why = message_text;
                if sqlstate in ('55P03', '40P01', '40001') then
                    perform _pgwhen.put_off(v_todo[1]);
                else
                    perform pgwhen.fail_actions(
                        worker, array[(v_todo[1]).id], array[(v_todo[1]).token],
                        array[jsonb_build_object('type', sqlstate, 'message', v_why)]
                    );
                end if;
        end;
        v_todo := v_todo[v_size + 1:];
        v_size := 2 * v_size;
    end loop;
    perform set_config('lock_timeout', v_lock_timeout, true);
    return cardinality(actions);
end;
$$;

create or replace function _pgwhen.put_off(action pgwhen.claimed_action)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgwhen.scheduled_action as a
    set
        status = 'pending',
        execute_at = _pgwhen.clock() + interval '1 second',
        error_message = 'put off: the rows it needs are locked by somebody else',
        claim_token = null,
        deadline = null,
        updated_at = _pgwhen.clock()
    where
        a.id = (put_off.action).id
        and a.status = 'processing'
        and a.claim_token = (put_off.action).token;
end;
$$;
