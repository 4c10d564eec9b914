-- The identity of batches. Actions of a type with the option batch, n, go out together, up to n of
-- one account, in one call and under one key, which derives from batch_id. A claim writes the id;
-- the retry of something that may have been sent has to have the same key, and so the same members.
--
-- keeps_batch says that it may: an attempt in this batch has ended and nobody knows how. Such
-- actions stay in their batch whatever comes of later attempts, never get a fresh one among them,
-- and are claimed all or none. All: what is pending of the batch, and nothing of it running, or
-- else in somebody's hands. What has ended meanwhile makes it smaller; the far side's memory of the
-- key, and the worker's of what it sent under it, then keep it from being sent twice.
--
-- So pending rows have a batch_id where they keep it; running ones where their type has batches;
-- ended ones keep what they had last, unless it is known that nothing was sent: retry_action() then
-- knows what to do.
--
-- Batches are looked up along idx_scheduled_action_batch. Who looks for some states only asks by
-- CASE, from which no plan can prove that another partial index fits, and walk that from end to
-- end.

-- Fresh batches for those of the actions that need one, as {"id of the action": "id of the batch"}
-- in the order in which they are due; null where none does.
create or replace function _pgwhen.new_batches(ids bigint[], action_types text[])
returns jsonb
language plpgsql
volatile
as $$
declare
    v_sizes constant jsonb := _pgwhen.batch_sizes(new_batches.action_types);
begin
    if v_sizes is null or new_batches.ids = '{}' then
        return null;
    end if;
    return (
        select _pgwhen.dealt(
            array_agg(a.id order by a.execute_at, a.id),
            array_agg(a.action_type order by a.execute_at, a.id),
            array_agg(a.line_oa_id order by a.execute_at, a.id),
            v_sizes
        )
        from pgwhen.scheduled_action as a
        where
            a.id = any(new_batches.ids)
            and a.batch_id is null
            and v_sizes ? a.action_type
    );
end;
$$;

-- The same for what a pass is about to write, by the places of the firings.
create or replace function _pgwhen.batches_of_firings(
    firings _pgwhen.firing[],
    action_types text[]
)
returns jsonb
language plpgsql
volatile
as $$
declare
    v_sizes constant jsonb := _pgwhen.batch_sizes(batches_of_firings.action_types);
begin
    if v_sizes is null then
        return null;
    end if;
    return (
        select _pgwhen.dealt(
            array_agg(f.ordinality order by f.event_id, f.trigger_rule_id),
            array_agg(f.action_type order by f.event_id, f.trigger_rule_id),
            array_agg(f.line_oa_id order by f.event_id, f.trigger_rule_id),
            v_sizes
        )
        from unnest(batches_of_firings.firings) with ordinality as f
        where v_sizes ? f.action_type
    );
end;
$$;

-- {"number": "id of its batch"} for numbers in their order, each with its type and account; null
-- for none.
create or replace function _pgwhen.dealt(
    numbers bigint[],
    action_types text[],
    line_oa_ids text[],
    sizes jsonb
)
returns jsonb
language plpgsql
volatile
as $$
begin
    return (
        select jsonb_object_agg(i.number, b.batch_id)
        from (
            select gen_random_uuid() as batch_id, array_agg(n.number) as numbers
            from (
                select
                    d.number, d.action_type, d.line_oa_id,
                    row_number() over (
                        partition by d.action_type, d.line_oa_id order by d.place
                    ) as n
                from unnest(
                    dealt.numbers, dealt.action_types, dealt.line_oa_ids
                ) with ordinality as d (number, action_type, line_oa_id, place)
            ) as n
            group by
                n.action_type, n.line_oa_id, (n.n - 1) / (dealt.sizes -> n.action_type)::integer
        ) as b
        cross join lateral unnest(b.numbers) as i (number)
    );
end;
$$;

-- Of the types that go out in batches, how many at most, by name; null where none does.
create or replace function _pgwhen.batch_sizes(action_types text[])
returns jsonb
language plpgsql
stable
as $$
begin
    return (
        select jsonb_object_agg(t.name, t.options -> 'batch')
        from _pgwhen.action_type as t
        where
            t.name = any(batch_sizes.action_types)
            and t.kind = 'python'
            and (t.options -> 'batch')::integer > 1
    );
end;
$$;

-- Whether this claim may look at a batch: whoever comes first to any of its rows has all of them.
-- Else two claims could each lock a half, and neither would ever get it whole. A thousand locks do
-- for any number of batches, for the server has room for some thousands in all; who meets a lock
-- that is held for another batch comes again.
create or replace function _pgwhen.has_batch(batch_id uuid)
returns boolean
language plpgsql
volatile
as $$
begin
    return pg_try_advisory_xact_lock(_pgwhen.batch_class(), uuid_hash(has_batch.batch_id) & 1023);
end;
$$;

