-- _pgwhen.take: the next batch of events for one worker, as ids in outbox order.
--
-- Order: each user has a bucket, each bucket a try-lock that lasts until the transaction ends. The
-- ids are read by a statement that begins after the locks are held, so its snapshot shows what
-- the bucket's last holder did. Buckets that somebody else holds are skipped, never waited for.
--
-- Where the scan begins: rows are deleted when processed, and while any old snapshot lives they
-- stay in the way as dead rows. So the newest row of _pgwhen.outbox_floor says: every event with
-- id <= floor is processed, unless its writer is one of open_xids, transactions that were in
-- progress when the floor passed them. When one of those has ended, the scan begins once at the
-- floor that held when it was first seen, and finds its late rows. Nothing is lost, and neither a
-- long reader nor a long writer makes anybody walk the dead rows again.
--
-- Why that is safe. The floor row is read in the snapshot that says who is in progress, and the
-- scan comes after it: whoever had ended by then, the scan sees. A mark is the last outbox id
-- that was drawn, read before the marking transaction gets its own xid: a transaction with a later
-- xid draws its ids only once it has one (write_events.sql, emit.sql), so above the mark. (The
-- xmax of a snapshot would not do: transactions that run already may have later xids.) The marking
-- transaction has committed when its row is read, so whoever has an earlier xid and is still in
-- progress stands in that snapshot. tests/concurrency/test_floor.py tries to lose an event.

create or replace function _pgwhen.take(worker text, batch_size integer)
returns _pgwhen.batch
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_size constant integer := coalesce(
        take.batch_size, (_pgwhen.setting('batchSize'))::integer
    );
    v_window constant integer := 2 * v_size;
    v_start constant integer := (random() * 63)::integer;
    v_head record;
    v_from bigint;
    v_first bigint;
    v_last bigint;
    v_seen integer;
    v_buckets smallint[];
    v_batch _pgwhen.batch;
begin
    select
        (select f from _pgwhen.outbox_floor as f order by f.id desc limit 1) as floor,
        array(select pg_snapshot_xip(pg_current_snapshot())) as open,
        exists (select from _pgwhen.suspect as s where s.worker = take.worker) as suspect
    into v_head;
    if v_head.suspect then
        return _pgwhen.take_suspect(take.worker);
    end if;

    v_from := _pgwhen.scan_from(v_head.floor, v_head.open);
    select
        min(b.first),
        max(b.last),
        sum(b.n),
        array_agg(b.bucket) filter (
            where b.before < v_size
            and pg_try_advisory_xact_lock(_pgwhen.bucket_class(), b.bucket)
        )
    into v_first, v_last, v_seen, v_buckets
    from (
        select
            p.bucket,
            min(p.id) as first,
            max(p.id) as last,
            count(*) as n,
            sum(count(*)) over (order by (p.bucket + v_start) & 63) - count(*) as before
        from (
            select o.id, o.bucket
            from _pgwhen.outbox as o
            where o.id > v_from
            order by o.id
            limit v_window
        ) as p
        group by p.bucket
    ) as b;

    perform _pgwhen.raise_floor(v_head.floor, v_head.open, v_first);
    if v_buckets is null then
        v_batch.ids := '{}';
        v_batch.more := false;
        return v_batch;
    end if;

    v_batch.ids := array(
        select o.id
        from _pgwhen.outbox as o
        where o.id between v_first and v_last and o.bucket = any(v_buckets)
        order by o.id
        limit v_size
    );
    v_batch.more := v_batch.ids <> '{}'
        and (v_seen > cardinality(v_batch.ids) or v_seen = v_window);
    return v_batch;
end;
$$;

-- `open` is who was in progress when `floor` was read. Who is not in it has ended, or is of
-- another cluster, from which this database was restored.
create or replace function _pgwhen.scan_from(floor _pgwhen.outbox_floor, open xid8[])
returns bigint
language plpgsql
immutable
as $$
begin
    if floor.id is null or floor.open_xids <@ scan_from.open then
        return coalesce(floor.floor, 0);
    end if;
    return least(
        floor.floor,
        (
            select min(o.floor)
            from unnest(floor.open_xids, floor.open_floors) as o (xid, floor)
            where o.xid <> all(scan_from.open)
        )
    );
end;
$$;

-- After a scan that began at scan_from(old, open) and met lowest_id first (null: met nothing), the
-- floor may rise to the old mark, past whoever was open at the mark and still is; what those wrote
-- lies above the floor that held when they were first seen, for until then the mark kept them out.
--
-- Append-only, so that the newest row stays one index probe away while old versions cannot be
-- vacuumed: about ten rows a second, none while nothing moves; maintain() drops the old ones.
-- A transaction that has an xid already cannot mark.
create or replace function _pgwhen.raise_floor(
    old _pgwhen.outbox_floor,
    open xid8[],
    lowest_id bigint
)
returns void
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_new _pgwhen.outbox_floor;
begin
    if old.made_at > v_now - interval '100 milliseconds'
        or pg_current_xact_id_if_assigned() is not null
    then
        return;
    end if;

    v_new.mark_id := coalesce(pg_sequence_last_value('_pgwhen.outbox_id_seq'), 0);
    v_new.floor := case when old.id is null then 0
        else least(old.mark_id, raise_floor.lowest_id - 1) end;
    select
        coalesce(array_agg(x.xid), '{}'),
        coalesce(array_agg(coalesce(o.floor, old.floor)), '{}')
    into v_new.open_xids, v_new.open_floors
    from unnest(raise_floor.open) as x (xid)
    left join unnest(old.open_xids, old.open_floors) as o (xid, floor) on o.xid = x.xid
    where x.xid < old.mark_xid;

    if (v_new.floor, v_new.open_xids, v_new.mark_id)
        is distinct from (old.floor, old.open_xids, old.mark_id)
    then
        insert into _pgwhen.outbox_floor
            (floor, open_xids, open_floors, mark_id, mark_xid, made_at)
        values (
            v_new.floor, v_new.open_xids, v_new.open_floors,
            v_new.mark_id, pg_current_xact_id(), v_now
        );
    end if;
end;
$$;
