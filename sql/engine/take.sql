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
-- Why the mark is safe: mark_id is read from the sequence first, mark_xmax from a snapshot taken
-- after. A transaction with xid >= mark_xmax had no xid at that snapshot, and draws outbox ids only
-- once it has one (see write_events.sql and emit.sql), so all its ids are above mark_id.

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
    v_window constant integer := 4 * v_size;
    v_start constant integer := (random() * 63)::integer;
    v_snapshot constant pg_snapshot := pg_current_snapshot();
    v_floor bigint;
    v_first bigint;
    v_last bigint;
    v_seen integer;
    v_buckets smallint[];
    v_batch _pgwhen.batch;
begin
    if exists (select from _pgwhen.suspect as s where s.worker = take.worker) then
        return _pgwhen.take_suspect(take.worker);
    end if;

    v_floor := _pgwhen.scan_floor(v_snapshot);

    with peeked as materialized (
        select o.id, o.bucket
        from _pgwhen.outbox as o
        where o.id > v_floor
        order by o.id
        limit v_window
    ),
    buckets as (
        select
            p.bucket,
            sum(count(*)) over (order by (p.bucket + v_start) & 63) - count(*) as before
        from peeked as p
        group by p.bucket
    ),
    locked as materialized (
        select b.bucket
        from buckets as b
        where
            b.before < v_size
            and pg_try_advisory_xact_lock(_pgwhen.bucket_class(), b.bucket)
    )
    select
        (select min(p.id) from peeked as p),
        (select max(p.id) from peeked as p),
        (select count(*) from peeked as p),
        (select array_agg(l.bucket) from locked as l)
    into v_first, v_last, v_seen, v_buckets;

    perform _pgwhen.raise_floor(v_snapshot, v_first);

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

-- `seen` is a snapshot older than the scan's: what had ended by then, the scan sees whole.
create or replace function _pgwhen.scan_floor(seen pg_snapshot)
returns bigint
language sql
volatile
as $$
select coalesce(
    (
        select
            least(
                f.floor,
                (
                    select min(o.floor)
                    from unnest(f.open_xids, f.open_floors) as o (xid, floor)
                    where pg_catalog.pg_visible_in_snapshot(o.xid, scan_floor.seen)
                )
            )
        from _pgwhen.outbox_floor as f
        order by f.id desc
        limit 1
    ),
    0
);
$$;

-- After a scan that began at scan_floor(seen) and met lowest_id first (null: met nothing), the floor
-- may rise to the last mark, past whoever was open at the mark and still is; what those wrote lies
-- above the floor that held when they were first seen, for until then the mark kept them out.
--
-- Append-only, so that the newest row stays one index probe away while old versions cannot be
-- vacuumed: at most ten rows a second, none while nothing moves; maintain() drops the old ones.
create or replace function _pgwhen.raise_floor(seen pg_snapshot, lowest_id bigint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_old _pgwhen.outbox_floor;
    v_new _pgwhen.outbox_floor;
begin
    select f.* into v_old from _pgwhen.outbox_floor as f order by f.id desc limit 1;
    if v_old.made_at > v_now - interval '100 milliseconds' then
        return;
    end if;

    v_new.mark_id := coalesce(pg_sequence_last_value('_pgwhen.outbox_id_seq'), 0);
    v_new.mark_xmax := pg_snapshot_xmax(pg_current_snapshot());
    v_new.floor := case when v_old is null then 0
        else least(v_old.mark_id, raise_floor.lowest_id - 1) end;
    select
        coalesce(array_agg(x.xid), '{}'),
        coalesce(array_agg(coalesce(o.floor, v_old.floor)), '{}')
    into v_new.open_xids, v_new.open_floors
    from pg_snapshot_xip(raise_floor.seen) as x (xid)
    left join unnest(v_old.open_xids, v_old.open_floors) as o (xid, floor) on o.xid = x.xid
    where x.xid < v_old.mark_xmax;

    if (v_new.floor, v_new.open_xids, v_new.mark_id)
        is distinct from (v_old.floor, v_old.open_xids, v_old.mark_id)
    then
        insert into _pgwhen.outbox_floor
            (floor, open_xids, open_floors, mark_id, mark_xmax, made_at)
        values (
            v_new.floor, v_new.open_xids, v_new.open_floors,
            v_new.mark_id, v_new.mark_xmax, v_now
        );
    end if;
end;
$$;
