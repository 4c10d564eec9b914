create or replace function pgwhen.schedule_actions(
    action_type text,
    user_ids text[],
    action_configs jsonb[] default null,
    execute_at timestamptz default null,
    delay jsonb default null,
    line_oa_id text default 'default',
    organization_id text default 'default',
    deduplication_keys text[] default null
)
returns setof bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_chunk constant integer := 10000;
    v_delay jsonb;
begin
    perform _pgwhen.check_requests(
        schedule_actions.user_ids, schedule_actions.action_configs,
        schedule_actions.deduplication_keys
    );
    perform _pgwhen.refuse_request(
        _pgwhen.request_faults(
            schedule_actions.action_type, schedule_actions.execute_at, schedule_actions.delay,
            schedule_actions.line_oa_id, schedule_actions.organization_id
        )
        || _pgwhen.request_configs_faults(
            schedule_actions.action_type, schedule_actions.action_configs
        )
    );

    v_delay := _pgwhen.request_delay(schedule_actions.execute_at, schedule_actions.delay);
    for v_n in 1 .. cardinality(schedule_actions.user_ids) by v_chunk loop
        return query
        select s.id
        from unnest(_pgwhen.schedule(
            schedule_actions.action_type,
            schedule_actions.user_ids[v_n:v_n + v_chunk - 1],
            schedule_actions.action_configs[v_n:v_n + v_chunk - 1],
            v_delay, schedule_actions.line_oa_id, schedule_actions.organization_id,
            schedule_actions.deduplication_keys[v_n:v_n + v_chunk - 1]
        )) as s (id);
    end loop;
end;
$$;

comment on function pgwhen.schedule_actions(
    text, text[], jsonb[], timestamptz, jsonb, text, text, text[]
) is
$doc$Schedule an action of one type for each of many users; returns their ids, in the users' order.

As schedule_action, all or nothing. action_configs and deduplication_keys have one element for each
user, or are left out: then the config is {}.

Raises what schedule_action raises, and PW210 where the arrays differ in length.

  select pgwhen.schedule_actions('send_message', '{U1,U2}',
      array['{"text": "Hello"}', '{"text": "Hi"}']::jsonb[], '2026-12-01 09:00+07');
$doc$;

create or replace function _pgwhen.check_requests(
    user_ids text[],
    configs jsonb[],
    keys text[]
)
returns void
language plpgsql
immutable
as $$
begin
    if cardinality(user_ids) is null
        or cardinality(user_ids) <> coalesce(cardinality(configs), cardinality(user_ids))
        or cardinality(user_ids) <> coalesce(cardinality(keys), cardinality(user_ids))
    then
        raise exception 'every action needs its user and its own entry in each array'
            using errcode = 'PW210',
                hint = 'Pass arrays of equal length; leave out those that say nothing.';
    end if;
end;
$$;

-- The faults of the first config that has some; what many have alike is checked once.
create or replace function _pgwhen.request_configs_faults(action_type text, configs jsonb[])
returns _pgwhen.fault[]
language sql
stable
as $$
select coalesce(
    (
        select f.faults
        from (
            select c.config, min(c.n) as n
            from unnest(coalesce(request_configs_faults.configs, array['{}'::jsonb]))
                with ordinality as c (config, n)
            group by c.config
            order by 2
        ) as d
        cross join lateral _pgwhen.request_config_faults(
            request_configs_faults.action_type, d.config, format('action_configs[%s]', d.n)
        ) as f (faults)
        where cardinality(f.faults) > 0
        limit 1
    ),
    '{}'
);
$$;
