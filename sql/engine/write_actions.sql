-- _pgwhen.write_actions: the rows of scheduled_action, claimed by the caller where it can start
-- them.

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
    v_now timestamptz;
    v_default constant interval := _pgwhen.default_attempt_time();
    v_limits jsonb;
    v_batches jsonb;
    v_sql_types text[];
    v_fired _pgwhen.fired;
    v_waking integer;
    v_waits bigint[];
begin
    if cardinality(write_actions.firings) = 0 then
        return row('[]'::jsonb, '{}'::pgwhen.claimed_action[], '{}')::_pgwhen.fired;
    end if;

    v_now := _pgwhen.write_clock();
    select
        _pgwhen.limits_of_types(),
        array(select t.name from _pgwhen.action_type as t where t.kind = 'sql')
    into v_limits, v_sql_types;
    v_batches := _pgwhen.batches_of_firings(
        write_actions.firings[:write_actions.room], write_actions.action_types
    );

    with placed as (
        select
            f.*,
            d.execute_at,
            w.waits,
            l.limits,
            _pgwhen.term(l.limits, d.execute_at, d.execute_at) as term,
            d.execute_at <= v_now
            and not w.waits
            and case when f.action_type = any(v_sql_types) then not write_actions.queue
                else
                    f.action_type = any(write_actions.action_types)
                    and f.ordinality <= write_actions.room
            end as claimed
        from unnest(write_actions.firings) with ordinality as f
        cross join lateral _pgwhen.due_at(
            f.delay, v_now, f.until_value,
            case when f.delay ? 'until' then _pgwhen.zone(f.line_oa_id, f.user_id) end
        ) as d (execute_at)
        cross join lateral (
            select coalesce(not f.delay -> 'wait' ? 'after', false)
        ) as w (waits)
        cross join lateral (
            select _pgwhen.limits(v_limits -> f.action_type, f.timeouts)
        ) as l (limits)
    ),
    written as (
        insert into pgwhen.scheduled_action as a (
            trigger_rule_id, line_oa_id, organization_id, user_id, action_type, action_config,
            execute_at, status, created_date, updated_at, workflow_id, workflow_node_path,
            deadline, claim_token, worker, key, origin, event, chain,
            close_by, startable_at, attempt_ends, heartbeat_timeout,
            source_config, delay, retry_policy, timeouts, user_known, deduplication_key,
            parent_id, wait, waiting, expires_at, counts_from, batch_id
        )
        select
            p.trigger_rule_id, p.line_oa_id, p.organization_id,
            p.user_id, p.action_type, p.action_config,
            p.execute_at, case when p.claimed then 'processing' else 'pending' end, v_now, v_now,
            p.workflow_id, p.workflow_node_path,
            case
                when p.claimed then least(
                    (p.term).close_by, v_now + _pgwhen.time_to_show(p.limits, v_default)
                )
                when not p.waits then (p.term).start_by
            end,
            case when p.claimed then gen_random_uuid() end,
            case when p.claimed then write_actions.worker end,
            _pgwhen.action_key(
                p.uuid, p.line_oa_id, p.user_id, p.trigger_rule_id, coalesce(p.step, '')
            ),
            p.uuid,
            case when p.type is not null then
                _pgwhen.event_json(p.type, p.key, p.old, p.new, p.data, p.at)
                || jsonb_build_object('id', p.event_id, 'uuid', p.uuid)
            end,
            case when p.trigger_rule_id is null then p.chain else p.chain || p.trigger_rule_id end,
            case when not p.waits then (p.term).close_by end,
            case when not p.waits then (p.term).startable_at end,
            case when p.claimed then _pgwhen.attempt_ends(
                p.limits, v_default, v_now, (p.term).close_by
            ) end,
            case when p.claimed then _pgwhen.heartbeat_time(p.limits, v_default) end,
            p.delay -> 'sourceConfig',
            p.delay - array['sourceConfig', 'wait'],
            p.retry_policy,
            p.timeouts,
            coalesce((
                select true
                from pgwhen.line_user as u
                where u.line_oa_id = p.line_oa_id and u.user_id = p.user_id
            ), false),
            case when p.type is null then p.key end,
            p.parent_id, p.delay -> 'wait', p.waits,
            case when p.waits then p.execute_at end,
            case when p.waits then coalesce(p.at, v_now) end,
            case when v_batches is not null and p.claimed
                then (v_batches ->> p.ordinality::text)::uuid end
        from placed as p
        order by p.event_id, p.trigger_rule_id
        returning a.*
    )
    select
        coalesce(
            jsonb_agg(to_jsonb(_pgwhen.as_claimed(w)))
            filter (where w.status = 'processing' and w.action_type <> all(v_sql_types)),
            '[]'
        ),
        coalesce(
            array_agg(_pgwhen.as_claimed(w))
            filter (where w.status = 'processing' and w.action_type = any(v_sql_types)),
            '{}'
        ),
        array_agg(w.id) filter (where w.event is null),
        count(*) filter (
            where w.status = 'pending' and w.execute_at <= v_now + interval '1 second'
        ),
        array_agg(w.id) filter (where w.waiting)
    into v_fired.claimed, v_fired.sql_actions, v_fired.scheduled, v_waking, v_waits
    from written as w;

    if v_waking > 0 then
        perform _pgwhen.ring('pgwhen_due');
    end if;
    if v_waits is not null then
        perform _pgwhen.begin_waits(v_waits);
    end if;
    return v_fired;
end;
$$;

create or replace function _pgwhen.as_claimed(action pgwhen.scheduled_action)
returns pgwhen.claimed_action
language sql
stable
as $$
select row(
    (as_claimed.action).id, (as_claimed.action).claim_token, (as_claimed.action).retry_count + 1,
    coalesce((as_claimed.action).attempt_ends, (as_claimed.action).deadline),
    (as_claimed.action).action_type,
    (as_claimed.action).action_config, (as_claimed.action).line_oa_id,
    (as_claimed.action).organization_id, (as_claimed.action).user_id,
    (as_claimed.action).trigger_rule_id, (as_claimed.action).event, (as_claimed.action).key,
    (as_claimed.action).workflow_id, (as_claimed.action).workflow_node_path,
    (as_claimed.action).execute_at,
    extract(epoch from (as_claimed.action).heartbeat_timeout)::float8,
    case when (as_claimed.action).has_heartbeat
        then _pgwhen.last_details((as_claimed.action).id) end,
    (as_claimed.action).retry_count > 0 or (as_claimed.action).executed_at is not null,
    (as_claimed.action).batch_id, (as_claimed.action).keeps_batch
)::pgwhen.claimed_action;
$$;
