-- What people may do to rows of scheduled_action with plain UPDATE and DELETE. A pending row's
-- execute_at, action_config and the like are theirs to change; what would break a promise is
-- refused with words.
--
-- The engine's own statements are told from a person's by a setting that each of its functions
-- which updates these rows carries, for an administrator may well be the same role as the owner.
-- Who sets it by hand means to go without a guard. What the engine still pays is that each trigger
-- asks for it, and that an UPDATE of a table with a BEFORE trigger locks each row once more: about
-- 0.2 µs each. A row trigger AFTER it would cost as much again, so cancelling by UPDATE is finished
-- by one for the statement.

create or replace function _pgwhen.guard_content()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    if (
        new.id, new.trigger_rule_id, new.line_oa_id, new.organization_id, new.user_id,
        new.created_date, new.workflow_id, new.workflow_node_path, new.key, new.event, new.chain,
        new.held_by, new.cancel_reason, new.origin, new.parent_id, new.delay, new.wait,
        new.waiting, new.counts_from, new.outcome, new.close_by, new.startable_at,
        new.attempt_ends, new.heartbeat_timeout, new.has_heartbeat, new.batch_id,
        new.keeps_batch
    ) is distinct from (
        old.id, old.trigger_rule_id, old.line_oa_id, old.organization_id, old.user_id,
        old.created_date, old.workflow_id, old.workflow_node_path, old.key, old.event, old.chain,
        old.held_by, old.cancel_reason, old.origin, old.parent_id, old.delay, old.wait,
        old.waiting, old.counts_from, old.outcome, old.close_by, old.startable_at,
        old.attempt_ends, old.heartbeat_timeout, old.has_heartbeat, old.batch_id,
        old.keeps_batch
    ) then
        perform _pgwhen.refuse_new_identity(old, new);
    end if;
    if old.status = 'processing' then
        perform _pgwhen.refuse_by_state(old, 'changed');
    end if;
    if new.retry_policy is distinct from old.retry_policy then
        perform _pgwhen.refuse_request(
            _pgwhen.retry_policy_faults(new.retry_policy, 'retry_policy', 'PW006')
        );
        new.retry_policy := _pgwhen.compiled_retry_policy(new.retry_policy);
    end if;
    if new.timeouts is distinct from old.timeouts then
        perform _pgwhen.refuse_request(
            _pgwhen.timeouts_faults(
                new.timeouts, _pgwhen.timeouts_of_type(new.action_type), 'timeouts', 'PW007'
            )
        );
        new.timeouts := _pgwhen.compiled_timeouts(new.timeouts);
    end if;
    if (new.execute_at, new.expires_at) is distinct from (old.execute_at, old.expires_at) then
        if old.status <> 'pending' then
            perform _pgwhen.refuse_by_state(old, 'rescheduled');
        end if;
        perform _pgwhen.check_execute_at(new.execute_at);
        perform _pgwhen.check_execute_at(coalesce(new.expires_at, new.execute_at));
        if new.waiting and new.expires_at is distinct from old.expires_at then
            new.execute_at := new.expires_at;
        end if;
        new.execute_at := greatest(new.execute_at, v_now);
        new.expires_at := case when new.waiting then new.execute_at else new.expires_at end;
        perform _pgwhen.ring_for(new.execute_at, v_now);
    end if;
    if (new.action_type, new.action_config) is distinct from (old.action_type, old.action_config)
    then
        if old.status = 'pending' then
            perform _pgwhen.refuse_bad_action(new);
        end if;
        if old.status = 'pending' and new.action_type <> old.action_type then
            -- Among those of its new type it might lie where nobody looks any more.
            new.execute_at := greatest(new.execute_at, v_now);
            perform _pgwhen.ring_for(new.execute_at, v_now);
        end if;
        new.key := _pgwhen.key_after(old, new);
        if new.key <> old.key then
            new.batch_id := null;
            new.keeps_batch := false;
        end if;
    end if;
    if new.status = 'pending' and _pgwhen.is_rearmed(old, new) then
        new := _pgwhen.with_term(new, old, v_now);
    end if;
    new.updated_at := v_now;
    return new;
