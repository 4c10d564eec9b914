-- The incident switch, as the engine sees it. Where nothing is paused, which is nearly always, it
-- costs one probe of an empty index for each claim, dispatch and look for what is due next.
--
-- A pause of a whole action type keeps claims away from the type. One of an account or a rule is a
-- matter of each row: a claim that meets such a row shelves it (held_by), which takes it out of the
-- index that claims walk, so that each is met once and not by every claim; resume() puts them back.
-- Whoever shelves has locked the pause, so resume() cannot be over before its rows are known.
--
-- What a snapshot from before the pause has claimed goes on: a claim is as good as running. Each of
-- these reads with a snapshot of its own (VOLATILE), so a long transaction sees a pause at its next
-- step.

create or replace function _pgwhen.any_pause()
returns boolean
language plpgsql
volatile
as $$
begin
    return exists (select from _pgwhen.pause);
end;
$$;

create or replace function _pgwhen.pause_covers(
    pause _pgwhen.pause,
    action_type text,
    line_oa_id text,
    rule_id bigint
)
returns boolean
language sql
immutable
as $$
select _pgwhen.scope_covers(
    (pause_covers.pause).action_type, (pause_covers.pause).line_oa_id,
    (pause_covers.pause).trigger_rule_id,
    pause_covers.action_type, pause_covers.line_oa_id, pause_covers.rule_id
);
$$;

-- Whether the scope of a pause, where null is all, has an action of this kind in it.
create or replace function _pgwhen.scope_covers(
    scope_type text,
    scope_account text,
    scope_rule bigint,
    action_type text,
    line_oa_id text,
    rule_id bigint
)
returns boolean
language sql
immutable
as $$
select
    coalesce(scope_covers.scope_type = scope_covers.action_type, true)
    and coalesce(scope_covers.scope_account = scope_covers.line_oa_id, true)
    and case when scope_covers.scope_rule is null then true
        else scope_covers.scope_rule is not distinct from scope_covers.rule_id end;
$$;

-- Why an action of this kind is held, by the oldest pause that covers it; null where none does.
create or replace function _pgwhen.pause_reason(
    action_type text,
    line_oa_id text,
    rule_id bigint
)
returns text
language plpgsql
volatile
as $$
begin
    return (
        select p.reason
        from _pgwhen.pause as p
        where _pgwhen.pause_covers(
            p, pause_reason.action_type, pause_reason.line_oa_id, pause_reason.rule_id
        )
        order by p.id
        limit 1
    );
end;
$$;

create or replace function _pgwhen.is_paused(action_type text, line_oa_id text, rule_id bigint)
returns boolean
language plpgsql
volatile
as $$
begin
    return _pgwhen.pause_reason(action_type, line_oa_id, rule_id) is not null;
end;
$$;

-- How long an action has been under a pause between two moments: now and then several at a time.
create or replace function _pgwhen.time_paused(
    action pgwhen.scheduled_action,
    since timestamptz,
    until timestamptz
)
returns interval
language plpgsql
stable
as $$
begin
    return (
        select coalesce(sum(upper(s.span) - lower(s.span)), interval '0')
        from unnest((
            select
                range_agg(tstzrange(p.paused_at, p.resumed_at))
                * tstzmultirange(tstzrange(time_paused.since, time_paused.until))
            from (
                select h.action_type, h.line_oa_id, h.trigger_rule_id, h.paused_at, h.resumed_at
                from _pgwhen.past_pause as h
                where h.resumed_at > time_paused.since
                union all
                select n.action_type, n.line_oa_id, n.trigger_rule_id, n.paused_at, null
                from _pgwhen.pause as n
            ) as p
            where _pgwhen.scope_covers(
                p.action_type, p.line_oa_id, p.trigger_rule_id,
                time_paused.action.action_type, time_paused.action.line_oa_id,
                time_paused.action.trigger_rule_id
            )
        )) as s (span)
    );
end;
$$;

-- People who want an action to run should know what keeps it.
create or replace function _pgwhen.warn_if_paused(action pgwhen.scheduled_action)
returns void
language plpgsql
volatile
as $$
declare
    v_reason constant text := _pgwhen.pause_reason(
        action.action_type, action.line_oa_id, action.trigger_rule_id
    );
begin
    if v_reason is not null then
        raise warning 'action % is paused: %', action.id, v_reason
            using hint = 'It does not run before pgwhen.resume(…): see the view pgwhen.paused.';
    end if;
end;
$$;

create or replace function _pgwhen.pauses_type(pause _pgwhen.pause, action_type text)
returns boolean
language sql
immutable
as $$
select
    coalesce((pauses_type.pause).action_type = pauses_type.action_type, true)
    and (pauses_type.pause).line_oa_id is null
    and (pauses_type.pause).trigger_rule_id is null;
$$;

