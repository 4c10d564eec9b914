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
    perform _pgwhen.lock_actions(
        v_ids, array(select i.token from unnest(own_claims.actions) as i)
    );
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
