-- Rules and users of the throughput measure: three rules ask for each event, about 1.3 fire.

create schema bench;

insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
values
    ('gold', 'attribute_changed',
        '{"attribute": "points", "condition": {"user.tier": "gold", "event.new": {"$gte": 10}}}',
        'add_to_audience', '{"audience": "gold"}', 'once_per_day'),
    ('silver', 'attribute_changed',
        '{"attribute": "points", "condition": {"user.tier": "silver"}}',
        'add_to_audience', '{"audience": "silver"}', 'always'),
    ('many', 'attribute_changed',
        '{"attribute": "points", "condition": {"event.new": {"$gte": 65}}}',
        'add_to_audience', '{"audience": "many"}', 'once_per_day');

create procedure bench.load(users integer)
language plpgsql
as $$
begin
    perform pgwhen.mute();
    insert into pgwhen.line_user (user_id, attributes)
    select
        'U' || md5(i::text),
        jsonb_build_object(
            'tier', (array['gold', 'silver'])[1 + i % 2],
            'points', i * 37 % 100,
            'display_name', 'Customer ' || i,
            'city', (array['Bangkok', 'Chiang Mai', 'Phuket'])[1 + i % 3],
            'total_spent', i * 7919 % 100000 / 100.0,
            'last_purchase', timestamptz '2026-01-01 00:00Z' + i * interval '1 minute'
        )
    from generate_series(1, load.users) as i;
end;
$$;

-- Always another value, and over all users always the same distribution.
create function bench.next_attributes(attributes jsonb)
returns jsonb
language sql
immutable
as $$
select next_attributes.attributes || jsonb_build_object(
    'points', ((next_attributes.attributes -> 'points')::integer + 41) % 100
);
$$;

-- Of the same account and source type, each asking for an attribute of its own.
create function bench.add_other_rules(how_many integer)
returns void
language sql
as $$
insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
select
    'other ' || i, 'attribute_changed',
    jsonb_build_object('attribute', 'other_' || i, 'condition', '{"event.new": {"$gte": 10}}'::jsonb),
    'add_to_audience', '{"audience": "others"}', 'always'
from generate_series(1, add_other_rules.how_many) as i;
$$;

-- Keep what the last drain wrote, and with each row the number of its batch, which its xmin tells;
-- and make bench.replay(batch), which inserts one batch again.
create function bench.stage(written regclass[])
returns void
language plpgsql
as $$
declare
    v_table regclass;
    v_columns text;
    v_body text := '';
begin
    drop table if exists bench.batch;
    execute format(
        'create table bench.batch as '
        'select b.xid, row_number() over (order by b.xid::text::bigint) as number '
        'from (select distinct t.xmin as xid from %s as t) as b',
        written[1]
    );
    foreach v_table in array written loop
        select string_agg(quote_ident(a.attname), ', ' order by a.attnum)
        into v_columns
        from pg_attribute as a
        where a.attrelid = v_table and a.attnum > 0 and a.attidentity = '' and not a.attisdropped;

        execute format('drop table if exists bench.%I', 'of_' || v_table::oid);
        execute format(
            'create table bench.%I as select b.number as batch, %s from %s as t '
            'inner join bench.batch as b on b.xid = t.xmin order by 1',
            'of_' || v_table::oid, v_columns, v_table
        );
        execute format('create index on bench.%I (batch)', 'of_' || v_table::oid);
        v_body := v_body || format(
            'insert into %s (%s) select %2$s from bench.%I as s where s.batch = replay.batch; ',
            v_table, v_columns, 'of_' || v_table::oid
        );
    end loop;
    execute format(
        'create or replace function bench.replay(batch bigint) returns void language plpgsql as %L',
        'begin ' || v_body || 'end;'
    );
end;
$$;
