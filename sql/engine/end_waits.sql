-- How a wait ends: by a click or by its time, and with it those that wait for the same.

-- A click has come: what was to be done after it is due now, what was done before it has ended.
-- Returns how many really waited.
create or replace function _pgwhen.click_waits(ids bigint[])
returns integer
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_ids bigint[];
    v_before bigint[];
    v_after bigint[];
    v_due bigint[];
    v_ended bigint[];
begin
    if click_waits.ids = '{}' then
        return 0;
    end if;
    v_ids := _pgwhen.close_siblings(click_waits.ids);
    select
        array_agg(w.id) filter (where not w.wait ? 'after'),
        array_agg(w.id) filter (where w.wait ? 'after')
    into v_before, v_after
    from _pgwhen.still_waiting(v_ids) as w;

    with due as (
        update pgwhen.scheduled_action as a
        set
            waiting = false,
            outcome = 'clicked',
            execute_at = v_now,
            expires_at = null,
            (startable_at, deadline, close_by) = (
                select t.startable_at, t.start_by, t.close_by from _pgwhen.term_of(a, v_now) as t
            ),
            updated_at = v_now
        where a.id = any(v_before) and a.waiting
        returning a.id
    )
    select coalesce(array_agg(d.id), '{}') into v_due from due as d;
    if v_due <> '{}' then
        perform _pgwhen.ring('pgwhen_due');
    end if;

    v_ended := array(
        select s
        from _pgwhen.settle(array(
            select _pgwhen.ending_of_action(w, null, 'success') from unnest(v_after) as w
        )) as s
    );
    perform _pgwhen.follow_up(v_ended, 'onClick', 'clicked');
    return cardinality(v_due) + cardinality(v_ended);
end;
$$;

-- The time is over. Nothing was delivered, and the slot goes back, only where nothing was sent
-- before and nothing follows. Returns how many really waited.
create or replace function _pgwhen.expire_waits(ids bigint[])
returns integer
language plpgsql
volatile
as $$
declare
    v_ids bigint[];
    v_ended bigint[];
begin
    if expire_waits.ids = '{}' then
        return 0;
    end if;
    v_ids := _pgwhen.close_siblings(expire_waits.ids);
    v_ended := array(
        select s
        from _pgwhen.settle(array(
            select _pgwhen.ending_of_action(
                w.id, null, 'expired', 'no click until ' || _pgwhen.stamp(w.expires_at), null,
                not w.wait ?| '{after, onExpire}'
            )
            from _pgwhen.still_waiting(v_ids) as w
        )) as s
    );
    perform _pgwhen.follow_up(v_ended, 'onExpire', 'not_clicked');
    return cardinality(v_ended);
end;
$$;

-- Of waits for the same thing the first to end is the only one: the others are cancelled. They
-- stand at the same place of a workflow, else have the same origin and rule. Locks all of them in
-- one go, and returns those of the ids that remain.
create or replace function _pgwhen.close_siblings(ids bigint[])
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_closed constant bigint[] := array(
        select distinct s.id
        from _pgwhen.still_waiting(close_siblings.ids) as a
        cross join lateral (
            select o.id
            from pgwhen.scheduled_action as o
            where
                o.wait is not null
                and o.user_id = a.user_id
                and o.line_oa_id = a.line_oa_id
                and o.waiting
                and o.id <> a.id
                and (o.id > a.id or o.id <> all(close_siblings.ids))
                and case
                    when a.workflow_id is not null
                        then (o.workflow_id, o.workflow_node_path)
                            is not distinct from (a.workflow_id, a.workflow_node_path)
                    else o.origin = a.origin
                        and o.trigger_rule_id is not distinct from a.trigger_rule_id
                end
            offset 0
        ) as s
    );
begin
    perform _pgwhen.lock_actions(close_siblings.ids || v_closed);
    perform _pgwhen.settle(array(
        select _pgwhen.ending_of_action(c.id, null, 'cancelled', 'another wait for the same ended')
        from unnest(v_closed) as c (id)
    ));
    return array(select i.id from unnest(close_siblings.ids) as i (id) where i.id <> all(v_closed));
end;
$$;

-- What follows the end of a wait: an action of its own, of the same user, rule and event, whose key
-- has the step in it.
create or replace function _pgwhen.follow_up(ids bigint[], kind text, step text)
returns void
language plpgsql
volatile
as $$
begin
    if follow_up.ids = '{}' then
        return;
    end if;
    perform _pgwhen.dispatch(
        array(
            select row(
                (a.event ->> 'id')::bigint, a.origin, a.line_oa_id, a.user_id,
                a.event ->> 'type', a.event ->> 'key', a.event -> 'old', a.event -> 'new',
                a.event -> 'data', (a.event ->> 'at')::timestamptz,
                array_remove(a.chain, a.trigger_rule_id), a.trigger_rule_id, a.organization_id,
                null, null, null, a.wait #>> array[follow_up.kind, 'actionType'],
                c.config - _pgwhen.config_keys_of_pgwhen(), _pgwhen.delay_of_follow_up(a),
                _pgwhen.compiled_retry_policy(c.config -> 'retryPolicy'),
                _pgwhen.compiled_timeouts(c.config -> 'timeouts'), null, false,
                a.workflow_id, a.workflow_node_path, 'fire', a.id, follow_up.step
            )::_pgwhen.firing
            from pgwhen.scheduled_action as a
            cross join lateral (
                select a.wait #> array[follow_up.kind, 'actionConfig'] as config
            ) as c
            where a.id = any(follow_up.ids) and coalesce(a.wait ? follow_up.kind, false)
            order by a.id
        ),
        follow_up.step, '{}', 0, true
    );
end;
$$;

-- What of a delay is asked when the time has come holds for what follows as well.
create or replace function _pgwhen.delay_of_follow_up(action pgwhen.scheduled_action)
returns jsonb
language sql
stable
as $$
select case
    when (delay_of_follow_up.action).delay ?| array['reEvaluateConditions', 'onRuleDisabled'] then
        (delay_of_follow_up.action).delay
        || '{"seconds": 0, "whenPending": "add"}'
        || case when (delay_of_follow_up.action).source_config is null then '{}'
            else pg_catalog.jsonb_build_object(
                'sourceConfig', (delay_of_follow_up.action).source_config
            ) end
end;
$$;
