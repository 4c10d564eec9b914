create or replace function pgwhen.claim_actions(
    worker text,
    batch_size integer default null,
    action_types text[] default null
)
returns setof pgwhen.claimed_action
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
set "pgwhen.by_engine" = on
as $$
declare
    v_types constant text[] := _pgwhen.types_of(claim_actions.action_types);
    v_default constant interval := _pgwhen.default_attempt_time();
    v_limits constant jsonb := _pgwhen.limits_of_types();
    v_now timestamptz;
    v_ids bigint[];
    v_batches jsonb;
begin
    perform _pgwhen.require_read_committed('claim_actions');
    perform _pgwhen.check_worker(claim_actions.worker);

    perform _pgwhen.raise_due_floors(v_types);
    v_now := _pgwhen.write_clock();
    v_ids := _pgwhen.lock_wanted(v_types, v_now, _pgwhen.batch_size_of(claim_actions.batch_size));
    v_batches := _pgwhen.new_batches(v_ids, v_types);

    return query
    with claimed as (
        update pgwhen.scheduled_action as a
        set
            status = 'processing',
            claim_token = gen_random_uuid(),
            worker = claim_actions.worker,
            deadline = least(
                a.close_by,
                v_now + _pgwhen.time_to_show(
                    _pgwhen.limits(v_limits -> a.action_type, a.timeouts), v_default
                )
            ),
            attempt_ends = _pgwhen.attempt_ends(
                _pgwhen.limits(v_limits -> a.action_type, a.timeouts), v_default, v_now, a.close_by
            ),
            heartbeat_timeout = _pgwhen.heartbeat_time(
                _pgwhen.limits(v_limits -> a.action_type, a.timeouts), v_default
            ),
            batch_id = case when v_batches is null then a.batch_id
                else coalesce(a.batch_id, (v_batches ->> a.id::text)::uuid) end,
            updated_at = v_now
        where a.id = any(v_ids) and (a.close_by >= v_now) is not false
        returning (_pgwhen.as_claimed(a)).*
    )
    select c.*
    from claimed as c
    order by c.execute_at, c.id;
end;
$$;

comment on function pgwhen.claim_actions(text, integer, text[]) is
$doc$Claim up to batch_size due actions for a worker, oldest due first.

Each claimed action carries a token (the fence for every later call about it), the number of the
attempt from 1, and a deadline: after that recover_stale_actions() gives it to somebody else and
the token is worth nothing. With a heartbeat_timeout (seconds) it does so earlier, when no
heartbeat_actions() has come for so long; heartbeat_details are what earlier attempts told by it,
and maybe_done says that one of them may have carried the action out. Concurrent callers never get
the same action and never wait for each other. What is paused is not claimed. batch_size defaults to
the setting batchSize, action_types to all that no SQL function serves.

Of a type with the option batch, n, up to n of one account get one batch_id: they go out together,
under one key. Those of which nobody knows whether they did are claimed again only together, under
the same batch_id (keeps_batch: send all of them, or none); what is more than batch_size is claimed
whole where it comes first: docs/handlers.md. Else batch_id is null.

Raises PW202 outside READ COMMITTED, PW301 for an empty worker name or a batch_size below 1.

  select * from pgwhen.claim_actions(worker => 'w-1', action_types => '{send_message}');
$doc$;

-- What is due and passes the gates, locked. Where a whole batch is stopped the next one is looked
-- at, but not for ever: a caller that got nothing asks again.
create or replace function _pgwhen.lock_wanted(
    action_types text[],
    now timestamptz,
    size integer
)
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_types constant text[] := _pgwhen.unpaused_types(lock_wanted.action_types);
    v_is_paused constant boolean := _pgwhen.any_pause();
    v_until constant timestamptz := lock_wanted.now + _pgwhen.yield_after();
    v_due _pgwhen.due;
    v_ids bigint[];
