-- Goes through dispatch as firings that have no event and no rule; of such a firing `key` is the
-- deduplication key. Nothing is done now, so there is a row, and its id, in the order of user_ids.
create or replace function _pgwhen.schedule(
    action_type text,
    user_ids text[],
    configs jsonb[],
    delay jsonb,
    line_oa_id text,
    organization_id text,
    keys text[]
)
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_firings constant _pgwhen.firing[] := _pgwhen.requested(
        schedule.action_type, schedule.user_ids, schedule.configs, schedule.delay,
        schedule.line_oa_id, schedule.organization_id, schedule.keys
    );
begin
    perform _pgwhen.refuse_users(v_firings);
    perform _pgwhen.list_action_types(array[schedule.action_type])
    where not exists (
        select from _pgwhen.action_type as t where t.name = schedule.action_type
    );

    if coalesce(cardinality(array_remove(schedule.keys, null)), 0) = 0 then
        return _pgwhen.ids_of(
            v_firings, (_pgwhen.dispatch(v_firings, null, '{}', 0, true)).scheduled
        );
    end if;
    return _pgwhen.ids_of(v_firings, _pgwhen.dispatch_once(v_firings));
end;
$$;

create or replace function _pgwhen.requested(
    action_type text,
    user_ids text[],
    configs jsonb[],
    delay jsonb,
    line_oa_id text,
    organization_id text,
    keys text[]
)
returns _pgwhen.firing[]
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_cause constant jsonb := _pgwhen.said('cause');
    v_path constant text[] := (requested.delay #>> '{until,path}')::text[];
begin
    return array(
        select
            row(
                null,
                case when r.key is null then gen_random_uuid()
                    else _pgwhen.request_origin(requested.line_oa_id, r.key) end,
                requested.line_oa_id, r.user_id, null, r.key, null, null, null, v_now,
                case when v_cause is null then '{}'
                    else _pgwhen.caused_chain(v_cause, requested.line_oa_id, r.user_id) end,
                null, requested.organization_id, null, null, null,
                requested.action_type, coalesce(r.config, '{}') - _pgwhen.config_keys_of_pgwhen(),
                requested.delay, _pgwhen.compiled_retry_policy(r.config -> 'retryPolicy'),
                _pgwhen.compiled_timeouts(r.config -> 'timeouts'),
                case when v_path is not null then (
                    select jsonb_build_object('user', u.attributes) #> v_path
                    from pgwhen.line_user as u
                    where u.line_oa_id = requested.line_oa_id and u.user_id = r.user_id
                ) end,
                false, null, null, 'fire', null, null
            )::_pgwhen.firing
        from unnest(requested.user_ids, requested.configs, requested.keys)
            with ordinality as r (user_id, config, key, n)
        order by r.n
    );
end;
$$;

-- The origin of an action that has a deduplication key, from which its idempotency key derives: the
-- same after a restore too.
create or replace function _pgwhen.request_origin(line_oa_id text, deduplication_key text)
returns uuid
language sql
stable
as $$
select _pgwhen.action_key(
    null, request_origin.line_oa_id, null, null, request_origin.deduplication_key
);
$$;

-- Those whose deduplication key is new; of several with one key the first. Somebody else may be as
-- quick: the unique index makes the second wait, fail, and look again.
create or replace function _pgwhen.dispatch_once(firings _pgwhen.firing[])
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_taken text;
begin
    loop
        begin
            return (
                _pgwhen.dispatch(_pgwhen.undone(dispatch_once.firings), null, '{}', 0, true)
            ).scheduled;
        exception
            when unique_violation then
                get stacked diagnostics v_taken = constraint_name;
                if v_taken <> 'uq_scheduled_action_deduplication' then
                    raise;
                end if;
                if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
                    raise exception 'somebody else was quicker with this deduplication_key'
                        using errcode = '40001', hint = 'Try the transaction again.';
                end if;
        end;
    end loop;
end;
$$;

create or replace function _pgwhen.undone(firings _pgwhen.firing[])
returns _pgwhen.firing[]
language plpgsql
stable
as $$
begin
    return array(
        select f.firing
        from (
            select
                u as firing, u.key, u.line_oa_id,
                row_number() over (partition by coalesce(u.key, u.uuid::text)) as turn
            from unnest(undone.firings) as u
        ) as f
        where
            f.turn = 1
            and (
                select true
                from pgwhen.scheduled_action as a
                where a.line_oa_id = f.line_oa_id and a.deduplication_key = f.key
            ) is null
    );
end;
$$;

-- The ids of the rows that these firings have become, just now or by an earlier call, in their
-- order. FULL JOIN, because no plan of it is a nested loop.
create or replace function _pgwhen.ids_of(firings _pgwhen.firing[], made bigint[])
returns bigint[]
language plpgsql
volatile
as $$
begin
    return array(
        select coalesce(
            m.id,
            (
                select a.id
                from pgwhen.scheduled_action as a
                where a.line_oa_id = f.line_oa_id and a.deduplication_key = f.key
            )
        )
        from unnest(ids_of.firings) with ordinality as f
        full join (
            select a.id, a.origin from pgwhen.scheduled_action as a where a.id = any(ids_of.made)
        ) as m on m.origin = f.uuid
        order by f.ordinality
    );
end;
$$;

create or replace function _pgwhen.request_delay(execute_at timestamptz, delay jsonb)
returns jsonb
language sql
stable
as $$
select case
    when request_delay.execute_at is not null then pg_catalog.jsonb_build_object(
        'at', pg_catalog.to_char(
            request_delay.execute_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
        )
    )
    when request_delay.delay is not null then _pgwhen.compiled_delay(request_delay.delay)
end;
$$;

-- For whom an action cannot be: nobody, or somebody who has not the time that it is to wait for.
create or replace function _pgwhen.refuse_users(firings _pgwhen.firing[])
returns void
language plpgsql
stable
as $$
declare
    v_firing _pgwhen.firing;
begin
    select f.*
    into v_firing
    from unnest(refuse_users.firings) as f
    where
        f.user_id is null
        or length(f.user_id) > 200
        or f.key = ''
        or length(f.key) > 200
        or f.delay ? 'until' and _pgwhen.moment_in(f.until_value) is null
    limit 1;
    if not found then
        return;
    end if;

    if v_firing.user_id is null or length(v_firing.user_id) > 200 then
        raise exception 'user_id: needs at most 200 characters, got %',
            coalesce(length(v_firing.user_id)::text, 'NULL')
            using errcode = 'PW210', hint = 'Say for whom the action is.';
    elsif v_firing.key = '' or length(v_firing.key) > 200 then
        raise exception 'deduplication_key: needs 1 to 200 characters, got %',
            length(v_firing.key)
            using errcode = 'PW210', hint = 'Keep it short, or leave it out.';
    else
        raise exception '%, for user %',
            _pgwhen.no_moment_reason(v_firing.delay, v_firing.until_value), v_firing.user_id
            using errcode = 'PW004', hint = 'Pass execute_at, or see to it that the user has it.';
    end if;
end;
$$;