-- Those of the types that are not paused as a whole.
create or replace function _pgwhen.unpaused_types(action_types text[])
returns text[]
language plpgsql
volatile
as $$
begin
    if not _pgwhen.any_pause() then
        return unpaused_types.action_types;
    end if;
    return array(
        select t.name
        from unnest(unpaused_types.action_types) as t (name)
        where not exists (
            select
            from _pgwhen.pause as p
            where _pgwhen.pauses_type(p, t.name)
        )
    );
end;
$$;

-- For dispatch: what is paused becomes pending rows, those without an event are `scheduled` ones;
-- the rest is returned.
create or replace function _pgwhen.set_aside(
    firings _pgwhen.firing[],
    out others _pgwhen.firing[],
    out scheduled bigint[]
)
language plpgsql
volatile
as $$
declare
    v_paused constant boolean[] := array(
        select _pgwhen.is_paused(f.action_type, f.line_oa_id, f.trigger_rule_id)
        from unnest(set_aside.firings) as f
    );
begin
    scheduled := (
        _pgwhen.write_actions(
            array(
                select s.firing
                from (select unnest(set_aside.firings) as firing, unnest(v_paused) as paused) as s
                where s.paused
            ),
            null, '{}', 0, true
        )
    ).scheduled;
    others := array(
        select s.firing
        from (select unnest(set_aside.firings) as firing, unnest(v_paused) as paused) as s
        where not s.paused
    );
end;
$$;

-- _pgwhen.lock_due while something is paused: of a window of due rows, those that no pause covers.
-- Goes on to the next window while a window has nothing else than paused rows, which it shelves,
-- but not for longer than pgwhen holds locks elsewhere. Each is twice as large as the one before,
-- for it has to pass over what those have shelved.
create or replace function _pgwhen.sift_due(action_types text[], now timestamptz, size integer)
returns _pgwhen.due
language plpgsql
volatile
as $$
declare
    v_until constant timestamptz := _pgwhen.clock() + _pgwhen.yield_after();
    v_window integer := greatest(sift_due.size, 500);
    v_sifted _pgwhen.sifted;
    v_due _pgwhen.due;
begin
    loop
        v_sifted := _pgwhen.sift(sift_due.action_types, sift_due.now, v_window);
        exit when v_sifted.ids <> '{}' or not v_sifted.shelved or _pgwhen.clock() > v_until;
        v_window := least(2 * v_window, 8000);
    end loop;
    v_due.ids := nullif(v_sifted.ids[:sift_due.size], '{}');
    v_due.asking := v_due.ids;  -- the gates are asked about each
    v_due.batches := nullif(
        array(
            select distinct a.batch_id
            from pgwhen.scheduled_action as a
            where a.id = any(v_due.ids) and a.batch_id is not null
        ),
        '{}'
    );
    return v_due;
end;
$$;

-- The first due rows of each type: those under a pause are shelved, the others returned, locked and
-- oldest due first. A pause that somebody is resuming still covers its rows, but takes no more. One
-- that covers an action covers the batch that it stays in.
-- Lock order: pauses, then scheduled_action; both SKIP LOCKED, so never waiting.
create or replace function _pgwhen.sift(action_types text[], now timestamptz, size integer)
returns _pgwhen.sifted
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_lasting constant bigint[] := array(
        select p.id from _pgwhen.pause as p order by p.id for key share skip locked
    );
    v_sifted _pgwhen.sifted := row('{}', false)::_pgwhen.sifted;
    v_seen record;
begin
    for v_seen in
        select s.covered, s.pause_id, array_agg(s.id order by s.execute_at, s.id) as ids
        from (
            select d.id, d.execute_at, c.covered, c.pause_id
            from (select distinct u from unnest(sift.action_types) as u) as t (action_type)
            cross join lateral _pgwhen.bound('due:' || t.action_type) as b
            cross join lateral (
                select a.id, a.execute_at, a.line_oa_id, a.trigger_rule_id, a.batch_id
                from pgwhen.scheduled_action as a
                where
                    a.status = 'pending'
                    and not a.waiting
                    and a.held_by is null
                    and a.action_type = t.action_type
                    and (a.execute_at, a.id) > (b.since, b.since_id)
                    and a.execute_at <= sift.now
                    and (a.batch_id is null or _pgwhen.has_batch(a.batch_id))
                order by a.execute_at, a.id
                limit sift.size
                for no key update skip locked
            ) as d
            cross join lateral (
                select
                    count(*) > 0 as covered,
                    min(p.id) filter (where p.id = any(v_lasting)) as pause_id
                from _pgwhen.pause as p
                where
                    _pgwhen.pause_covers(p, t.action_type, d.line_oa_id, d.trigger_rule_id)
                    or d.batch_id is not null and _pgwhen.pause_stops_batch(p, d.batch_id)
            ) as c
        ) as s
        group by s.covered, s.pause_id
    loop
        if not v_seen.covered then
            v_sifted.ids := v_seen.ids;
        elsif v_seen.pause_id is not null then
            update pgwhen.scheduled_action as a
            set held_by = v_seen.pause_id
            where a.id = any(v_seen.ids);
            v_sifted.shelved := true;
        end if;
    end loop;
    return v_sifted;
end;
$$;
