-- Waits: actions that a click of the user ends, or their expiry. A row with `waiting` waits now;
-- `wait` is the compiled wait (compile_delay.sql) and stays when it has ended, `outcome` says how.
--
-- A wait before its action turns into an ordinary action that is due when it is clicked. A wait
-- after its send, or one that expires, ends there; what follows then is a child, a row of its own.
--
-- Whoever ends waits by clicks or by time holds the bucket of their users, so that looks for clicks
-- and waits that begin never pass each other by: docs/adr/0011-waits.md has each pair. A cancel
-- holds the row alone, so each UPDATE asks again, after the lock, whether the row still waits.
-- Lock order: bucket, scheduled_action by id (siblings too), reservations.

-- The tracking id of what an action sends: its key, without dashes.
create or replace function _pgwhen.tracking_id(key uuid)
returns text
language sql
immutable
as $$
select pg_catalog.replace(tracking_id.key::text, '-', '');
$$;

-- Whether a click ends a wait: everything that the wait asks for is in it, and no machine made it.
create or replace function _pgwhen.is_click_for(wait jsonb, data jsonb)
returns boolean
language sql
immutable
as $$
select
    is_click_for.data @> coalesce(is_click_for.wait -> 'tracking', '{}')
    and not is_click_for.data @> '{"bot": true}';
$$;

create or replace function _pgwhen.expiry_from(wait jsonb, now timestamptz)
returns timestamptz
language sql
stable
as $$
select expiry_from.now
    + pg_catalog.make_interval(secs => (expiry_from.wait -> 'expires')::float8);
$$;

-- Waits that have just been written. With an event's bucket held, only clicks that were processed
-- before can have been missed; who schedules by hand holds none, and leaves the look to a pass.
create or replace function _pgwhen.begin_waits(ids bigint[])
returns void
language plpgsql
volatile
as $$
begin
    perform _pgwhen.announce_waits(array(
        select a.id
        from pgwhen.scheduled_action as a
        where a.id = any(begin_waits.ids) and a.event ->> 'id' is null
    ));
    perform _pgwhen.click_waits(_pgwhen.clicked_early(array(
        select a.id
        from pgwhen.scheduled_action as a
        where a.id = any(begin_waits.ids) and a.event ->> 'id' is not null
    )));
end;
$$;

-- An event by which a pass looks, with the bucket held, for clicks that came before the wait did.
-- The transaction has its id, for it has written the waits: take() relies on that order.
create or replace function _pgwhen.announce_waits(ids bigint[])
returns void
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    if announce_waits.ids = '{}' then
        return;
    end if;
    insert into _pgwhen.outbox
        (bucket, line_oa_id, user_id, type, keys, data, facts, at, created_at)
    select
        _pgwhen.bucket(a.line_oa_id, a.user_id), a.line_oa_id, a.user_id, 'pgwhen.wait_opened',
        '{}', jsonb_build_object('action', a.id), '{}', v_now, v_now
    from pgwhen.scheduled_action as a
    where a.id = any(announce_waits.ids)
    order by a.id;
    perform _pgwhen.ring('pgwhen_due');
end;
$$;

-- Claimed actions whose send has succeeded, and that wait after it: instead of ending, they wait.
-- Clicks count from the first attempt that may have sent. Returns which they are.
create or replace function _pgwhen.open_waits(endings _pgwhen.ending[], now timestamptz)
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_ids constant bigint[] := array(select e.action_id from unnest(open_waits.endings) as e);
    v_opened bigint[];
begin
    with opened as (
        update pgwhen.scheduled_action as a
        set
            status = 'pending',
            waiting = true,
            execute_at = _pgwhen.expiry_from(a.wait, open_waits.now),
            expires_at = _pgwhen.expiry_from(a.wait, open_waits.now),
            executed_at = open_waits.now,
            counts_from = coalesce(a.counts_from, a.updated_at),
            result = coalesce(e.result, a.result),
            error_message = null,
            claim_token = null,
            deadline = null,
            updated_at = open_waits.now
        from unnest(open_waits.endings) as e
        where
            a.id = any(v_ids)
            and a.id = e.action_id
            and e.status = 'success'
            and coalesce(a.wait ? 'after', false)
            and a.status = 'processing'
            and a.claim_token = e.token
        returning a.id
    )
    select coalesce(array_agg(o.id), '{}') into v_opened from opened as o;

    perform _pgwhen.announce_waits(v_opened);
    return v_opened;
end;
$$;

-- Those of the actions that wait now, reached by their ids under any statistics: with what a
-- partial index asks for in the same WHERE, a plan made for few rows would walk that index.
create or replace function _pgwhen.still_waiting(ids bigint[])
returns setof pgwhen.scheduled_action
language plpgsql
stable
as $$
begin
    return query
    select a.*
    from pgwhen.scheduled_action as a
    where a.id = any(still_waiting.ids) and a.waiting
    order by a.id;
end;
$$;

-- Those of the waits for which a click has been processed already. A rule's own event is none.
create or replace function _pgwhen.clicked_early(ids bigint[])
returns bigint[]
language plpgsql
stable
as $$
begin
    if clicked_early.ids = '{}' then
        return clicked_early.ids;
    end if;
    return array(
        select a.id
        from _pgwhen.still_waiting(clicked_early.ids) as a
        cross join lateral (
            select p.id
            from _pgwhen.processed_event as p
            where
                p.user_id = a.user_id
                and p.line_oa_id = a.line_oa_id
                and p.type = 'campaign_click'
                and p.at >= a.counts_from
                and p.created_at <= a.expires_at
                and p.uuid <> a.origin
                and _pgwhen.is_click_for(a.wait, p.data)
            limit 1
        ) as c
        order by a.id
    );
end;
$$;

-- Whether a click that is still to be processed will end the wait.
create or replace function _pgwhen.has_click_coming(action pgwhen.scheduled_action)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select
        from _pgwhen.outbox as o
        where
            o.type = 'campaign_click'
            and o.user_id = has_click_coming.action.user_id
            and o.line_oa_id = has_click_coming.action.line_oa_id
            and o.at >= has_click_coming.action.counts_from
            and o.created_at <= has_click_coming.action.expires_at
            and _pgwhen.is_click_for(has_click_coming.action.wait, o.data)
    );
end;
$$;

-- A click has come: what was to be done after it is due now, what was done before it has ended.
-- Returns how many really waited.
create or replace function _pgwhen.click_waits(ids bigint[])
returns integer
language plpgsql
volatile
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
                a.wait #> array[follow_up.kind, 'actionConfig'], null, null, false,
                a.workflow_id, a.workflow_node_path, 'fire', a.id, follow_up.step
            )::_pgwhen.firing
            from pgwhen.scheduled_action as a
            where a.id = any(follow_up.ids) and coalesce(a.wait ? follow_up.kind, false)
            order by a.id
        ),
        follow_up.step, '{}', 0, true
    );
end;
$$;
