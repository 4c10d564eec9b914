-- What is due: along idx_scheduled_action_pending for each type, idx_scheduled_action_processing
-- for deadlines, idx_scheduled_action_waiting for expiries, two more for what is to have been
-- started and done, each scan from its floor (floor.sql).
-- Positions are times in microseconds; of rows with the same time the lower id comes first. So
-- whoever makes a row due reads the clock by write_clock(), and makes it due no earlier. A row that
-- is below its floor all the same (a clock that went back, a write as a replica) is found by
-- lower_floors().

-- The clock, for a transaction that has its id before it reads it.
create or replace function _pgwhen.write_clock()
returns timestamptz
language plpgsql
volatile
as $$
begin
    perform pg_current_xact_id();
    return _pgwhen.clock();
end;
$$;

create or replace function _pgwhen.position_of(at timestamptz)
returns bigint
language sql
stable
as $$
select case when position_of.at is not null then (  -- which least() would pass over
    1000000 * extract(epoch from greatest(
        timestamptz '0001-01-01 00:00Z',
        least(position_of.at, timestamptz '9999-12-31 00:00Z')
    ))
)::bigint end;
$$;

create or replace function _pgwhen.time_of(place bigint)
returns timestamptz
language sql
stable
as $$
select timestamptz 'epoch' + time_of.place * interval '1 microsecond';
$$;

-- From when on to look, that instant included, by the newest floor and who is in progress. A floor
-- in the future is one from before the clock was set back.
create or replace function _pgwhen.since(floor _pgwhen.floor, open xid8[])
returns timestamptz
language plpgsql
stable
as $$
declare
    v_since constant timestamptz := _pgwhen.time_of(
        _pgwhen.scan_from(since.floor, since.open) + 1
    );
begin
    return case when v_since <= _pgwhen.clock() then v_since else '-infinity' end;
end;
$$;

-- The newest floor of a name, and where to begin to look by it: at `since`, beyond `since_id`.
-- Inlined where it is called.
create or replace function _pgwhen.bound(floor_name text)
returns table (floor _pgwhen.floor, open xid8[], since timestamptz, since_id bigint)
language sql
stable
as $$
select
    n.floor,
    n.open,
    case when n.floor is null then '-infinity' else _pgwhen.since(n.floor, n.open) end,
    case when (n.floor).open_xids <@ n.open then (n.floor).within else 0 end
from (
    select
        (
            select f
            from _pgwhen.floor as f
            where f.name = bound.floor_name
            order by f.id desc
            limit 1
        ) as floor,
        array(select pg_catalog.pg_snapshot_xip(pg_catalog.pg_current_snapshot())) as open
    offset 0
) as n;
$$;

-- For a scan of its own statement, in which the time is a bound of the index under any plan.
create or replace function _pgwhen.scan_since(floor_name text)
returns timestamptz
language plpgsql
volatile
as $$
begin
    return (select b.since from _pgwhen.bound(scan_since.floor_name) as b);
end;
$$;

-- When the first action of a type that nobody has claimed is due, between two times: what was moved
-- or cancelled before it was due is in the way above as well.
create or replace function _pgwhen.first_due(
    action_type text,
    since timestamptz,
    since_id bigint,
    until timestamptz
)
returns table (at timestamptz, id bigint)
language sql
stable
as $$
select a.execute_at, a.id
from pgwhen.scheduled_action as a
where
    a.status = 'pending'
    and not a.waiting
    and a.held_by is null
    and a.action_type = first_due.action_type
    and (a.execute_at, a.id) > (first_due.since, first_due.since_id)
    and a.execute_at <= first_due.until
order by a.execute_at, a.id
limit 1;
$$;

create or replace function _pgwhen.first_deadline(since timestamptz, until timestamptz)
returns setof timestamptz
language sql
stable
as $$
select a.deadline
from pgwhen.scheduled_action as a
where
    a.status = 'processing'
    and a.deadline >= first_deadline.since
    and a.deadline <= first_deadline.until
order by a.deadline
limit 1;
$$;

-- When the first pending action is to have been started, and to have been done.
create or replace function _pgwhen.first_start(since timestamptz, until timestamptz)
returns setof timestamptz
language sql
stable
as $$
select a.deadline
from pgwhen.scheduled_action as a
where
    a.status = 'pending'
    and a.held_by is null
    and a.deadline >= first_start.since
    and a.deadline <= first_start.until
order by a.deadline
limit 1;
$$;

create or replace function _pgwhen.first_close(since timestamptz, until timestamptz)
returns setof timestamptz
language sql
stable
as $$
select a.close_by
from pgwhen.scheduled_action as a
where a.status = 'pending' and a.close_by >= first_close.since and a.close_by <= first_close.until
order by a.close_by
limit 1;
$$;

