-- The statement-level triggers on the source tables: one INSERT into the outbox for a statement,
-- whatever its number of rows, in the writer's own transaction.
--
-- SECURITY DEFINER: who may write a source table need not be able to write the outbox. The row's
-- write has given the transaction its id before an outbox id is drawn: take() relies on that order.
-- TRUNCATE, and sessions with session_replication_role = replica, write no events.

-- The keys under which rules can ask for an event; '*' is the rule that asks for all of a type.
create or replace function _pgwhen.event_keys(event_type text, key text, data jsonb)
returns text[]
language plpgsql
immutable
as $$
begin
    return array_remove(
        case event_keys.event_type
            when 'campaign_click' then array[
                '*',
                'campaign:' || (event_keys.data ->> 'campaign'),
                'link:' || (event_keys.data ->> 'link'),
                'tracking:' || (event_keys.data ->> 'trackingId')
            ]
            else array['*', event_keys.key]
        end,
        null
    );
end;
$$;

-- An event caused by an action carries the rules that led to it, and happened when its cause did.
-- A batch of actions says this user by user, a single action for whatever it touches.
create or replace function _pgwhen.caused_by(cause jsonb, line_oa_id text, user_id text)
returns jsonb
language sql
immutable
as $$
select coalesce(
    caused_by.cause -> 'users' -> _pgwhen.who(caused_by.line_oa_id, caused_by.user_id),
    caused_by.cause -> 'all'
);
$$;

create or replace function _pgwhen.caused_chain(cause jsonb, line_oa_id text, user_id text)
returns bigint[]
language sql
immutable
as $$
select array(
    select c.value::bigint
    from pg_catalog.jsonb_array_elements_text(
        _pgwhen.caused_by(
            caused_chain.cause, caused_chain.line_oa_id, caused_chain.user_id
        ) -> 'chain'
    ) with ordinality as c (value, n)
    order by c.n
);
$$;

create or replace function _pgwhen.caused_at(cause jsonb, line_oa_id text, user_id text)
returns timestamptz
language sql
stable
as $$
select (
    _pgwhen.caused_by(caused_at.cause, caused_at.line_oa_id, caused_at.user_id) ->> 'at'
)::timestamptz;
$$;

create or replace function _pgwhen.write_attribute_events()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_cause constant jsonb := _pgwhen.said('cause');
    v_at constant timestamptz := _pgwhen.event_clock();
