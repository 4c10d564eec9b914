-- The triggers of pgwhen.trigger_rule. Before a row is written it is checked and dated; after the
-- statement the compiled rows follow it, set-based, and pending actions of rules that are gone are
-- cancelled.
--
-- Forward-looking: enabled_date is set when a rule goes live, and when what it listens to changes
-- (source_type, source_config, line_oa_id) while it is. An event written before that instant does
-- not fire it. A change of the action, the frequency or the name does not move it.
--
-- A row whose definition does not change is not checked again, so that a rule which a newer version
-- would refuse can still be disabled, parked or deleted. It is checked when it goes live.
--
-- The first statement of a session plans for all that follow it: nothing here joins transition
-- tables, for which a plan made for one row would be a nested loop over thousands.
--
-- SECURITY DEFINER: who may write a rule need not be able to write what follows from it.

create or replace function _pgwhen.rule_to_insert()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    perform _pgwhen.refuse_bad_rule(to_jsonb(new));
    perform _pgwhen.warn_of_timeouts(new);
    new.created_date := coalesce(new.created_date, v_now);
    new.updated_date := v_now;
    new.enabled_date := case
        when _pgwhen.rule_is_live(new.enabled, new.deleted_date, new.parked_reason) then v_now
    end;
    return new;
end;
$$;

create or replace function _pgwhen.rule_to_update()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_goes_live boolean;
begin
    if new.enabled and not old.enabled then
        new.parked_reason := null;
    end if;
    v_goes_live := _pgwhen.rule_is_live(new.enabled, new.deleted_date, new.parked_reason)
        and not _pgwhen.rule_is_live(old.enabled, old.deleted_date, old.parked_reason);

    if v_goes_live or (
        new.name, new.source_type, new.source_config, new.action_type, new.action_config,
        new.frequency, new.cooldown_seconds, new.workflow_id, new.workflow_node_path,
        new.line_oa_id, new.organization_id
    ) is distinct from (
        old.name, old.source_type, old.source_config, old.action_type, old.action_config,
        old.frequency, old.cooldown_seconds, old.workflow_id, old.workflow_node_path,
        old.line_oa_id, old.organization_id
    ) then
        perform _pgwhen.refuse_bad_rule(to_jsonb(new));
        perform _pgwhen.warn_of_timeouts(new);
    end if;

    new.created_date := coalesce(new.created_date, old.created_date);
    new.updated_date := v_now;
    new.enabled_date := case
        when v_goes_live
            or (new.source_type, new.source_config, new.line_oa_id)
            is distinct from (old.source_type, old.source_config, old.line_oa_id)
            then v_now
        else old.enabled_date
    end;
    return new;
end;
$$;

create or replace function _pgwhen.refuse_bad_rule(rule jsonb)
returns void
language plpgsql
stable
as $$
declare
    v_faults constant _pgwhen.fault[] := _pgwhen.rule_faults(refuse_bad_rule.rule);
begin
    if cardinality(v_faults) = 0 then
        return;
    end if;
    raise exception '%: %', v_faults[1].path, v_faults[1].message
        using errcode = v_faults[1].code,
            hint = v_faults[1].hint,
            detail = _pgwhen.faults_text(v_faults, refuse_bad_rule.rule),
            schema = 'pgwhen',
            table = 'trigger_rule',
            column = split_part(split_part(v_faults[1].path, '.', 1), '[', 1);
end;
$$;

-- Of a rule that says something of timeouts itself; else registering its type has warned.
create or replace function _pgwhen.warn_of_timeouts(rule pgwhen.trigger_rule)
returns void
language plpgsql
stable
as $$
begin
    if rule.action_config ? 'timeouts' then
        perform _pgwhen.warn_of_slow_heartbeat(
            _pgwhen.limits(
                _pgwhen.timeouts_of_type(rule.action_type),
                _pgwhen.compiled_timeouts(rule.action_config -> 'timeouts')
            ),
            format('rule "%s"', rule.name)
        );
    end if;
end;
$$;

create or replace function _pgwhen.faults_text(faults _pgwhen.fault[], rule jsonb)
returns text
language sql
stable
as $$
select format(
    'Rule %s has %s:%s',
    _pgwhen.excerpt(faults_text.rule -> 'name'),
    case when count(*) = 1 then 'one fault' else count(*) || ' faults' end,
    string_agg(format(E'\n  %s: %s. %s', f.path, f.message, f.hint), '' order by f.n)
)
from unnest(faults_text.faults) with ordinality as f (path, message, hint, code, n);
$$;

create or replace function _pgwhen.rules_inserted()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform _pgwhen.list_action_types(
        array(
            select distinct t.name
            from new_rows as n
            cross join
                unnest(_pgwhen.action_types_of(n.action_type, n.action_config)) as t (name)
            where n.deleted_date is null
        )
    );
    perform _pgwhen.compile_rules(array(select n.id from new_rows as n));
    return null;
end;
$$;

create or replace function _pgwhen.rules_updated()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from _pgwhen.rule as c
    where c.trigger_rule_id = any(
        array(
            select o.id
            from old_rows as o
            except
            select n.id
            from new_rows as n
            where _pgwhen.rule_is_live(n.enabled, n.deleted_date, n.parked_reason)
        )
    );
    perform _pgwhen.list_action_types(
        array(
            select t.name
            from new_rows as n
            cross join
                unnest(_pgwhen.action_types_of(n.action_type, n.action_config)) as t (name)
            where n.deleted_date is null
            except
            select t.name
            from old_rows as o
            cross join
                unnest(_pgwhen.action_types_of(o.action_type, o.action_config)) as t (name)
        )
    );
    perform _pgwhen.compile_rules(array(select n.id from new_rows as n));
    perform _pgwhen.cancel_rule_actions(
        array(
            select n.id
            from new_rows as n
            where n.deleted_date is not null
            except
            select o.id
            from old_rows as o
            where o.deleted_date is not null
        ),
        'rule_deleted'
    );
    return null;
end;
$$;

create or replace function _pgwhen.rules_deleted()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from _pgwhen.rule as c
    where c.trigger_rule_id = any(array(select o.id from old_rows as o));

    perform _pgwhen.cancel_rule_actions(
        array(select o.id from old_rows as o where o.deleted_date is null), 'rule_deleted'
    );
    return null;
end;
$$;

create or replace function _pgwhen.rules_truncated()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from _pgwhen.rule;
    return null;
end;
$$;

-- Every action type that a rule names stands in the registry, so that status and queue can name
-- those which nobody serves. Sorted: two sessions that bring the same names do not deadlock.
create or replace function _pgwhen.list_action_types(names text[])
returns void
language plpgsql
as $$
declare
    v_unserved text;
begin
    insert into _pgwhen.action_type (name, kind, registered_at)
    select n.name, 'unserved', _pgwhen.clock()
    from unnest(list_action_types.names) as n (name)
    order by n.name
    on conflict on constraint action_type_pkey do nothing;

    select string_agg(format('"%s"', t.name), ', ' order by t.name)
    into v_unserved
    from _pgwhen.action_type as t
    where t.name = any(list_action_types.names) and t.kind = 'unserved';

    if v_unserved is not null then
        raise warning 'nobody serves the action type %', v_unserved
            using hint = 'Its actions are accepted, and will wait. Serve the type with '
                '"pgwhen run", or bind it to a function with pgwhen.register_sql_action(…).';
    end if;
end;
$$;