create or replace function _pgwhen.first_expiry(
    since timestamptz,
    since_id bigint,
    until timestamptz
)
returns table (at timestamptz, id bigint)
language sql
stable
as $$
select a.expires_at, a.id
from pgwhen.scheduled_action as a
where
    a.status = 'pending'
    and a.waiting
    and (a.expires_at, a.id) > (first_expiry.since, first_expiry.since_id)
    and a.expires_at <= first_expiry.until
order by a.expires_at, a.id
limit 1;
$$;

-- Looks ahead no further than a listener sleeps.
create or replace function _pgwhen.next_due_seconds(action_types text[])
returns float8
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_until constant timestamptz := v_now + interval '2 seconds';
begin
    return extract(epoch from least(
        (
            select min(d.at)
            from (
                select u from unnest(next_due_seconds.action_types) as u
                union all
                select t.name from _pgwhen.action_type as t where t.kind = 'sql'
            ) as t (name)
            cross join lateral _pgwhen.bound('due:' || t.name) as b
            cross join lateral _pgwhen.first_due(t.name, b.since, b.since_id, v_until) as d
            where not exists (
                select from _pgwhen.pause as p where _pgwhen.pauses_type(p, t.name)
            )
        ),
        (
            select d.at
            from _pgwhen.bound('expiry') as b
            cross join lateral _pgwhen.first_expiry(b.since, b.since_id, v_until) as d
        )
    ) - v_now);
end;
$$;

-- The lowest position, and there the lowest id, between two times of what the floor of that name is
-- about. Deadlines are those of whole claims: their order within an instant has no bound; nor has
-- that of the terms of pending actions.
create or replace function _pgwhen.lowest(
    floor_name text,
    since timestamptz,
    since_id bigint,
    until timestamptz,
    out place bigint,
    out id bigint
)
language plpgsql
stable
as $$
declare
    v_at timestamptz;
begin
    if lowest.floor_name = 'deadline' then
        select d into v_at from _pgwhen.first_deadline(lowest.since, lowest.until) as d;
    elsif lowest.floor_name = 'start' then
        select d into v_at from _pgwhen.first_start(lowest.since, lowest.until) as d;
    elsif lowest.floor_name = 'close' then
        select d into v_at from _pgwhen.first_close(lowest.since, lowest.until) as d;
    elsif lowest.floor_name = 'expiry' then
        select d.at, d.id into v_at, lowest.id
        from _pgwhen.first_expiry(lowest.since, lowest.since_id, lowest.until) as d;
    elsif lowest.floor_name like 'due:%' then
        select d.at, d.id into v_at, lowest.id
        from _pgwhen.first_due(
            substr(lowest.floor_name, 5), lowest.since, lowest.since_id, lowest.until
        ) as d;
    end if;
    lowest.place := _pgwhen.position_of(v_at);
end;
$$;

-- Before a scan that goes by these floors, and before its transaction has an id.
create or replace function _pgwhen.raise_time_floors(floor_names text[])
returns void
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    perform _pgwhen.raise_floors(array(
        select row(
            n.name, b.floor, b.open, l.place, l.id, _pgwhen.position_of(v_now) - 1
        )::_pgwhen.scan
        from unnest(raise_time_floors.floor_names) as n (name)
        cross join lateral _pgwhen.bound(n.name) as b
        cross join lateral _pgwhen.lowest(n.name, b.since, b.since_id, v_now) as l
        where _pgwhen.is_ripe(b.floor)
    ));
end;
$$;

create or replace function _pgwhen.raise_due_floors(action_types text[])
returns void
language plpgsql
volatile
as $$
begin
    perform _pgwhen.raise_time_floors(
        array(select 'due:' || u from unnest(raise_due_floors.action_types) as u)
    );
end;
$$;

-- Walks everything, once a minute: a row below its floor takes the floor down to it.
create or replace function _pgwhen.lower_floors()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    if not _pgwhen.chore_is_due('lower_floors', interval '1 minute') then
        return;
    end if;

    insert into _pgwhen.floor
        (name, position, within, open_xids, open_positions, mark, mark_xid, made_at)
    select
        f.name, l.place - 1, coalesce(l.id - 1, 0), f.open_xids, f.open_positions, f.mark,
        f.mark_xid, _pgwhen.clock()
    from (
        select distinct on (n.name) n.* from _pgwhen.floor as n order by n.name, n.id desc
    ) as f
    cross join lateral _pgwhen.lowest(
        f.name, '-infinity', 0, _pgwhen.time_of(f.position + 1)
    ) as l
    where (l.place, coalesce(l.id, 1)) <= (f.position + 1, f.within);
end;
$$;
