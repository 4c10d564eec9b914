create or replace function pgwhen.validate_rule(rule jsonb)
returns setof _pgwhen.fault
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select f.*
from unnest(
    _pgwhen.rule_faults(validate_rule.rule)
    || _pgwhen.name_taken_faults(validate_rule.rule)
) as f;
$$;

comment on function pgwhen.validate_rule(jsonb) is
$doc$Tell every fault of a rule before it is saved, one row each; no row means that it can be saved.

The rule is an object with the columns of pgwhen.trigger_rule as keys; columns left out have their
defaults, and a rule that stands (with its id) is not in its own way. A fault has the path of what
is wrong, a message, a hint that says what to write instead, and the SQLSTATE with which saving
would be refused (23505 for a name that is taken). Of one object or array a hundred faults are told.
That nobody serves the action type yet is no fault.

Never raises, whatever the JSON is.

  select path, message, hint
  from pgwhen.validate_rule('{"name": "gold", "source_type": "attribute_changed",
      "source_config": {"attribute": "tier", "too": "gold"}, "action_type": "add_to_audience",
      "action_config": {"audience": "gold members"}}');
$doc$;

-- The faults of a rule: its columns, its source, its action. Saving a rule asks this too.
create or replace function _pgwhen.rule_faults(rule jsonb)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_faults _pgwhen.fault[] := _pgwhen.schema_faults(
        _pgwhen.rule_schema(), rule_faults.rule, '', 'PW001'
    );
    v_source_type constant text := rule_faults.rule ->> 'source_type';
    v_source_config constant jsonb := coalesce(rule_faults.rule -> 'source_config', '{}');
    v_action_config constant jsonb := coalesce(rule_faults.rule -> 'action_config', '{}');
begin
    if jsonb_typeof(rule_faults.rule) is distinct from 'object' then
        return v_faults;
    end if;

    if v_source_type = 'schedule' then
        v_faults := v_faults || _pgwhen.one_fault(
            'source_type', '"schedule" is not served by this version',
            'Write a rule for an event, and emit that event on time, for example with pg_cron.',
            'PW005'
        );
    elsif v_source_type like 'pgwhen.%' then
        v_faults := v_faults || _pgwhen.one_fault(
            'source_type', 'is an event of pgwhen''s own, which no rule is told',
            'Name an event that your application writes, such as "campaign_click".', 'PW001'
        );
    elsif jsonb_typeof(v_source_config) = 'object' then
        v_faults := v_faults || case
            when _pgwhen.is_too_large(v_source_config)
                then _pgwhen.large_config_fault(v_source_config, 'source_config', 'PW002')
            else _pgwhen.source_faults(v_source_type, v_source_config)
        end;
    end if;

    if jsonb_typeof(v_action_config) = 'object' then
        v_faults := v_faults || case
            when _pgwhen.is_too_large(v_action_config)
                then _pgwhen.large_config_fault(v_action_config, 'action_config', 'PW003')
            else _pgwhen.action_faults(rule_faults.rule ->> 'action_type', v_action_config)
        end;
    end if;
    return v_faults;
end;
$$;

-- The columns of pgwhen.trigger_rule. What the engine fills in may be there, and is not read.
create or replace function _pgwhen.rule_schema()
returns jsonb
language sql
immutable
as $doc$
select jsonb_set($${
    "title": "A rule: a row of pgwhen.trigger_rule",
    "type": "object",
    "description": "An object with the columns of pgwhen.trigger_rule as keys.",
    "additionalProperties": false,
    "required": ["name", "source_type", "action_type"],
    "properties": {
        "name": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "1 to 200 characters, unique in its account, for example \"gold\"."
        },
        "source_type": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "A source such as \"attribute_changed\", or an event that you emit."
        },
        "source_config": {"type": "object", "description": "An object, for example {}."},
        "action_type": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "An action such as \"add_to_audience\", or one that you serve."
        },
        "action_config": {"type": "object", "description": "An object, for example {}."},
        "enabled": {"type": "boolean", "description": "true or false."},
        "frequency": {
            "type": "string",
            "description": "Leave it out for once_per_hour, or write one of the names."
        },
        "cooldown_seconds": {
            "type": "integer", "minimum": 0, "maximum": 315360000,
            "description": "Whole seconds, from 0 to 315360000 (ten years)."
        },
        "workflow_id": {
            "type": ["integer", "null"], "minimum": 1,
            "description": "The id of a row of pgwhen.workflow, or null."
        },
        "workflow_node_path": {
            "type": ["array", "null"], "items": {"type": "string", "minLength": 1},
            "description": "An array of step ids and branch labels, or null."
        },
        "line_oa_id": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The account; leave it out for \"default\"."
        },
        "organization_id": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The account's organization; leave it out for \"default\"."
        },
        "id": {}, "created_date": {}, "updated_date": {}, "deleted_date": {}, "enabled_date": {},
        "parked_reason": {}
    }
}$$, '{properties,frequency,enum}', _pgwhen.frequencies());
$doc$;

