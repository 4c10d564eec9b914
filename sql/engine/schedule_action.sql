create or replace function pgwhen.schedule_action(
    action_type text,
    user_id text,
    action_config jsonb default '{}',
    execute_at timestamptz default null,
    delay jsonb default null,
    line_oa_id text default 'default',
    organization_id text default 'default',
    deduplication_key text default null
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    if schedule_action.delay ? 'waitForTracking' then
        perform _pgwhen.require_read_committed('schedule_action');
    end if;
    perform _pgwhen.refuse_request(
        _pgwhen.request_faults(
            schedule_action.action_type, schedule_action.execute_at, schedule_action.delay,
            schedule_action.line_oa_id, schedule_action.organization_id
        )
        || _pgwhen.request_config_faults(
            schedule_action.action_type, schedule_action.action_config, 'action_config'
        )
    );
    return (
        _pgwhen.schedule(
            schedule_action.action_type, array[schedule_action.user_id],
            array[schedule_action.action_config],
            _pgwhen.request_delay(schedule_action.execute_at, schedule_action.delay),
            schedule_action.line_oa_id, schedule_action.organization_id,
            array[schedule_action.deduplication_key]
        )
    )[1];
end;
$$;

comment on function pgwhen.schedule_action(
    text, text, jsonb, timestamptz, jsonb, text, text, text
) is
$doc$Schedule an action for one user without a rule, in the caller's transaction; returns its id.

It is due at execute_at, or after the delay ({"seconds": 3600}, {"at": "…"}, or {"until": …} with a
field of the user: docs/delays.md), else at once; a time that has passed is now. It is a row of
pgwhen.scheduled_action, done as any other by whoever serves its type, tried again, logged. It has
no rule, so no condition and no frequency. The config is checked by the type's schema.

With a deduplication_key there is one action of that key in the account for as long as its row is
kept (setting actionRetention after its end): a second call changes nothing and returns the same
id, whatever else it says. Two at once: the second waits for the first to commit.

Raises PW003 for a config that the type does not accept, PW004 for a delay, PW210 for
what is missing or too long, PW202 for a wait outside READ COMMITTED. A REPEATABLE READ transaction that cannot see who was quicker with the
deduplication_key fails with 40001: try it again.

  select pgwhen.schedule_action('send_message', 'U1', '{"text": "Still there?"}',
      delay => '{"seconds": 259200}', deduplication_key => 'cart-17');
$doc$;

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
                requested.action_type, coalesce(r.config, '{}'), requested.delay,
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
    else _pgwhen.compiled_delay(request_delay.delay)
end;
$$;

create or replace function _pgwhen.refuse_request(faults _pgwhen.fault[])
returns void
language plpgsql
as $$
begin
    if cardinality(refuse_request.faults) > 0 then
        raise exception '%: %', faults[1].path, faults[1].message
            using errcode = faults[1].code,
                hint = faults[1].hint,
                detail = (
                    select string_agg(format('%s: %s. %s', f.path, f.message, f.hint), e'\n')
                    from unnest(refuse_request.faults) as f
                );
    end if;
end;
$$;

-- What is wrong with a request, whoever it is for.
create or replace function _pgwhen.request_faults(
    action_type text,
    execute_at timestamptz,
    delay jsonb,
    line_oa_id text,
    organization_id text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
begin
    return
        _pgwhen.name_faults(request_faults.action_type, 'action_type')
        || _pgwhen.name_faults(request_faults.line_oa_id, 'line_oa_id')
        || _pgwhen.name_faults(request_faults.organization_id, 'organization_id')
        || _pgwhen.request_time_faults(request_faults.execute_at, request_faults.delay);
end;
$$;

create or replace function _pgwhen.name_faults(name text, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select case
    when coalesce(name_faults.name, '') ~ '\S' and length(name_faults.name) <= 200 then '{}'
    else _pgwhen.one_fault(
        name_faults.at_path, 'needs 1 to 200 characters', 'Name it, or leave it out.', 'PW210'
    )
end;
$$;

create or replace function _pgwhen.request_config_faults(
    action_type text,
    config jsonb,
    at_path text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
begin
    if config is null then
        return _pgwhen.config_faults(action_type, '{}', at_path);
    end if;
    if jsonb_typeof(config) <> 'object' then
        return _pgwhen.one_fault(
            at_path, format('must be an object, got %s', _pgwhen.excerpt(config)),
            'An object, for example {}.', 'PW003'
        );
    end if;
    if _pgwhen.is_too_large(config) then
        return _pgwhen.large_config_fault(config, at_path, 'PW003');
    end if;
    if config ? 'delay' then
        return _pgwhen.one_fault(
            at_path || '.delay', 'cannot stand here', 'Pass it as the argument delay.', 'PW004'
        );
    end if;
    return _pgwhen.config_faults(action_type, config, at_path);
end;
$$;

create or replace function _pgwhen.request_time_faults(execute_at timestamptz, delay jsonb)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults _pgwhen.fault[];
begin
    if execute_at is not null and delay is not null then
        return _pgwhen.one_fault(
            'delay', 'says when, and so does execute_at', 'Pass one of them.', 'PW004'
        );
    end if;
    if execute_at is not null and not _pgwhen.can_happen_at(execute_at) then
        return _pgwhen.one_fault(
            'execute_at', format('cannot be %s', execute_at),
            'Give an instant of the years 1 to 9999.', 'PW004'
        );
    end if;
    if delay is null then
        return '{}';
    end if;
    if jsonb_typeof(delay) = 'object' then
        v_faults := _pgwhen.rule_key_faults(delay);
        if cardinality(v_faults) > 0 then
            return v_faults;
        end if;
    end if;
    return _pgwhen.delay_faults(delay, 'delay');
end;
$$;

-- What of a delay is about a rule or an event, of which there is none here.
create or replace function _pgwhen.rule_key_faults(delay jsonb)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            'delay.' || k.key, 'has no meaning without ' || k.needs, 'Leave it out.', 'PW004'
        )::_pgwhen.fault
    from (
        values
        ('reEvaluateConditions', 'a rule', rule_key_faults.delay ? 'reEvaluateConditions'),
        ('whenPending', 'a rule', rule_key_faults.delay ? 'whenPending'),
        ('onRuleDisabled', 'a rule', rule_key_faults.delay ? 'onRuleDisabled'),
        ('until.field', 'an event', rule_key_faults.delay #>> '{until,field}' ~ '^event\.')
    ) as k (key, needs, is_there)
    where k.is_there
);
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
