-- The listener's side of the doorbell: see sql/events/ring.sql for the writer's.
--
-- Session locks, on the connection that listens. Never a blocking one: every writer would ring, or
-- queue.

create or replace function pgwhen.try_sleep()
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_try_advisory_lock(_pgwhen.lock_class(), _pgwhen.doorbell_lock()) then
        return 'granted';
    end if;
    return case when exists (
        select
        from pg_locks as l
        where
            l.locktype = 'advisory'
            and l.database = (
                select d.oid from pg_database as d where d.datname = current_database()
            )
            and l.classid = _pgwhen.lock_class()::oid
            and l.objid = _pgwhen.doorbell_lock()::oid
            and l.mode = 'ExclusiveLock'
            and l.granted
    ) then 'listener' else 'writer' end;
end;
$$;

comment on function pgwhen.try_sleep() is
$doc$Say that this session wants to sleep until it is notified: 'granted', 'writer' or 'listener'.

granted: every event committed from now on rings; scan once more, then wait, then call wake_up().
writer: a transaction that believes a listener awake is about to commit; scan again shortly.
listener: another session sleeps already; scan once more and wait too, one second at most.

Call it on the connection that listens, outside a transaction.

  select pgwhen.try_sleep();
$doc$;

create or replace function pgwhen.wake_up()
returns boolean
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
select pg_advisory_unlock(_pgwhen.lock_class(), _pgwhen.doorbell_lock());
$$;

comment on function pgwhen.wake_up() is
$doc$End the sleep that try_sleep() granted; false (with a warning) where this session had none.

  select pgwhen.wake_up();
$doc$;
