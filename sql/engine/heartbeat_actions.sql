create or replace function pgwhen.heartbeat_actions(
    worker text,
    ids bigint[],
    tokens uuid[],
    details jsonb[] default null
)
returns setof pgwhen.heartbeat_reply
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_new bigint[];
begin
    perform _pgwhen.require_read_committed('heartbeat_actions');
    perform _pgwhen.check_worker(heartbeat_actions.worker);
    perform _pgwhen.check_claims(ids, tokens, cardinality(details));

    v_new := _pgwhen.beat_on(ids, tokens, details, v_now);
    if v_new <> '{}' then
        perform _pgwhen.beat_first(v_new, ids, tokens, details, v_now);
    end if;
    return query
    select i.id, a.cancel_requested is not null, coalesce(a.cancel_requested, false)
    from unnest(ids, tokens) with ordinality as i (id, token, n)
    left join lateral (
        select s.cancel_reason is not null as cancel_requested
        from pgwhen.scheduled_action as s
        where s.id = i.id and s.claim_token = i.token and s.status = 'processing'
        offset 0
    ) as a on true
    order by i.n;
end;
$$;

comment on function pgwhen.heartbeat_actions(text, bigint[], uuid[], jsonb[]) is
$doc$Say that claimed actions are alive and how far they are, many at once.

Returns a row for each, in their order: held is false where the claim is no longer this worker's,
and what it goes on to do counts for nothing; cancel_requested is true where somebody has asked to
cancel the action: the worker ends it by fail_actions() with {"cancelled": true}, or completes it
all the same. details, any JSON value, are handed to the next attempt as heartbeat_details; null
keeps those of before. An action with a heartbeat timeout is lost when none has come for so long.
Heartbeats do not extend the claim's deadline. Never waits for a lock.

Raises PW302 where the arrays differ in length or hold nulls, PW301 for an empty worker name, PW202
outside READ COMMITTED.

  select * from pgwhen.heartbeat_actions(
      'w-1', '{7}', array[:token]::uuid[], array['{"done": 120}']::jsonb[]
  );
$doc$;

-- The fence of heartbeats is the token in their own narrow table, which whoever ends an attempt
-- takes out of it. So a heartbeat touches scheduled_action once in an attempt, and it passes over
-- what is locked: that attempt is just ending. Lock order: scheduled_action, then heartbeats.

-- Those that have beaten before, HOT. Returns the ids of the others. Row by row through the key:
-- a join would be planned for the table as it was when nothing had beaten yet.
create or replace function _pgwhen.beat_on(
    ids bigint[],
    tokens uuid[],
    details jsonb[],
    now timestamptz
)
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_new constant bigint[] := array(
        select i.id
        from unnest(beat_on.ids, beat_on.tokens) as i (id, token)
        where (
            select h.token from _pgwhen.heartbeat as h where h.action_id = i.id
        ) is distinct from i.token
    );
    v_places constant tid[] := array(
        select b.place
        from unnest(beat_on.ids, beat_on.tokens) as i (id, token)
        cross join lateral (
            select h.ctid as place
            from _pgwhen.heartbeat as h
            where h.action_id = i.id and h.token = i.token
            for no key update skip locked
        ) as b
    );
begin
    update _pgwhen.heartbeat as b
    set beat_at = beat_on.now, details = coalesce(i.details, b.details)
    from unnest(beat_on.ids, beat_on.details) as i (id, details)
    where b.ctid = any(v_places) and b.action_id = i.id;
    return v_new;
end;
$$;

-- The first ones of their attempts: only with the action locked is it certain that the claim holds.
create or replace function _pgwhen.beat_first(
    new_ids bigint[],
    ids bigint[],
    tokens uuid[],
    details jsonb[],
    now timestamptz
)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_held constant bigint[] := array(
        select l.id
        from unnest(beat_first.ids, beat_first.tokens) as i (id, token)
        inner join unnest(beat_first.new_ids) as n (id) on n.id = i.id
        cross join lateral (
            select a.id
            from pgwhen.scheduled_action as a
            where a.id = i.id and a.claim_token = i.token and a.status = 'processing'
            for no key update skip locked
        ) as l
    );
begin
    update pgwhen.scheduled_action as a
    set has_heartbeat = true
    where a.id = any(v_held) and not a.has_heartbeat;

    insert into _pgwhen.heartbeat as b (action_id, token, beat_at, details)
    select distinct on (a.id) a.id, a.claim_token, beat_first.now, i.details
    from unnest(beat_first.ids, beat_first.tokens, beat_first.details)
        with ordinality as i (id, token, details, n)
    inner join pgwhen.scheduled_action as a on a.id = i.id and a.claim_token = i.token
    where a.id = any(v_held)
    order by a.id, i.n desc
    on conflict on constraint heartbeat_pkey do update
    set
        token = excluded.token,
        beat_at = excluded.beat_at,
        details = coalesce(excluded.details, b.details);
end;
$$;

-- What earlier attempts have told.
create or replace function _pgwhen.last_details(action_id bigint)
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select b.details from _pgwhen.heartbeat as b where b.action_id = last_details.action_id
    );
end;
$$;

-- Attempts that have ended, or those under one of the tokens, beat no more. The details stay for
-- another one, but where the action is done.
create or replace function _pgwhen.stop_beating(ids bigint[], tokens uuid[] default null)
returns void
language plpgsql
volatile
as $$
begin
    delete from _pgwhen.heartbeat as b
    using pgwhen.scheduled_action as a
    where b.action_id = any(stop_beating.ids) and a.id = b.action_id and a.status = 'done';

    update _pgwhen.heartbeat as b
    set token = null
    where
        b.action_id = any(stop_beating.ids)
        and b.token is not null
        and (stop_beating.tokens is null or b.token = any(stop_beating.tokens));
end;
$$;

-- The last words of attempts that failed; their actions are locked.
create or replace function _pgwhen.keep_last_details(
    verdicts _pgwhen.retry_verdict[],
    now timestamptz
)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
begin
    with kept as (
        insert into _pgwhen.heartbeat as b (action_id, beat_at, details)
        select v.action_id, keep_last_details.now, v.error -> 'heartbeatDetails'
        from unnest(keep_last_details.verdicts) as v
        where v.error ? 'heartbeatDetails'
        on conflict on constraint heartbeat_pkey do update
        set details = excluded.details
        returning b.action_id
    )
    update pgwhen.scheduled_action as a
    set has_heartbeat = true
    from kept as k
    where a.id = k.action_id and not a.has_heartbeat;
end;
$$;
