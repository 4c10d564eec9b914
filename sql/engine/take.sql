-- _pgwhen.take: the next batch of events for one worker, as ids in outbox order.
--
-- Order: each user has a bucket, each bucket a try-lock that lasts until the transaction ends. The
-- ids are read by a statement that begins after the locks are held, so its snapshot shows what
-- the bucket's last holder did. Buckets that somebody else holds are skipped, never waited for.
--
-- Where the scan begins: at the floor named 'outbox' (floor.sql), whose positions are outbox ids. A
-- transaction draws its ids only once it has its xid: write_events.sql, emit.sql.

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
        (
            select f from _pgwhen.floor as f where f.name = 'outbox' order by f.id desc limit 1
        ) as floor,
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

    if _pgwhen.is_ripe(v_head.floor) then
        perform _pgwhen.raise_floors(array[row(
            'outbox', v_head.floor, v_head.open, v_first, null,
            coalesce(pg_sequence_last_value('_pgwhen.outbox_id_seq'), 0)
        )::_pgwhen.scan]);
    end if;
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