-- What is due, with the batches that any of it stays in whole, or not at all: those that fit, and
-- what comes first of all even if it does not, or it never would. Then the others, as many as there
-- is room for. Batches that cannot be had now are looked at again later.
--
-- Lock order: the batches' advisory locks are held, by which no other claim is at these rows; then
-- scheduled_action, SKIP LOCKED, so never waiting. What is counted is read after that: whoever is
-- not among the locked is being changed, runs, or is not due.
create or replace function _pgwhen.whole_batches(due _pgwhen.due, now timestamptz, size integer)
returns _pgwhen.due
language plpgsql
volatile
as $$
declare
    v_locked constant bigint[] := array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.batch_id = any((whole_batches.due).batches)
            and not a.waiting
            and a.status in ('pending', 'processing')
            and case a.status when 'pending'
                then a.held_by is null and a.execute_at <= whole_batches.now end
        for no key update skip locked
    );
    v_taken uuid[];
    v_broken uuid[];
    v_due _pgwhen.due;
begin
    select
        array_agg(b.batch_id) filter (where b.is_whole and (b.is_first or b.sum <= size)),
        array_agg(b.batch_id) filter (where not b.is_whole)
    into v_taken, v_broken
    from (
        select
            m.*,
            sum(m.members) over (partition by m.is_whole order by m.execute_at, m.id) as sum
        from (
            select
                a.batch_id, count(*) as members, count(l.id) = count(*) as is_whole,
                bool_or(a.id = (whole_batches.due).ids[1]) as is_first,
                min(a.execute_at) as execute_at, min(a.id) as id
            from pgwhen.scheduled_action as a
            left join unnest(v_locked) as l (id) on l.id = a.id
            where
                a.batch_id = any((whole_batches.due).batches)
                and not a.waiting
                and a.status in ('pending', 'processing')
            group by a.batch_id
        ) as m
    ) as b;
    if v_broken is not null then
        perform _pgwhen.put_off_batches(v_broken, v_locked, whole_batches.now);
    end if;

    v_due.ids := array(
        select a.id
        from pgwhen.scheduled_action as a
        inner join unnest(v_taken) as t (batch_id) on t.batch_id = a.batch_id
        where a.id = any(v_locked)
    );
    v_due.asking := v_due.ids;
    v_due.ids := v_due.ids || array(
        select d.id
        from unnest((whole_batches.due).ids) with ordinality as d (id, place)
        left join unnest(v_locked) as l (id) on l.id = d.id
        where l.id is null
        order by d.place
        limit greatest(0, whole_batches.size - cardinality(v_due.ids))
    );
    v_due.rules := (whole_batches.due).rules;
    v_due.asking := v_due.asking || array(
        select unnest((whole_batches.due).asking)
        intersect
        select unnest(v_due.ids)
        except
        select unnest(v_due.asking)
    );
    return v_due;
end;
$$;

-- What a claim has locked of batches that it cannot have whole, to when it may: all when the last
-- of each is due; a moment later where somebody has locked one, or one still runs. So it is in
-- nobody's way meanwhile, however long that is.
create or replace function _pgwhen.put_off_batches(
    batches uuid[],
    locked bigint[],
    now timestamptz
)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
begin
    update pgwhen.scheduled_action as a
    set
        execute_at = m.execute_at,
        (startable_at, deadline) = (
            select t.startable_at, t.start_by from _pgwhen.term_of(a, m.execute_at) as t
        ),
        updated_at = put_off_batches.now
    from (
        select
            l.batch_id,
            greatest(
                put_off_batches.now + interval '1 second',
                max(l.execute_at) filter (where l.status = 'pending'),
                max(least(l.deadline, put_off_batches.now + interval '10 seconds')) filter (
                    where l.status = 'processing'
                )
            ) as execute_at
        from pgwhen.scheduled_action as l
        where
            l.batch_id = any(put_off_batches.batches)
            and not l.waiting
            and l.status in ('pending', 'processing')
        group by l.batch_id
    ) as m
    where a.batch_id = m.batch_id and a.id = any(put_off_batches.locked);
end;
$$;

-- Whether the pause covers any that stays in the batch.
create or replace function _pgwhen.pause_stops_batch(pause _pgwhen.pause, batch_id uuid)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select
        from pgwhen.scheduled_action as a
        where
            a.batch_id = pause_stops_batch.batch_id
            and not a.waiting
            and a.status in ('pending', 'processing')
            and _pgwhen.pause_covers(pause, a.action_type, a.line_oa_id, a.trigger_rule_id)
    );
end;
$$;

-- An action whose row is locked, and what is pending in the batch that it stays in, locked too: but
-- for what somebody else has locked, so that two people who move two of a batch, each with a lock
-- of its own already, do not wait for each other.
create or replace function _pgwhen.with_its_batch(action pgwhen.scheduled_action)
returns bigint[]
language plpgsql
volatile
as $$
begin
    if not action.keeps_batch or action.waiting then
        return array[action.id];
    end if;
    return array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.batch_id = with_its_batch.action.batch_id
            and not a.waiting
            and a.status in ('pending', 'processing')
            and case a.status when 'pending' then true end
        for no key update skip locked
    );
end;
$$;

-- The keys of those of the batches of which nothing is pending or runs.
create or replace function _pgwhen.keys_of_ended(batches uuid[])
returns uuid[]
language plpgsql
stable
as $$
begin
    return array(
        select _pgwhen.batch_key(b.id)
        from unnest(keys_of_ended.batches) as b (id)
        where not exists (
            select
            from pgwhen.scheduled_action as a
            where
                a.batch_id = b.id
                and not a.waiting
                and a.status in ('pending', 'processing')
        )
    );
end;
$$;
