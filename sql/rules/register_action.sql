create or replace function pgwhen.register_action(
    name text,
    config_schema jsonb default null,
    options jsonb default '{}'
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_options jsonb;
begin
    perform _pgwhen.check_registration(register_action.name, register_action.config_schema);
    if jsonb_typeof(register_action.options) is distinct from 'object' then
        raise exception 'options must be an object, got %', _pgwhen.excerpt(register_action.options)
            using errcode = 'PW014', hint = 'Pass a JSON object, for example ''{}''.';
    end if;
    if jsonb_typeof(register_action.options -> 'send') <> 'boolean' then
        raise exception 'options.send must be true or false, got %', options -> 'send'
            using errcode = 'PW014',
                hint = 'Write {"send": true} for what reaches friends only, or leave it out.';
    end if;
    if (options -> 'batch')::text !~ '^[1-9][0-9]{0,8}$' then
        raise exception 'options.batch must be a whole number from 1, got %',
            _pgwhen.excerpt(options -> 'batch')
            using errcode = 'PW014',
                hint = 'Write the most actions that one call takes, {"batch": 500}, or leave it '
                    'out.';
    end if;
    perform _pgwhen.refuse_request(
        _pgwhen.retry_policy_faults(
            register_action.options -> 'retryPolicy', 'options.retryPolicy', 'PW014'
        )
    );
    perform _pgwhen.refuse_request(
        _pgwhen.timeouts_faults(
            register_action.options -> 'timeouts', null, 'options.timeouts', 'PW014'
        )
    );
    v_options := register_action.options - '{retryPolicy,timeouts}'::text[]
        || _pgwhen.compiled_options(register_action.options);
    perform _pgwhen.warn_of_slow_heartbeat(
        v_options -> 'timeouts', format('action type "%s"', register_action.name)
    );

    insert into _pgwhen.action_type as t (name, kind, config_schema, options, registered_at)
    values (
        register_action.name, 'python', register_action.config_schema, v_options, _pgwhen.clock()
    )
    on conflict on constraint action_type_pkey do update
    set
        kind = excluded.kind,
        config_schema = excluded.config_schema,
        options = excluded.options,
        registered_at = excluded.registered_at
    where
        t.kind <> 'sql'
        and not t.builtin
        and (t.kind, t.config_schema, t.options)
        is distinct from (excluded.kind, excluded.config_schema, excluded.options);

    if found then
        perform _pgwhen.warn_of_unfit_rules(register_action.name);
    elsif exists (
        select
        from _pgwhen.action_type as t
        where t.name = register_action.name and t.kind = 'sql'
    ) then
        raise exception 'the action type "%" is served by a SQL function', register_action.name
            using errcode = 'PW011', hint = 'Choose another name for the Python handler.';
    end if;
end;
$$;

comment on function pgwhen.register_action(text, jsonb, jsonb) is
$doc$Declare an action type that a Python handler serves; "pgwhen run" does so for its handlers.

config_schema, if given, is a JSON Schema (the part of it that docs/schema/README.md names) which
the action_config of every rule saved from now on must satisfy; null accepts any object. The keys
"delay", "retryPolicy" and "timeouts" are pgwhen's own and never seen by the schema. options is kept
for the listener; {"send": true} says that the actions are sends, which a user who is no friend
cannot get: what is pending for one is cancelled when it is due; {"retryPolicy": {…}} says how often
and when its actions are tried, where their rules do not say otherwise: docs/retries.md;
{"timeouts": {…}} how long they may wait and run: docs/timeouts.md, with a WARNING for a heartbeat
that is not well below startToClose; {"batch": n} that up to n of one account go out in one call,
under one key: docs/handlers.md, "Batches".
Declaring the same again changes nothing; declaring differently replaces. A built-in type keeps its
own declaration. Rules already saved stay; those that do not satisfy the schema are named in a
WARNING.

Raises PW010 for a bad name, PW011 for a name that a SQL function serves, PW012 for a schema that
pgwhen does not understand whole, PW014 for options that are no object, a send that is not true or
false, or a retryPolicy, timeouts or a batch that cannot be.

  select pgwhen.register_action('send_sms', '{"type": "object", "required": ["text"],
      "properties": {"text": {"type": "string", "maxLength": 160}}}');
$doc$;

-- Policy and timeouts as the engine keeps them; null values of timeouts say something.
create or replace function _pgwhen.compiled_options(options jsonb)
returns jsonb
language sql
stable
as $$
select coalesce(pg_catalog.jsonb_object_agg(o.key, o.value), '{}')
from (values
    ('retryPolicy', _pgwhen.compiled_retry_policy(compiled_options.options -> 'retryPolicy')),
    ('timeouts', _pgwhen.compiled_timeouts(compiled_options.options -> 'timeouts'))
) as o (key, value)
where o.value is not null;
$$;

create or replace function _pgwhen.check_registration(name text, config_schema jsonb)
returns void
language plpgsql
as $$
declare
    v_fault _pgwhen.fault;
begin
    if check_registration.name !~ '\S' is not false or length(check_registration.name) > 200 then
        raise exception 'an action type needs a name of 1 to 200 characters'
            using errcode = 'PW010', hint = 'Name what is done, for example ''send_sms''.';
    end if;
    if check_registration.config_schema is null then
        return;
    end if;

    select f.*
    into v_fault
    from unnest(
        _pgwhen.definition_faults(check_registration.config_schema, 'config_schema')
    ) as f
    limit 1;
    if found then
        raise exception '%: %', v_fault.path, v_fault.message
            using errcode = 'PW012', hint = v_fault.hint;
    end if;
end;
$$;

-- Rules saved before their type had this schema. They stay as they are: whether to fix them is
-- their owners' decision, and the handler sees what it gets.
create or replace function _pgwhen.warn_of_unfit_rules(action_type text)
returns void
language plpgsql
as $$
declare
    v_names text;
    v_count bigint;
begin
    select count(*), string_agg(format('"%s"', r.name), ', ' order by r.id) filter (where r.n <= 5)
    into v_count, v_names
    from (
        select r.id, r.name, row_number() over (order by r.id) as n
        from pgwhen.trigger_rule as r
        where
            warn_of_unfit_rules.action_type
            = any(_pgwhen.action_types_of(r.action_type, r.action_config))
            and r.deleted_date is null
            and cardinality(_pgwhen.action_faults(r.action_type, r.action_config)) > 0
    ) as r;

    if v_count > 0 then
        raise warning '% rules have an action_config that "%" does not accept: %',
            v_count, warn_of_unfit_rules.action_type,
            v_names || case when v_count > 5 then ', …' else '' end
            using hint = 'They still fire. See pgwhen.validate_rule(to_jsonb(r)) for each row r of '
                'pgwhen.trigger_rule, and update them.';
    end if;
end;
$$;
