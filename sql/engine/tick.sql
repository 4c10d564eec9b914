create or replace function pgwhen.tick(batch_size integer default null)
returns pgwhen.tick_report
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_until constant timestamptz := _pgwhen.clock() + _pgwhen.yield_after();
    v_pass pgwhen.pass;
    v_claimed pgwhen.claimed_action[];
    v_report pgwhen.tick_report;
begin
    v_pass := pgwhen.process_events('tick', batch_size => tick.batch_size);
    v_report.events := v_pass.events;
    v_report.recovered := pgwhen.recover_stale_actions(tick.batch_size);
    v_report.expired := pgwhen.expire_actions(tick.batch_size);
    v_claimed := _pgwhen.claim_sql_actions('tick', tick.batch_size);
    v_report.actions := _pgwhen.run_claimed('tick', v_claimed, v_until);
    perform _pgwhen.park_runaways();
    perform _pgwhen.lower_floors();
    v_report.more := v_pass.more or coalesce(_pgwhen.next_due_seconds('{}') <= 0, false);
    return v_report;
end;
$$;

comment on function pgwhen.tick(integer) is
$doc$Do one bounded pass over everything that time has made due; says whether more is due at once.

Processes a batch of events (SQL actions are done, Python actions wait for a worker), recovers
stale actions, ends waits whose time is over, runs due SQL actions. Harmless to run twice or in
parallel. One transaction, so an action that kills its backend is met again by the next tick:
run_ticks() commits in between and isolates it.

Raises PW202 outside READ COMMITTED.

  select * from pgwhen.tick();
$doc$;

-- Due SQL actions, as a batch of first tries, or a single one that has failed an attempt: a batch
-- that was lost with its backend has cost each of its actions an attempt, but only one of them did
-- it. Claimed alone, that one fails alone.
create or replace function _pgwhen.claim_sql_actions(worker text, batch_size integer)
returns pgwhen.claimed_action[]
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_types constant text[] := array(select t.name from _pgwhen.sql_types() as t);
    v_claimed constant pgwhen.claimed_action[] := array(
        select c
        from pgwhen.claim_actions(
            claim_sql_actions.worker,
            case when _pgwhen.first_has_failed(v_types) then 1
                else claim_sql_actions.batch_size end,
            v_types
        ) as c
    );
    v_failed pgwhen.claimed_action[];
begin
    v_failed := array(select c from unnest(v_claimed) as c where c.attempt > 1);
    if cardinality(v_claimed) = 1 or v_failed = '{}' then
        return v_claimed;
    end if;

    perform pgwhen.release_actions(
        claim_sql_actions.worker,
        array(select f.id from unnest(v_failed) as f),
        array(select f.token from unnest(v_failed) as f)
    );
    return array(select c from unnest(v_claimed) as c where c.attempt = 1);
end;
$$;

create or replace function _pgwhen.first_has_failed(action_types text[])
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select coalesce(
    (
        select d.retry_count > 0
        from unnest(_pgwhen.unpaused_types(first_has_failed.action_types)) as t (name)
        cross join lateral (
            select a.execute_at, a.id, a.retry_count
            from pgwhen.scheduled_action as a
            where
                a.status = 'pending'
                and not a.waiting
                and a.held_by is null
                and a.action_type = t.name
            order by a.execute_at, a.id
            limit 1
        ) as d
        order by d.execute_at, d.id
        limit 1
    ),
    false
);
$$;

-- Whether a chore was last done longer ago than `every`, or by a clock that has been set back; it
-- then counts as done.
create or replace function _pgwhen.chore_is_due(name text, every interval)
returns boolean
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    insert into _pgwhen.chore as c (name, done_at)
    values (chore_is_due.name, v_now)
    on conflict on constraint chore_pkey do update
    set done_at = v_now
    where c.done_at not between v_now - chore_is_due.every and v_now;
    return found;
end;
$$;

-- A rule that fires for one user at a rate that no customer causes is in a loop that its chain does
-- not show (a user's own function wrote the event). It fires once for an event, whatever comes of
-- it: a wait that expires is logged, and what follows it too. It is parked: disabled, with the
-- reason.
create or replace function _pgwhen.park_runaways()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_limit constant integer := (_pgwhen.setting('loopGuardPerMinute'))::integer;
    v_mark bigint;
begin
    if not _pgwhen.chore_is_due('loop_guard', interval '10 seconds') then
        return;
    end if;
    select c.mark into v_mark from _pgwhen.chore as c where c.name = 'loop_guard';

    update pgwhen.trigger_rule as r
    set
        enabled = false,
        parked_reason = format(
            'fired %s times for user %s within a minute: a loop?', h.n, h.user_id
        )
    from (
        select distinct on (l.trigger_rule_id)
            l.trigger_rule_id, l.user_id, count(distinct l.event_id) as n
        from pgwhen.trigger_log as l
        inner join pgwhen.trigger_rule as live on live.id = l.trigger_rule_id
        where
            l.id >= v_mark
            and l.created_date > v_now - interval '1 minute'
            and l.created_date >= live.enabled_date
            and l.status <> 'suppressed'
        group by l.trigger_rule_id, l.user_id
        having count(distinct l.event_id) > v_limit
        order by l.trigger_rule_id, count(distinct l.event_id) desc
    ) as h
    where r.id = h.trigger_rule_id and r.enabled;

    update _pgwhen.chore as c
    set mark = coalesce(
        (
            select min(l.id)
            from pgwhen.trigger_log as l
            where l.id >= v_mark and l.created_date > v_now - interval '1 minute'
        ),
        v_mark
    )
    where c.name = 'loop_guard';
end;
$$;
