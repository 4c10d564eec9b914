-- _pgwhen.settle: the one way in which an action ends, and the one writer of trigger_log. Returns
-- the scheduled actions that it really ended: an ending that carries a token ends only the claim
-- with that token, so a late writer changes nothing.
--
-- An ending without action_id is an action that never was a row (a SQL action done at once, a
-- suppression, a parked event); what it says of itself is what is logged. Lock order:
-- scheduled_action by id, for endings come in that order and the plan keeps to it, an index scan
-- without bitmap (who ends more than a batch has locked them before); then reservations by (rule,
-- user).
--
-- An action that waits after its send has not ended when it has succeeded: then its wait begins,
-- and clicks count from the first attempt that may have sent. Of what waits, a click ('success') or
-- the time ('expired') is the end; both without a token, and only while it waits. A late click is
-- the ending of nothing, logged beside its action.

create or replace function _pgwhen.settle(endings _pgwhen.ending[])
returns setof bigint
language plpgsql
volatile
set enable_nestloop = off
set enable_bitmapscan = off
set jit = off
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
    v_ids bigint[];
    v_any_without_row boolean;
    v_any_gives_back boolean;
    v_settled bigint[];
    v_opened bigint[];
    v_silent bigint[];
begin
    select
        array_agg(e.action_id) filter (where e.action_id is not null),
        bool_or(e.action_id is null or e.status = 'late_click'),
        bool_or(e.give_back)
    into v_ids, v_any_without_row, v_any_gives_back
    from unnest(settle.endings) as e;
    if v_any_without_row is null then
        return;
    end if;

    with touched as (
        update pgwhen.scheduled_action as a
        set
            status = case
                when _pgwhen.opened_until(a, e.status, v_now) is not null then 'pending'
                when e.status = 'success' then 'done'
                when e.status = 'failed' then 'failed'
                when e.status = 'expired' and a.wait ?| '{after, onExpire}' then 'done'
                else 'cancelled' end,
            executed_at = case when e.status in ('success', 'failed') and not a.waiting
                then v_now else a.executed_at end,
            execute_at = coalesce(_pgwhen.opened_until(a, e.status, v_now), a.execute_at),
            expires_at = coalesce(_pgwhen.opened_until(a, e.status, v_now), a.expires_at),
            counts_from = case when _pgwhen.opened_until(a, e.status, v_now) is not null
                then coalesce(a.counts_from, a.updated_at) else a.counts_from end,
            waiting = _pgwhen.opened_until(a, e.status, v_now) is not null,
            outcome = case
                when e.status = 'expired' then 'not_clicked'
                when e.status = 'success' and a.waiting then 'clicked'
                else a.outcome end,
            updated_at = v_now,
            result = coalesce(e.result, a.result),
            error_message = e.error_message,
            retry_state = coalesce(e.retry_state, a.retry_state),
            batch_id = case when e.leaves_batch is not true then a.batch_id end,
            retry_count = a.retry_count
                + case when e.status in ('failed', 'cancelled') and a.status = 'processing'
                    then 1 else 0 end,
            claim_token = null,
            deadline = null,
            attempt_ends = null,
            close_by = null
        from unnest(settle.endings) as e
        where
            a.id = any(v_ids)
            and a.id = e.action_id
            and a.status in ('pending', 'processing')
            and case
                when e.token is not null
                    then a.status = 'processing' and a.claim_token = e.token
                else a.waiting or e.status in ('failed', 'cancelled') end
        returning
            a.id, a.trigger_rule_id, e.audience_id, a.line_oa_id, a.user_id, a.event,
            a.action_type, a.action_config, e.status, e.error_message, a.waiting,
            a.has_heartbeat
    ),
    logged as (
        insert into pgwhen.trigger_log (
            created_date, action_id, trigger_rule_id, audience_id, line_oa_id, user_id, trigger_on,
            event_id, event_at, action_type, action_config, status, error_message
        )
        select
            v_now, t.id, t.trigger_rule_id, t.audience_id, t.line_oa_id, t.user_id,
            t.event ->> 'type' || coalesce(':' || (t.event ->> 'key'), ''),
            (t.event ->> 'id')::bigint, (t.event ->> 'at')::timestamptz,
            t.action_type, t.action_config, t.status, t.error_message
        from touched as t
        where not t.waiting
        union all
        select
            v_now, e.action_id, e.trigger_rule_id, e.audience_id, e.line_oa_id, e.user_id,
            e.trigger_on, e.event_id, e.event_at,
            e.action_type, e.action_config, e.status, e.error_message
        from unnest(settle.endings) as e
        where v_any_without_row and (e.action_id is null or e.status = 'late_click')
    )
    select
        array_agg(t.id) filter (where not t.waiting),
        coalesce(array_agg(t.id) filter (where t.waiting), '{}'),
        array_agg(t.id) filter (where t.has_heartbeat)
    into v_settled, v_opened, v_silent
    from touched as t;

    if v_silent is not null then
        perform _pgwhen.stop_beating(v_silent);
    end if;
    perform _pgwhen.announce_waits(v_opened);
    if v_any_gives_back then
        perform _pgwhen.give_back(settle.endings, v_settled);
    end if;
    return query select unnest(v_opened || v_settled);
end;
$$;

-- Rows by their ids in an array and in order: an index scan under any statistics, and one lock
-- order. With tokens, only those that are still under one of them: a report that comes late has no
-- business with what has become of its actions, and could close a circle of locks with a person who
-- updates many.
create or replace function _pgwhen.lock_actions(ids bigint[], tokens uuid[] default null)
returns void
language plpgsql
volatile
as $$
begin
    perform
    from pgwhen.scheduled_action as a
    where
        a.id = any(lock_actions.ids)
        and (lock_actions.tokens is null or a.claim_token = any(lock_actions.tokens))
    order by a.id
    for no key update;
end;
$$;

-- A definite non-delivery gives its slot back, if nobody has reserved since. One slot after the
-- other is locked by its key, and then reached by its place: a join might walk all reservations.
create or replace function _pgwhen.give_back(endings _pgwhen.ending[], settled bigint[])
returns void
language plpgsql
volatile
as $$
declare
    v_first tid[];
    v_later tid[];
begin
    select
        array_agg(h.place) filter (where h.previous_at is null),
        array_agg(h.place) filter (where h.previous_at is not null)
    into v_first, v_later
    from (
        select e.trigger_rule_id, e.user_id, e.origin
        from unnest(give_back.endings) as e
        where e.give_back and e.action_id is null
        union all
        select a.trigger_rule_id, a.user_id, (a.event ->> 'uuid')::uuid
        from pgwhen.scheduled_action as a
        where
            a.id = any(give_back.settled)
            and a.id = any(array(
                select e.action_id from unnest(give_back.endings) as e where e.give_back
            ))
        order by trigger_rule_id, user_id
    ) as s
    cross join lateral (
        select r.ctid as place, r.previous_at
        from _pgwhen.reservation as r
        where
            r.trigger_rule_id = s.trigger_rule_id
            and r.user_id = s.user_id
            and r.holder = s.origin
        for no key update
    ) as h;

    delete from _pgwhen.reservation as r where r.ctid = any(v_first);
    update _pgwhen.reservation as r
    set last_at = r.previous_at, previous_at = null
    where r.ctid = any(v_later);
end;
$$;
