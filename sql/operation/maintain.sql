create or replace function pgwhen.maintain(batch_size integer default 5000)
returns jsonb
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old_timeout constant text := current_setting('lock_timeout');
    v_report jsonb;
begin
    if maintain.batch_size < 1 then
        raise exception 'batch_size must be 1 or more, not %', maintain.batch_size
            using errcode = 'PW301', hint = 'Leave it out for 5000.';
    end if;
    if not pg_try_advisory_xact_lock(_pgwhen.lock_class(), _pgwhen.maintain_lock()) then
        return '{"busy": true}';
    end if;

    perform set_config('lock_timeout', '200', true);
    v_report := jsonb_build_object(
        'partitionsMade',
        _pgwhen.make_partitions('_pgwhen.processed_event', 'day', 4)
        + _pgwhen.make_partitions('pgwhen.trigger_log', 'month', 3),
        'partitionsDropped',
        _pgwhen.drop_partitions('_pgwhen.processed_event', 'eventRetention')
        + _pgwhen.drop_partitions('pgwhen.trigger_log', 'logRetention'),
        'actionsDeleted',
        _pgwhen.delete_ended_actions(maintain.batch_size)
    );
    perform _pgwhen.fold_false_counts();
    perform _pgwhen.forget_the_past();
    perform set_config('lock_timeout', v_old_timeout, true);

    insert into _pgwhen.chore as c (name, done_at)
    values ('maintain', _pgwhen.clock())
    on conflict on constraint chore_pkey do update set done_at = excluded.done_at;
    return v_report;
end;
$$;

comment on function pgwhen.maintain(integer) is
$doc$Make partitions ahead, drop those past their retention, delete finished actions; says what it did.

Retention is by the settings eventRetention, logRetention and actionRetention. Never touches an
action that is pending or processing. Deletes at most batch_size actions a call, and waits for no
lock longer than 200 ms: what it cannot have now it leaves for the next call. run_ticks() calls it
once an hour. Returns {"busy": true} where another call is at it.

  select pgwhen.maintain();
$doc$;

create or replace function _pgwhen.maintain_if_due()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select
        from _pgwhen.chore as c
        where c.name = 'maintain' and c.done_at > _pgwhen.clock() - interval '1 hour'
    ) then
        perform pgwhen.maintain();
    end if;
end;
$$;

-- Partitions for the current span and the next ones. Rows that the default partition caught
-- meanwhile (nobody maintained for a while) move into the partition that is theirs.
-- Locks: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the default partition.
create or replace function _pgwhen.make_partitions(parent regclass, span text, ahead integer)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_start timestamptz;
    v_made integer := 0;
begin
    for v_start in
        select date_trunc(span, _pgwhen.clock(), 'UTC') + i * ('1 ' || span)::interval
        from generate_series(0, ahead - 1) as i
    loop
        begin
            v_made := v_made + _pgwhen.make_partition(parent, span, v_start at time zone 'UTC');
        exception
            when lock_not_available then
                exit;
        end;
    end loop;
    return v_made;
end;
$$;

create or replace function _pgwhen.make_partition(parent regclass, span text, start timestamp)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schema text;
    v_parent text;
    v_name text;
    v_key text;
    v_from constant timestamptz := make_partition.start at time zone 'UTC';
    v_to constant timestamptz :=
        (make_partition.start + ('1 ' || make_partition.span)::interval) at time zone 'UTC';
begin
    select n.nspname, c.relname, a.attname
    into v_schema, v_parent, v_key
    from pg_class as c
    inner join pg_namespace as n on n.oid = c.relnamespace
    inner join pg_partitioned_table as p on p.partrelid = c.oid
    inner join pg_attribute as a on a.attrelid = c.oid and a.attnum = p.partattrs[0]
    where c.oid = make_partition.parent;

    v_name := v_parent || to_char(
        make_partition.start, case make_partition.span when 'day' then '_YYYYMMDD' else '_YYYYMM' end
    );
    if to_regclass(format('%I.%I', v_schema, v_name)) is not null then
        return 0;
    end if;

    execute format(
        'create table %1$I.%2$I (like %1$I.%3$I including defaults including constraints)',
        v_schema, v_name, v_parent
    );
    execute format(
        'with moved as (delete from %1$I.%2$I where %3$I >= $1 and %3$I < $2 returning *) '
        'insert into %1$I.%4$I select * from moved',
        v_schema, v_parent || '_default', v_key, v_name
    ) using v_from, v_to;
    execute format(
        'alter table %s attach partition %I.%I for values from (%L) to (%L)',
        make_partition.parent, v_schema, v_name, v_from, v_to
    );
    return 1;
end;
$$;

-- Partitions that lie wholly before the retention. Lock: ACCESS EXCLUSIVE on the parent, for as long
-- as a catalog change takes.
create or replace function _pgwhen.drop_partitions(parent regclass, retention text)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant timestamptz :=
        _pgwhen.clock() - _pgwhen.span(_pgwhen.setting(drop_partitions.retention));
    v_partition regclass;
    v_dropped integer := 0;
begin
    for v_partition in
        select i.inhrelid::regclass
        from pg_inherits as i
        inner join pg_class as c on c.oid = i.inhrelid
        where
            i.inhparent = drop_partitions.parent
            and substring(
                pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']+)'\)$re$
            )::timestamptz <= v_before
        order by c.relname
    loop
        begin
            execute format('drop table %s', v_partition);
            v_dropped := v_dropped + 1;
        exception
            when lock_not_available then
                exit;
        end;
    end loop;
    return v_dropped;
end;
$$;

create or replace function _pgwhen.delete_ended_actions(batch_size integer)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant timestamptz :=
        _pgwhen.clock() - _pgwhen.span(_pgwhen.setting('actionRetention'));
    v_deleted integer;
begin
    delete from pgwhen.scheduled_action as a
    where a.id = any(array(
        select e.id
        from pgwhen.scheduled_action as e
        where e.status in ('done', 'failed', 'cancelled') and e.updated_at < v_before
        order by e.updated_at
        limit delete_ended_actions.batch_size
        for update skip locked
    ));
    get diagnostics v_deleted = row_count;
    return v_deleted;
end;
$$;

-- One row for each rule again.
create or replace function _pgwhen.fold_false_counts()
returns void
language sql
volatile
as $$
with gone as (
    delete from _pgwhen.false_count returning trigger_rule_id, counted_at, n
)
insert into _pgwhen.false_count (trigger_rule_id, counted_at, n)
select g.trigger_rule_id, max(g.counted_at), sum(g.n)
from gone as g
group by g.trigger_rule_id;
$$;

create or replace function _pgwhen.forget_the_past()
returns void
language sql
volatile
as $$
delete from _pgwhen.outbox_floor as f
where f.id < (select max(m.id) from _pgwhen.outbox_floor as m);

delete from _pgwhen.worker as w
where w.seen_at < _pgwhen.clock() - interval '1 day';
$$;