begin
    if _pgwhen.said('muted') is not null then
        return null;
    end if;

    if tg_op = 'INSERT' then
        insert into _pgwhen.outbox
            (bucket, line_oa_id, user_id, type, keys, key, new, facts, at, created_at, chain)
        select
            _pgwhen.bucket(u.line_oa_id, u.user_id), u.line_oa_id, u.user_id, 'attribute_changed',
            array['*', a.key], a.key, a.value, u.attributes,
            case when v_cause is null then v_at
                else coalesce(_pgwhen.caused_at(v_cause, u.line_oa_id, u.user_id), v_at) end,
            v_now,
            case when v_cause is null then '{}'
                else _pgwhen.caused_chain(v_cause, u.line_oa_id, u.user_id) end
        from new_rows as u
        cross join lateral jsonb_each(u.attributes) as a
        where a.value <> 'null'
        order by u.line_oa_id, u.user_id, a.key;
    elsif tg_op = 'DELETE' then
        insert into _pgwhen.outbox
            (bucket, line_oa_id, user_id, type, keys, key, old, facts, at, created_at, chain)
        select
            _pgwhen.bucket(u.line_oa_id, u.user_id), u.line_oa_id, u.user_id, 'attribute_changed',
            array['*', a.key], a.key, a.value, '{}',
            case when v_cause is null then v_at
                else coalesce(_pgwhen.caused_at(v_cause, u.line_oa_id, u.user_id), v_at) end,
            v_now,
            case when v_cause is null then '{}'
                else _pgwhen.caused_chain(v_cause, u.line_oa_id, u.user_id) end
        from old_rows as u
        cross join lateral jsonb_each(u.attributes) as a
        where a.value <> 'null'
        order by u.line_oa_id, u.user_id, a.key;
    else
        insert into _pgwhen.outbox
            (bucket, line_oa_id, user_id, type, keys, key, old, new, facts, at, created_at, chain)
        select
            _pgwhen.bucket(u.line_oa_id, u.user_id), u.line_oa_id, u.user_id, 'attribute_changed',
            array['*', a.key], a.key,
            nullif(u.old -> a.key, 'null'), nullif(u.new -> a.key, 'null'), u.new,
            case when v_cause is null then v_at
                else coalesce(_pgwhen.caused_at(v_cause, u.line_oa_id, u.user_id), v_at) end,
            v_now,
            case when v_cause is null then '{}'
                else _pgwhen.caused_chain(v_cause, u.line_oa_id, u.user_id) end
        from (
            select
                line_oa_id,
                user_id,
                coalesce(o.attributes, '{}') as old,
                coalesce(n.attributes, '{}') as new
            from old_rows as o
            full join new_rows as n using (line_oa_id, user_id)
            where o.attributes is distinct from n.attributes
        ) as u
        cross join lateral jsonb_object_keys(u.old || u.new) as a (key)
        where coalesce(u.old -> a.key, 'null') <> coalesce(u.new -> a.key, 'null')
        order by u.line_oa_id, u.user_id, a.key;
    end if;

    if found then
        perform _pgwhen.ring('attribute_changed');
    end if;
    return null;
end;
$$;

-- One trigger function for the tables in which an inserted row is an event. The columns that make
-- the event differ, so each table's trigger names its event type and says which columns are the
-- key and what joins the data: ('form_submitted', 'form_id', '{}').
create or replace function _pgwhen.write_row_events()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
    v_type constant text := tg_argv[0];
    v_now constant timestamptz := _pgwhen.clock();
    v_cause constant jsonb := _pgwhen.said('cause');
begin
    if _pgwhen.said('muted') is not null then
        return null;
    end if;

    insert into _pgwhen.outbox
        (bucket, line_oa_id, user_id, type, keys, key, data, facts, at, created_at, chain)
    select
        _pgwhen.bucket(e.line_oa_id, e.user_id), e.line_oa_id, e.user_id, v_type,
        _pgwhen.event_keys(v_type, e.key, e.data), e.key, e.data,
        coalesce(u.attributes, '{}'), e.at, v_now,
        case when v_cause is null then '{}'
            else _pgwhen.caused_chain(v_cause, e.line_oa_id, e.user_id) end
    from (
        select
            n.id,
            n.line_oa_id,
            n.user_id,
            n.at,
            to_jsonb(n) ->> tg_argv[1] as key,
            _pgwhen.with_columns(n.data, to_jsonb(n), tg_argv[2]::jsonb) as data
        from new_rows as n
    ) as e
    left join pgwhen.line_user as u on u.line_oa_id = e.line_oa_id and u.user_id = e.user_id
    order by e.id;

    if found then
        perform _pgwhen.ring(_pgwhen.channel(v_type));
    end if;
    return null;
end;
$$;

-- An event's data and the columns of its row that `names` ({column: key}) lists, under their
-- camelCase keys. The columns are the truth: what the data says under those keys does not count.
create or replace function _pgwhen.with_columns(data jsonb, columns jsonb, names jsonb)
returns jsonb
language plpgsql
immutable
as $$
begin
    return (
        select
            with_columns.data - coalesce(array_agg(n.value), '{}')
            || coalesce(
                jsonb_object_agg(n.value, with_columns.columns -> n.key) filter (
                    where with_columns.columns -> n.key <> 'null'
                ),
                '{}'
            )
        from jsonb_each_text(with_columns.names) as n
    );
end;
$$;
