-- _pgwhen.dispatch: the one way in which actions come to be. Three ways lead out of it:
--   a built-in SQL action that is due now is done now, and its log row is the record;
--   an action of a type that the caller serves is written as claimed by the caller and handed out
--   (one row version and one round trip less than pending first), up to `room` of them;
--   everything else is a pending row.
-- With `queue`, nothing is done now: whatever would be becomes a pending row.

create or replace function _pgwhen.dispatch(
    firings _pgwhen.firing[],
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
    v_type text;
    v_now_types text[];
begin
    if cardinality(dispatch.firings) = 0 then
        return row('[]'::jsonb, '{}'::pgwhen.claimed_action[])::_pgwhen.fired;
    end if;

    v_now_types := array(
        select t.name
        from _pgwhen.action_type as t
        where t.builtin and t.kind = 'sql' and not dispatch.queue
    );
    foreach v_type in array array(
        select distinct f.action_type
        from unnest(dispatch.firings) as f
        where f.delay is null and f.action_type = any(v_now_types)
        order by 1
    )
    loop
        perform _pgwhen.settle(_pgwhen.do_now(v_type, array(
            select f
            from unnest(dispatch.firings) as f
            where f.delay is null and f.action_type = v_type
        )));
    end loop;

    return _pgwhen.write_actions(
        array(
            select f
            from unnest(dispatch.firings) as f
            where f.delay is not null or f.action_type <> all(v_now_types)
        ),
        dispatch.worker,
        dispatch.action_types,
        dispatch.room,
        dispatch.queue
    );
end;
$$;

-- One call of a built-in batch function for all firings of its type.
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

-- Who caused the events of a batch of actions: user by user, the event's own chain and the rules.
create or replace function _pgwhen.cause_of(firings _pgwhen.firing[])
returns jsonb
language sql
stable
as $$
select pg_catalog.jsonb_build_object(
    'users',
    pg_catalog.jsonb_object_agg(
        u.who, pg_catalog.jsonb_build_object('chain', u.chain || u.rules, 'at', u.at)
    )
)
from (
    select
        _pgwhen.who(f.line_oa_id, f.user_id) as who,
        f.chain as chain,
        f.at as at,
        pg_catalog.array_agg(f.trigger_rule_id) as rules
    from unnest(cause_of.firings) as f
    group by 1, 2, 3
) as u;
$$;

create or replace function _pgwhen.write_actions(
    firings _pgwhen.firing[],
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
    v_now constant timestamptz := _pgwhen.clock();
    v_sql_types constant text[] := array(
        select t.name from _pgwhen.action_type as t where t.kind = 'sql'
    );
    v_fired _pgwhen.fired;
    v_waking integer;
begin
    if cardinality(write_actions.firings) = 0 then
        return row('[]'::jsonb, '{}'::pgwhen.claimed_action[])::_pgwhen.fired;
    end if;

    with planned as materialized (
        select
            f.*,
            f as firing,
            _pgwhen.due_at(f.delay, v_now) as execute_at,
            f.action_type = any(v_sql_types) as is_sql
        from unnest(write_actions.firings) as f
    ),
    placed as materialized (
        select
            p.*,
            p.execute_at <= v_now
            and case when p.is_sql then not write_actions.queue
                else
                    p.action_type = any(write_actions.action_types)
                    and count(*) filter (
                        where not p.is_sql
                        and p.execute_at <= v_now
                        and p.action_type = any(write_actions.action_types)
                    ) over (order by p.event_id, p.trigger_rule_id) <= write_actions.room
            end as claimed
        from planned as p
    ),
    written as (
        insert into pgwhen.scheduled_action as a (
            trigger_rule_id, line_oa_id, organization_id, user_id, action_type, action_config,
            execute_at, status, created_date, updated_at, workflow_id, workflow_node_path,
            deadline, claim_token, worker, key, event, chain
        )
        select
            p.trigger_rule_id, p.line_oa_id, p.organization_id,
            p.user_id, p.action_type, p.action_config,
            p.execute_at, case when p.claimed then 'processing' else 'pending' end, v_now, v_now,
            p.workflow_id, p.workflow_node_path,
            case when p.claimed then _pgwhen.attempt_deadline(v_now) end,
            case when p.claimed then gen_random_uuid() end,
            case when p.claimed then write_actions.worker end,
            _pgwhen.action_key(
                p.uuid, p.line_oa_id, p.user_id,
                p.trigger_rule_id
            ),
            _pgwhen.frozen_event(p.firing),
            p.chain || p.trigger_rule_id
        from placed as p
        order by p.event_id, p.trigger_rule_id
        returning a.*
    )
    select
        coalesce(
            jsonb_agg(to_jsonb(_pgwhen.as_claimed(w)) order by w.id)
            filter (where w.status = 'processing' and w.action_type <> all(v_sql_types)),
            '[]'
        ),
        coalesce(
            array_agg(_pgwhen.as_claimed(w) order by w.id)
            filter (where w.status = 'processing' and w.action_type = any(v_sql_types)),
            '{}'
        ),
        count(*) filter (where w.status = 'pending' and w.execute_at <= v_now + interval '1 second')
    into v_fired.claimed, v_fired.sql_actions, v_waking
    from written as w;

    if v_waking > 0 then
        perform _pgwhen.ring('pgwhen_due');
    end if;
    return v_fired;
end;
$$;

-- When an action is due: delays count from the database clock at dispatch, never from event time.
create or replace function _pgwhen.due_at(delay jsonb, now timestamptz)
returns timestamptz
language sql
stable
as $$
select case
    when due_at.delay is null then due_at.now
    when due_at.delay ? 'at' then (due_at.delay ->> 'at')::timestamptz
    else due_at.now + _pgwhen.span(due_at.delay -> 'seconds')
end;
$$;

-- Until when an attempt that starts now may run.
create or replace function _pgwhen.attempt_deadline(now timestamptz)
returns timestamptz
language sql
stable
as $$
select attempt_deadline.now
    + pg_catalog.make_interval(secs => 60 * (_pgwhen.setting('staleProcessingMinute'))::float8);
$$;

-- The event as it is kept with an action that it caused.
create or replace function _pgwhen.frozen_event(firing _pgwhen.firing)
returns jsonb
language sql
stable
as $$
select
    _pgwhen.event_json(
        (frozen_event.firing).type, (frozen_event.firing).key, (frozen_event.firing).old,
        (frozen_event.firing).new, (frozen_event.firing).data, (frozen_event.firing).at
    )
    || pg_catalog.jsonb_build_object(
        'id', (frozen_event.firing).event_id, 'uuid', (frozen_event.firing).uuid
    );
$$;

-- The idempotency key: a UUID of version 8 from what makes the action the one it is. Never a
-- sequence, never the attempt; so it is the same at every try, and after a restore too.
create or replace function _pgwhen.action_key(
    origin uuid,
    line_oa_id text,
    user_id text,
    rule_id bigint,
    step text default ''
)
returns uuid
language plpgsql
immutable
as $$
declare
    v_hash bytea := sha256(
        convert_to(jsonb_build_array(origin, line_oa_id, user_id, rule_id, step)::text, 'UTF8')
    );
begin
    v_hash := set_byte(v_hash, 6, (get_byte(v_hash, 6) & 15) | 128);
    v_hash := set_byte(v_hash, 8, (get_byte(v_hash, 8) & 63) | 128);
    return encode(substr(v_hash, 1, 16), 'hex')::uuid;
end;
$$;

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
    'idempotencyKey', action_context.idempotency_key
);
$$;

create or replace function _pgwhen.as_claimed(action pgwhen.scheduled_action)
returns pgwhen.claimed_action
language sql
immutable
as $$
select row(
    (as_claimed.action).id, (as_claimed.action).claim_token, (as_claimed.action).retry_count + 1,
    (as_claimed.action).deadline, (as_claimed.action).action_type,
    (as_claimed.action).action_config, (as_claimed.action).line_oa_id,
    (as_claimed.action).organization_id, (as_claimed.action).user_id,
    (as_claimed.action).trigger_rule_id, (as_claimed.action).event, (as_claimed.action).key,
    (as_claimed.action).workflow_id, (as_claimed.action).workflow_node_path,
    (as_claimed.action).execute_at
)::pgwhen.claimed_action;
$$;
