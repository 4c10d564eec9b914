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
    return
        _pgwhen.retry_policy_faults(config -> 'retryPolicy', at_path || '.retryPolicy', 'PW006')
        || _pgwhen.timeouts_faults(
            config -> 'timeouts', _pgwhen.timeouts_of_type(action_type), at_path || '.timeouts',
            'PW007'
        )
        || _pgwhen.config_faults(
            action_type, config - _pgwhen.config_keys_of_pgwhen(), at_path
        );
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
language plpgsql
stable
as $$
begin
    return array(
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
