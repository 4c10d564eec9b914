-- Time partitions of the tables that only grow. They are made days ahead, at deploy and by
-- maintain(), so that the default partitions, which are there in case nobody maintains, stay empty.

create or replace function _pgwhen.make_all_partitions()
returns integer
language sql
volatile
as $$
select
    _pgwhen.make_partitions('_pgwhen.processed_event', 'processed_at', 'day', 4)
    + _pgwhen.make_partitions('pgwhen.trigger_log', 'created_date', 'month', 3);
$$;

-- Partitions for the current span and the next ones, and for those whose rows the default partition
-- caught meanwhile (nobody maintained for a while): they move into the partition that is theirs,
-- where retention finds them.
-- Locks: SHARE UPDATE EXCLUSIVE on the parent, ACCESS EXCLUSIVE on the default partition.
create or replace function _pgwhen.make_partitions(
    parent regclass,
    key name,
    span text,
    ahead integer
)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_start timestamptz;
    v_made integer := 0;
begin
    for v_start in execute format(
        'select date_trunc($1, $2, ''UTC'') + i * (''1 '' || $1)::interval '
        'from generate_series(0, $3 - 1) as i '
        'union select date_trunc($1, d.%1$I, ''UTC'') from %2$s_default as d where d.%1$I < $2 '
        'order by 1',
        make_partitions.key, make_partitions.parent
    ) using make_partitions.span, v_now, make_partitions.ahead
    loop
        begin
            v_made := v_made
                + _pgwhen.make_partition(parent, key, span, v_start at time zone 'UTC');
        exception
            when lock_not_available then
                exit;
        end;
    end loop;
    return v_made;
end;
$$;

create or replace function _pgwhen.make_partition(
    parent regclass,
    key name,
    span text,
    start timestamp
)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_schema text;
    v_parent text;
    v_name text;
    v_from constant timestamptz := make_partition.start at time zone 'UTC';
    v_to constant timestamptz :=
        (make_partition.start + ('1 ' || make_partition.span)::interval) at time zone 'UTC';
begin
    select n.nspname, c.relname
    into v_schema, v_parent
    from pg_class as c
    inner join pg_namespace as n on n.oid = c.relnamespace
    where c.oid = make_partition.parent;

    v_name := v_parent || to_char(
        make_partition.start,
        case make_partition.span when 'day' then '_YYYYMMDD' else '_YYYYMM' end
    );
    if to_regclass(format('%I.%I', v_schema, v_name)) is not null then
        return 0;
    end if;

    execute format('lock table %I.%I in access exclusive mode', v_schema, v_parent || '_default');
    execute format(
        'create table %1$I.%2$I (like %1$I.%3$I including defaults including constraints)',
        v_schema, v_name, v_parent
    );
    execute format(
        'with moved as (delete from %1$I.%2$I where %3$I >= $1 and %3$I < $2 returning *) '
        'insert into %1$I.%4$I select * from moved',
        v_schema, v_parent || '_default', make_partition.key, v_name
    ) using v_from, v_to;
    execute format(
        'alter table %s attach partition %I.%I for values from (%L) to (%L)',
        make_partition.parent, v_schema, v_name, v_from, v_to
    );
    return 1;
end;
$$;

-- Partitions that lie wholly before the retention. Lock: ACCESS EXCLUSIVE on the parent, for as
-- long as a catalog change takes.
create or replace function _pgwhen.drop_partitions(
    parent regclass,
    retention text,
    at_least interval default interval '0'
)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant timestamptz := _pgwhen.clock() - greatest(
        drop_partitions.at_least, _pgwhen.span(_pgwhen.setting(drop_partitions.retention))
    );
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

do $$
begin
    perform _pgwhen.make_all_partitions();
end;
$$;