end;
$$;

-- Whether what its term goes by has changed: then guard_content() sets it anew.
create or replace function _pgwhen.is_rearmed(
    old_row pgwhen.scheduled_action,
    new_row pgwhen.scheduled_action
)
returns boolean
language sql
immutable
as $$
select (
    (is_rearmed.new_row).execute_at,
    (is_rearmed.new_row).timeouts,
    (is_rearmed.new_row).action_type
) is distinct from (
    (is_rearmed.old_row).execute_at,
    (is_rearmed.old_row).timeouts,
    (is_rearmed.old_row).action_type
);
$$;

-- What makes an action the one it is; of one that has ended, the event may be erased.
create or replace function _pgwhen.refuse_new_identity(
    old_row pgwhen.scheduled_action,
    new_row pgwhen.scheduled_action
)
returns void
language plpgsql
stable
as $$
declare
    v_column text;
begin
    select o.key
    into v_column
    from jsonb_each(to_jsonb(old_row)) as o
    inner join jsonb_each(to_jsonb(new_row)) as n on n.key = o.key
    where
        o.value <> n.value
        and o.key not in (
            'execute_at', 'expires_at', 'action_type', 'action_config', 'retry_policy', 'timeouts',
            'source_config',
            'status', 'retry_count', 'claim_token', 'deadline', 'worker', 'executed_at',
            'updated_at', 'result', 'error_message', 'retry_state'
        )
        and not (o.key = 'event' and old_row.status not in ('pending', 'processing'))
    order by o.key
    limit 1;
    if found then
        raise exception '% of action % cannot be changed', v_column, old_row.id
            using errcode = 'PW604',
                hint = format(
                    'It is part of what the action is. Cancel it, pgwhen.cancel_action(%s), and '
                    'make a new one.', old_row.id
                );
    end if;
end;
$$;

create or replace function _pgwhen.refuse_bad_action(action pgwhen.scheduled_action)
returns void
language plpgsql
stable
as $$
declare
    v_fault _pgwhen.fault;
begin
    if not exists (
        select from _pgwhen.action_type as t where t.name = action.action_type
    ) then
        raise exception 'there is no action type "%"', action.action_type
            using errcode = 'PW604', hint = _pgwhen.types_hint();
    end if;
    if action.action_config ? 'retryPolicy' then
        raise exception 'action_config.retryPolicy: cannot stand here'
            using errcode = 'PW006', hint = 'Set the column retry_policy.';
    end if;
    if action.action_config ? 'timeouts' then
        raise exception 'action_config.timeouts: cannot stand here'
            using errcode = 'PW007', hint = 'Set the column timeouts.';
    end if;
    v_fault := (
        case jsonb_typeof(action.action_config)
            when 'object' then _pgwhen.action_faults(action.action_type, action.action_config)
            else _pgwhen.request_config_faults(
                action.action_type, action.action_config, 'action_config'
            )
        end
    )[1];
    if v_fault.path is not null then
        raise exception '%: %', v_fault.path, v_fault.message
            using errcode = v_fault.code, hint = v_fault.hint;
    end if;
end;
$$;

-- The key of an action whose content was changed: the old one where nobody can have seen it, else
-- one that derives from the old one and the new content, so that it too is the same at every try.
-- Then it also leaves its batch, which goes out without it.
create or replace function _pgwhen.key_after(
    old_row pgwhen.scheduled_action,
    new_row pgwhen.scheduled_action
)
returns uuid
language plpgsql
volatile
as $$
begin
    if not _pgwhen.was_tried(old_row) then
        return old_row.key;
    end if;
    raise warning 'action % has been tried: what was sent then may have arrived', old_row.id
        using hint = 'Changed, it has a new key, so the receiver takes it for another one.';
    return _pgwhen.action_key(
        old_row.key, new_row.line_oa_id, new_row.user_id, new_row.trigger_rule_id,
        'changed:' || new_row.action_type || ':' || new_row.action_config::text
    );