create or replace function _pgwhen.action_faults(action_type text, action_config jsonb)
returns _pgwhen.fault[]
language sql
stable
as $$
select
    case
        when action_faults.action_config ? 'delay' then _pgwhen.delay_faults(
            action_faults.action_config -> 'delay', 'action_config.delay'
        )
        else '{}'
    end
    || _pgwhen.retry_policy_faults(
        action_faults.action_config -> 'retryPolicy', 'action_config.retryPolicy', 'PW006'
    )
    || _pgwhen.timeouts_faults(
        action_faults.action_config -> 'timeouts',
        _pgwhen.timeouts_of_type(action_faults.action_type), 'action_config.timeouts', 'PW007'
    )
    || _pgwhen.config_faults(
        action_faults.action_type,
        action_faults.action_config - _pgwhen.config_keys_of_pgwhen(),
        'action_config'
    );
$$;

-- Of an action_config, what pgwhen itself reads and no action sees.
create or replace function _pgwhen.config_keys_of_pgwhen()
returns text[]
language sql
immutable
as $$
select array['delay', 'retryPolicy', 'timeouts'];
$$;

-- By the schema of the action type, where it has one.
create or replace function _pgwhen.config_faults(action_type text, config jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_schema jsonb;
begin
    select t.config_schema
    into v_schema
    from _pgwhen.action_type as t
    where t.name = config_faults.action_type;

    return case
            when v_schema is null then '{}'
            else _pgwhen.schema_faults(
                v_schema, config_faults.config, config_faults.at_path, 'PW003'
            )
        end
        || _pgwhen.secret_faults(
            config_faults.action_type, config_faults.config, config_faults.at_path
        );
end;
$$;

-- The types of which a rule makes actions: its own, and those that follow a wait.
create or replace function _pgwhen.action_types_of(action_type text, action_config jsonb)
returns text[]
language sql
immutable
as $$
select array_remove(
    array[
        action_types_of.action_type,
        action_types_of.action_config #>> '{delay,onExpire,actionType}',
        action_types_of.action_config #>> '{delay,onClick,actionType}'
    ],
    null
);
$$;

create or replace function _pgwhen.is_too_large(config jsonb)
returns boolean
language sql
stable
as $$
select pg_column_size(is_too_large.config) > 1048576;
$$;

create or replace function _pgwhen.large_config_fault(config jsonb, at_path text, code text)
returns _pgwhen.fault[]
language sql
stable
as $$
select _pgwhen.one_fault(
    large_config_fault.at_path,
    format('has %s bytes, more than 1 MB', pg_column_size(large_config_fault.config)),
    'Keep what is long in a table of yours, and only its key in the rule.',
    large_config_fault.code
);
$$;

-- For forms only: saving leaves this to the unique index, which two sessions cannot both pass.
create or replace function _pgwhen.name_taken_faults(rule jsonb)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            'name', format('is taken by rule %s', r.id),
            'Choose another name, or soft-delete that rule first.', '23505'
        )::_pgwhen.fault
    from pgwhen.trigger_rule as r
    where
        r.line_oa_id = coalesce(name_taken_faults.rule ->> 'line_oa_id', 'default')
        and r.name = name_taken_faults.rule ->> 'name'
        and r.deleted_date is null
        and r.id::text is distinct from name_taken_faults.rule ->> 'id'
        and coalesce(name_taken_faults.rule ->> 'deleted_date', '') = ''
);
$$;