begin
    loop
        v_due := case when v_is_paused
            then _pgwhen.sift_due(v_types, lock_wanted.now, lock_wanted.size)
            else _pgwhen.lock_due(v_types, lock_wanted.now, lock_wanted.size) end;
        if v_due.ids is null then
            return '{}';
        end if;
        if v_due.batches is not null then
            v_due := _pgwhen.whole_batches(v_due, lock_wanted.now, lock_wanted.size);
        end if;
        v_ids := _pgwhen.gate(v_due, lock_wanted.now);
        exit when v_ids <> '{}' or _pgwhen.clock() > v_until;
    end loop;
    return v_ids;
end;
$$;

-- Lock order: scheduled_action, SKIP LOCKED, so never waiting. The types are walked one by one,
-- each along its own part of idx_scheduled_action_pending, so the due backlog of a type that nobody
-- serves costs nobody anything. Who is gone, or no friend, is seen here by one look at each user,
-- and at none for an action that was to be done at once and is no send: the gate then has only
-- those to judge that it may stop.
create or replace function _pgwhen.lock_due(action_types text[], now timestamptz, size integer)
returns _pgwhen.due
language plpgsql
volatile
as $$
declare
    v_sends constant text[] := _pgwhen.sends(lock_due.action_types);
    v_due _pgwhen.due;
begin
    select
        array_agg(l.id),
        array_agg(distinct l.trigger_rule_id) filter (where l.trigger_rule_id is not null),
        array_agg(l.id) filter (
            where
            l.asks_again
            or (l.asks_for_user or l.is_send) and coalesce(
                (
                    select l.is_send and not u.is_friend
                    from pgwhen.line_user as u
                    where u.line_oa_id = l.line_oa_id and u.user_id = l.user_id
                ),
                l.asks_for_user
            )
        ),
        array_agg(distinct l.batch_id) filter (where l.batch_id is not null)
    into v_due
    from (
        select d.*
        from (select distinct u from unnest(lock_due.action_types) as u) as t (action_type)
        cross join lateral _pgwhen.bound('due:' || t.action_type) as b
        cross join lateral (
            select
                a.id, a.execute_at, a.trigger_rule_id, a.action_type, a.line_oa_id, a.user_id,
                a.batch_id,
                a.user_known and (a.delay is not null or a.retry_count > 0) as asks_for_user,
                a.action_type = any(v_sends) as is_send,
                coalesce(a.delay ? 'reEvaluateConditions', false) as asks_again
            from pgwhen.scheduled_action as a
            where
                a.status = 'pending'
                and not a.waiting
                and a.held_by is null
                and a.action_type = t.action_type
                and (a.execute_at, a.id) > (b.since, b.since_id)
                and a.execute_at <= lock_due.now
                and (a.batch_id is null or _pgwhen.has_batch(a.batch_id))
            order by a.execute_at, a.id
            limit lock_due.size
            for no key update skip locked
        ) as d
        order by d.execute_at, d.id
        limit lock_due.size
    ) as l;
    return v_due;
end;
$$;

-- Which types, where the caller may leave it open: those that it takes a worker to do.
create or replace function _pgwhen.types_of(given text[])
returns text[]
language plpgsql
stable
as $$
begin
    return coalesce(
        array_remove(types_of.given, null),
        array(select t.name from _pgwhen.action_type as t where t.kind <> 'sql')
    );
end;
$$;

-- How many at most, where the caller may leave it to the setting.
create or replace function _pgwhen.batch_size_of(given integer)
returns integer
language plpgsql
stable
as $$
begin
    if batch_size_of.given < 1 then
        raise exception 'batch_size must be 1 or more, not %', batch_size_of.given
            using errcode = 'PW301', hint = 'Leave it out for the setting batchSize.';
    end if;
    return coalesce(batch_size_of.given, (_pgwhen.setting('batchSize'))::integer);
end;
$$;

create or replace function _pgwhen.check_worker(worker text)
returns void
language plpgsql
as $$
begin
    if btrim(coalesce(check_worker.worker, '')) = '' then
        raise exception 'a worker needs a name'
            using errcode = 'PW301',
                hint = 'Pass something that tells processes apart, for example host and pid.';
    end if;
end;
$$;