end;
$$;

create or replace function _pgwhen.guard_state()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if old.status = 'pending' and new.status = 'cancelled' then
        new.status := 'pending';
        new.cancel_reason := _pgwhen.by_whom('cancelled', new.error_message);
        new.error_message := old.error_message;
        insert into _pgwhen.cancelling (action_id) values (old.id);
        perform set_config('pgwhen.cancelling', 'on', true);
        return new;  -- finish_cancelling() ends it, as any other action ends
    end if;
    if new.status <> old.status or old.status = 'processing' then
        perform _pgwhen.refuse_by_state(
            old,
            case when new.status = old.status then 'changed'
                else 'made ' || new.status || ' by hand' end
        );
    end if;
    if (new.claim_token, new.worker, new.executed_at, new.retry_state)
        is distinct from (old.claim_token, old.worker, old.executed_at, old.retry_state)
        or new.deadline is distinct from old.deadline and not _pgwhen.is_rearmed(old, new)
    then
        raise exception 'what was done to action % cannot be changed', old.id
            using errcode = 'PW604',
                hint = 'claim_token, deadline, worker, executed_at and retry_state are the '
                    'engine''s.';
    end if;
    if new.retry_count not between 0 and greatest(old.retry_count, 1000000) then
        raise exception 'retry_count of action % cannot be %', old.id, new.retry_count
            using errcode = 'PW604', hint = 'Set it to 0 for all attempts anew.';
    end if;
    if new.retry_count = 0 and _pgwhen.was_tried(old) then
        new.executed_at := coalesce(old.executed_at, old.updated_at);
    end if;
    new.updated_at := _pgwhen.clock();
    return new;
end;
$$;

create or replace function _pgwhen.finish_cancelling()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_ids bigint[];
begin
    perform set_config('pgwhen.cancelling', '', true);
    with gone as (
        delete from _pgwhen.cancelling returning action_id
    )
    select array_agg(g.action_id) into v_ids from gone as g;
    perform _pgwhen.cancel_as_asked(v_ids);
    return null;
end;
$$;

-- An action that has not ended would vanish without an outcome.
create or replace function _pgwhen.guard_delete()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform _pgwhen.refuse_by_state(old, 'deleted');
    return null;
end;
$$;

do $$
begin
    perform _pgwhen.ensure_trigger('pgwhen.scheduled_action', t.name, t.timing, t.definition)
    from (values
        (
            'guard_content',
            'before update of id, trigger_rule_id, line_oa_id, organization_id, user_id, '
            'action_type, action_config, source_config, execute_at, expires_at, created_date, '
            'workflow_id, workflow_node_path, key, origin, parent_id, event, chain, held_by, '
            'cancel_reason, delay, wait, waiting, counts_from, outcome, retry_policy, timeouts, '
            'close_by, startable_at, attempt_ends, heartbeat_timeout, has_heartbeat, batch_id, '
            'keeps_batch',
            'for each row when (current_setting(''pgwhen.by_engine'', true) is distinct from '
            '''on'') execute function _pgwhen.guard_content()'
        ),
        (
            'guard_state',
            'before update of status, claim_token, deadline, worker, retry_count, executed_at, '
            'retry_state',
            'for each row when (current_setting(''pgwhen.by_engine'', true) is distinct from '
            '''on'') execute function _pgwhen.guard_state()'
        ),
        (
            'finish_cancelling',
            'after update',
            'for each statement when (current_setting(''pgwhen.cancelling'', true) = ''on'') '
            'execute function _pgwhen.finish_cancelling()'
        ),
        (
            'guard_delete',
            'before delete',
            'for each row when (old.status in (''pending'', ''processing'')) '
            'execute function _pgwhen.guard_delete()'
        )
    ) as t (name, timing, definition);
end;
$$;
