-- What kills a backend, or runs out of its statement_timeout, cannot be caught where it happens.
-- The caller that lost its call knows, and says so by process_events(…, suspect => true): that
-- call only marks the batch, or halves the marked one, and is committed; the plain call after it
-- tries exactly what is marked. Halving ends at one event, which is then tried alone: rule by rule,
-- with nothing done now, so that a SQL action which kills its backend becomes a pending row and
-- fails by itself. If not even that survives, the event is parked: moved to the processed events
-- with a reason, and logged.
--
-- Where the server itself has been started since the mark, that is why the call was lost, and the
-- same events are tried again: a restart must not look like a bad event.

create or replace function _pgwhen.mark_suspect(worker text, batch_size integer)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old _pgwhen.suspect;
    v_ids bigint[];
    v_half integer;
begin
    select s.* into v_old from _pgwhen.suspect as s where s.worker = mark_suspect.worker for update;

    if not found then
        v_ids := (_pgwhen.take(mark_suspect.worker, mark_suspect.batch_size)).ids;
        if v_ids <> '{}' then
            insert into _pgwhen.suspect (worker, trying, remaining, marked_at)
            values (mark_suspect.worker, v_ids, '{}', _pgwhen.clock());
        end if;
        return;
    end if;

    if v_old.marked_at < pg_postmaster_start_time() then
        update _pgwhen.suspect as s
        set marked_at = _pgwhen.clock()
        where s.worker = mark_suspect.worker;
        return;
    end if;

    v_half := cardinality(v_old.trying) / 2;
    if v_half = 0 then
        if exists (select from _pgwhen.outbox as o where o.id = v_old.trying[1]) then
            if not v_old.alone then
                update _pgwhen.suspect as s
                set alone = true, marked_at = _pgwhen.clock()
                where s.worker = mark_suspect.worker;
                return;
            end if;
            if _pgwhen.can_be_had(v_old.trying) = '{}' then
                return;  -- somebody else is at it; the mark stays for the next call
            end if;
            perform _pgwhen.park_event(
                v_old.trying[1], 'it ended the connection or ran out of statement_timeout'
            );
        end if;
        perform _pgwhen.next_suspect(mark_suspect.worker);
    else
        update _pgwhen.suspect as s
        set
            trying = v_old.trying[:v_half],
            remaining = v_old.trying[v_half + 1:] || v_old.remaining,
            marked_at = _pgwhen.clock()
        where s.worker = mark_suspect.worker;
    end if;
end;
$$;

-- The marked events that are still there, and whose buckets can be had.
create or replace function _pgwhen.take_suspect(worker text)
returns _pgwhen.batch
language plpgsql
as $$
declare
    v_suspect _pgwhen.suspect;
    v_batch _pgwhen.batch;
begin
    select s.* into v_suspect from _pgwhen.suspect as s where s.worker = take_suspect.worker;
    v_batch.ids := _pgwhen.can_be_had(v_suspect.trying);
    v_batch.more := true;
    v_batch.alone := v_suspect.alone;
    perform _pgwhen.next_suspect(take_suspect.worker);
    return v_batch;
end;
$$;

-- Those of the events that still wait and whose buckets this transaction can lock, read after the
-- locks are held.
create or replace function _pgwhen.can_be_had(ids bigint[])
returns bigint[]
language plpgsql
as $$
declare
    v_buckets smallint[];
begin
    select array_agg(b.bucket)
    into v_buckets
    from (
        select distinct o.bucket from _pgwhen.outbox as o where o.id = any(can_be_had.ids)
    ) as b
    where pg_try_advisory_xact_lock(_pgwhen.bucket_class(), b.bucket);

    return array(
        select o.id
        from _pgwhen.outbox as o
        where o.id = any(can_be_had.ids) and o.bucket = any(v_buckets)
        order by o.id
    );
end;
$$;

-- The marked part is done with (committed together with what was made of it): on to the rest.
create or replace function _pgwhen.next_suspect(worker text)
returns void
language sql
volatile
as $$
delete from _pgwhen.suspect as s
where s.worker = next_suspect.worker and s.remaining = '{}';

update _pgwhen.suspect as s
set trying = s.remaining, remaining = '{}', alone = false, marked_at = _pgwhen.clock()
where s.worker = next_suspect.worker;
$$;

-- Out of the way, but not out of sight: among the processed events with the reason, and in the log.
create or replace function _pgwhen.park_event(event_id bigint, reason text)
returns void
language plpgsql
as $$
declare
    v_events constant _pgwhen.outbox[] := _pgwhen.withdraw(
        array[park_event.event_id], park_event.reason
    );
begin
    perform _pgwhen.settle(array(
        select _pgwhen.ending_of(
            _pgwhen.firing_of(e::_pgwhen.outbox, null), 'failed',
            'event parked: ' || park_event.reason
        )
        from unnest(v_events) as e
    ));
end;
$$;

-- For run_ticks(), which has nobody to tell it that its last run died: it marks each batch before
-- it tries it. A mark whose backend is gone is a batch that killed it.
create or replace function _pgwhen.mark_batch(worker text)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from _pgwhen.suspect as s where s.worker = mark_batch.worker) then
        perform _pgwhen.mark_suspect(mark_batch.worker, null);
    end if;
    return exists (select from _pgwhen.suspect as s where s.worker = mark_batch.worker);
end;
$$;

create or replace function _pgwhen.adopt_suspects(worker text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from _pgwhen.suspect as s where s.worker = adopt_suspects.worker) then
        update _pgwhen.suspect as s
        set worker = adopt_suspects.worker
        where s.worker = (
            select o.worker
            from _pgwhen.suspect as o
            where
                o.worker like 'run\_ticks:%'
                and not exists (
                    select
                    from pg_stat_activity as b
                    where 'run_ticks:' || b.pid = o.worker
                )
            order by o.marked_at
            limit 1
            for update skip locked
        );
        if not found then
            return;
        end if;
    end if;
    perform _pgwhen.mark_suspect(adopt_suspects.worker, null);
end;
$$;
