-- Floors: where a scan for the next work begins. What has been dealt with is deleted, or leaves a
-- partial index; while any old snapshot lives it stays in the way as dead rows. So the newest row
-- of _pgwhen.floor with a name says: whatever has a position <= `position` is dealt with, unless
-- its writer is one of open_xids, transactions that were in progress when the floor passed them.
-- When one of those has ended, the scan begins once at the floor that held when it was first seen,
-- and finds its late rows. Nothing is lost, and neither a long reader nor a long writer makes
-- anybody walk the dead rows again. Where many rows have one position (what is due at nine sharp),
-- `within` says how many of the next position are dealt with, by their ids.
--
-- Why that is safe. The floor row is read in the snapshot that says who is in progress, and the
-- scan comes no earlier: whoever had ended by then, the scan sees. A mark is read before the
-- marking transaction gets its own xid, and a transaction with a later xid chooses the positions of
-- its rows only once it has one, so above the mark. (The xmax of a snapshot would not do:
-- transactions that run already may have later xids.) The marking transaction has committed when
-- its row is read, so whoever has an earlier xid and is still in progress stands in that snapshot.
-- tests/concurrency/test_floor.py tries to lose an event.

-- `open` is who was in progress when `floor` was read. Who is not in it has ended, or is of
-- another cluster, from which this database was restored.
create or replace function _pgwhen.scan_from(floor _pgwhen.floor, open xid8[])
returns bigint
language plpgsql
immutable
as $$
begin
    if floor.id is null or floor.open_xids <@ scan_from.open then
        return coalesce(floor.position, 0);
    end if;
    return least(
        floor.position,
        (
            select min(o.position)
            from unnest(floor.open_xids, floor.open_positions) as o (xid, position)
            where o.xid <> all(scan_from.open)
        )
    );
end;
$$;

-- Ten times a second is enough. One from the future was made before the clock was set back.
create or replace function _pgwhen.is_ripe(floor _pgwhen.floor)
returns boolean
language sql
volatile
as $$
select extract(epoch from _pgwhen.clock() - (is_ripe.floor).made_at) between 0 and 0.1 is not true;
$$;

-- After scans that began at their floors and met `lowest`, and there `lowest_id`, first (null: met
-- nothing, or nothing with an id of its own), the floors may rise to their old marks, past whoever
-- was open at the mark and still is; what those wrote lies above the floor that held when they were
-- first seen, for until then the mark kept them out. A mark that has gone back (a clock that was
-- set) takes its floor with it.
--
-- Append-only, so that the newest row stays one index probe away while old versions cannot be
-- vacuumed; maintain() drops the old ones. A transaction that has an xid already cannot mark.
create or replace function _pgwhen.raise_floors(scans _pgwhen.scan[])
returns void
language plpgsql
volatile
as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        return;
    end if;

    insert into _pgwhen.floor
        (name, position, within, open_xids, open_positions, mark, mark_xid, made_at)
    select
        s.name, p.position, w.within, o.xids, o.positions, s.mark, pg_current_xact_id(),
        _pgwhen.clock()
    from unnest(raise_floors.scans) as s
    cross join lateral (
        select case
            when s.floor is null then 0
            else least((s.floor).mark, s.mark, s.lowest - 1)
        end as position
    ) as p
    cross join lateral (
        select case
            when p.position = s.lowest - 1 and s.lowest <= (s.floor).mark
                then coalesce(s.lowest_id - 1, 0)
            else 0
        end as within
    ) as w
    cross join lateral (
        select
            coalesce(array_agg(x.xid), '{}') as xids,
            coalesce(array_agg(coalesce(k.position, (s.floor).position)), '{}') as positions
        from unnest(s.open) as x (xid)
        left join unnest((s.floor).open_xids, (s.floor).open_positions) as k (xid, position)
            on k.xid = x.xid
        where x.xid < (s.floor).mark_xid
    ) as o
    where
        (p.position, w.within, o.xids, s.mark)
        is distinct from (
            (s.floor).position, (s.floor).within, (s.floor).open_xids, (s.floor).mark
        );
end;
$$;
