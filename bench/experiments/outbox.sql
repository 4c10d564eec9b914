-- The outbox that was not built: events are only appended; each bucket of users has a cut, and what is
-- to be done is what is visible now and was not at the cut, as in PgQ. Columns as in _pgwhen.outbox.
-- All that processes has plans of one kind, so that the ways are compared and not their plans.

create schema appended;

create table appended.event (
    like _pgwhen.outbox including defaults,
    txid xid8 not null default pg_current_xact_id()
) partition by range (created_at);

create sequence appended.event_id;
alter table appended.event alter column id set default nextval('appended.event_id');

-- What finds the events of a batch, and the archive's index on the user's history.
create index event_cut_idx on appended.event (bucket, txid, id);
create index event_user_idx on appended.event (user_id, id);

create table appended.event_now partition of appended.event default;

-- Between two cuts a bucket may hold more than a batch (one UPDATE of a million rows is one
-- transaction), so a cut is done step by step: up to last_id of what lies between done and upto.
create table appended.cut (
    bucket smallint not null,
    done pg_snapshot not null,
    upto pg_snapshot not null,
    last_id bigint not null,
    constraint cut_pkey primary key (bucket)
) with (fillfactor = 50);

insert into appended.cut (bucket, done, upto, last_id)
select b, pg_current_snapshot(), pg_current_snapshot(), 0
from generate_series(0, 63) as b;

-- One batch: its events, and the cuts moved. Returns how many events.
create function appended.process(batch_size integer)
returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now constant pg_snapshot := pg_current_snapshot();
    v_ids bigint[];
begin
    with open as materialized (
        select
            c.bucket,
            c.done,
            case when c.last_id = 0 then v_now else c.upto end as upto,
            c.last_id
        from appended.cut as c
        where pg_try_advisory_xact_lock(7079, c.bucket)
    ),
    batch as materialized (
        select e.bucket, e.id
        from open as o
        cross join lateral (
            (
                select e.bucket, e.id
                from appended.event as e
                where
                    e.bucket = o.bucket
                    and e.txid >= pg_snapshot_xmax(o.done)
                    and e.txid < pg_snapshot_xmax(o.upto)
                    and e.id > o.last_id
                    and pg_visible_in_snapshot(e.txid, o.upto)
            )
            union all
            (
                select e.bucket, e.id
                from pg_snapshot_xip(o.done) as x (xid)
                inner join appended.event as e on e.bucket = o.bucket and e.txid = x.xid
                where e.id > o.last_id and pg_visible_in_snapshot(x.xid, o.upto)
            )
        ) as e
        order by e.id
        limit process.batch_size
    ),
    reached as (
        select b.bucket, max(b.id) as last_id from batch as b group by b.bucket
    ),
    moved as (
        update appended.cut as c
        set
            done = case when f.is_full then c.done else o.upto end,
            upto = o.upto,
            last_id = case when f.is_full then greatest(r.last_id, o.last_id, 1) else 0 end
        from open as o
        left join reached as r on r.bucket = o.bucket
        cross join (select count(*) = process.batch_size as is_full from batch) as f
        where c.bucket = o.bucket and (f.is_full or o.upto::text <> o.done::text)
    )
    select array_agg(b.id) into v_ids from batch as b;

    return coalesce(cardinality(v_ids), 0);
end;
$$;

-- The outbox that was built, with its own steps: take, withdraw, archive.
create schema deleted;

create function deleted.process(batch_size integer)
returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_events _pgwhen.outbox[] := _pgwhen.withdraw(
        (_pgwhen.take('experiment', process.batch_size)).ids
    );
begin
    perform _pgwhen.archive(v_events);
    return cardinality(v_events);
end;
$$;

-- The same without the floor: what a scan from the first row meets.
create function deleted.process_without_floor(batch_size integer)
returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_events _pgwhen.outbox[];
begin
    v_events := _pgwhen.withdraw(array(
        select o.id from _pgwhen.outbox as o order by o.id limit process_without_floor.batch_size
    ));
    perform _pgwhen.archive(v_events);
    return cardinality(v_events);
end;
$$;

-- Events to write, ready made.
create table appended.sample as
select
    _pgwhen.bucket('default', 'U' || i) as bucket,
    'default'::text as line_oa_id,
    'U' || i as user_id,
    'attribute_changed'::text as type,
    array['*', 'points'] as keys,
    'points'::text as key,
    to_jsonb(i % 100) as old,
    to_jsonb((i + 1) % 100) as new,
    jsonb_build_object('tier', 'gold', 'points', i % 100, 'display_name', 'Customer ' || i) as facts
from generate_series(1, 20000) as i;

create procedure appended.write(first integer, last integer)
language sql
as $$
insert into appended.event
    (bucket, line_oa_id, user_id, type, keys, key, old, new, facts, at, created_at)
select s.*, clock_timestamp(), clock_timestamp()
from appended.sample as s
offset write.first limit write.last - write.first;
$$;

create procedure deleted.write(first integer, last integer)
language sql
as $$
insert into _pgwhen.outbox
    (bucket, line_oa_id, user_id, type, keys, key, old, new, facts, at, created_at)
select s.*, clock_timestamp(), clock_timestamp()
from appended.sample as s
offset write.first limit write.last - write.first;
$$;
