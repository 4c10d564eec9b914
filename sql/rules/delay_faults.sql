-- _pgwhen.delay_faults: what is wrong with a delay: first keys and types, and where these are
-- right, whether they make sense together.

create or replace function _pgwhen.delay_faults(delay jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_delay constant jsonb := delay_faults.delay;
    v_path constant text := delay_faults.at_path;
    v_faults constant _pgwhen.fault[] := _pgwhen.schema_faults(
        _pgwhen.delay_schema(), v_delay, v_path, 'PW004'
    );
begin
    if cardinality(v_faults) > 0 then
        return v_faults;
    end if;
    return
        _pgwhen.lone_key_faults(v_delay, v_path)
        || case
            when v_delay @> '{"waitForTracking": true}' then _pgwhen.expiry_faults(v_delay, v_path)
            else _pgwhen.time_faults(v_delay, v_path)
        end
        || _pgwhen.at_faults(v_delay -> 'at', v_path || '.at')
        || _pgwhen.until_faults(v_delay -> 'until', v_path || '.until')
        || _pgwhen.follow_up_faults(v_delay -> 'onExpire', v_path || '.onExpire')
        || _pgwhen.follow_up_faults(v_delay -> 'onClick', v_path || '.onClick');
end;
$$;

-- Keys that say something about another key, which is not there.
create or replace function _pgwhen.lone_key_faults(delay jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
begin
    return array(
        select
            row(
                _pgwhen.path_to(lone_key_faults.at_path, k.key),
                'has no meaning without ' || k.needs,
                format('Add %s, or leave it out.', k.needs), 'PW004'
            )::_pgwhen.fault
        from (
            values
            ('after', '"waitForTracking": true'),
            ('expiresSeconds', '"waitForTracking": true'),
            ('onClick', '"after": "send"'),
            ('onExpire', '"waitForTracking": true'),
            ('tracking', '"waitForTracking": true')
        ) as k (key, needs)
        where lone_key_faults.delay ? k.key
            and not lone_key_faults.delay @> ('{' || k.needs || '}')::jsonb
    );
end;
$$;

-- Where nothing is waited for: exactly one time.
create or replace function _pgwhen.time_faults(delay jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
begin
    return _pgwhen.when_faults(
        time_faults.delay, '{seconds,delaySeconds,at,until}', time_faults.at_path,
        'Add one of "seconds", "at" and "until", for example {"seconds": 3600}.', 'PW004'
    );
end;
$$;

-- Where what is given does not have exactly one of the keys that say when.
create or replace function _pgwhen.when_faults(
    given jsonb,
    keys text[],
    at_path text,
    hint text,
    code text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_given constant text[] := array(
        select k.key from unnest(when_faults.keys) as k (key) where when_faults.given ? k.key
    );
begin
    return case
        when cardinality(v_given) = 0 then _pgwhen.one_fault(
            when_faults.at_path, 'does not say when', when_faults.hint, when_faults.code
        )
        when cardinality(v_given) > 1 then _pgwhen.one_fault(
            when_faults.at_path,
            format('says more than once when: "%s"', array_to_string(v_given, '" and "')),
            'Keep one of them.', when_faults.code
        )
        else '{}'
    end;
end;
$$;

-- Where a click is waited for: how long. expiresSeconds goes before the two names of the delay.
create or replace function _pgwhen.expiry_faults(delay jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            _pgwhen.path_to(expiry_faults.at_path, f.key), f.message,
            'Say how long to wait, for example "expiresSeconds": 86400.', 'PW004'
        )::_pgwhen.fault
    from (
        select k.key, 'cannot stand beside "waitForTracking"' as message
        from unnest(array['at', 'until']) as k (key)
        where expiry_faults.delay ? k.key
        union all
        select 'delaySeconds', 'is the older name of "seconds", which is there too'
        where expiry_faults.delay ?& array['seconds', 'delaySeconds']
        union all
        select 'expiresSeconds', 'is required beside "waitForTracking"'
        where _pgwhen.expiry_of(expiry_faults.delay) is null
        union all
        select 'waitForTracking', 'waits for a click, and no time to click is given'
        where _pgwhen.expiry_of(expiry_faults.delay) = '0'
    ) as f
);
$$;

create or replace function _pgwhen.expiry_of(delay jsonb)
returns jsonb
language sql
immutable
as $$
select coalesce(
    expiry_of.delay -> 'expiresSeconds', expiry_of.delay -> 'seconds',
    expiry_of.delay -> 'delaySeconds'
);
$$;

create or replace function _pgwhen.at_faults(at jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select case
    when at_faults.at is not null and _pgwhen.to_instant(at_faults.at #>> '{}') is null
        then _pgwhen.one_fault(
            at_faults.at_path, format('is no date that exists, got %s', at_faults.at),
            _pgwhen.delay_schema() #>> '{properties,at,description}', 'PW004'
        )
    else '{}'
end;
$$;

create or replace function _pgwhen.until_faults(until jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select case
    when until_faults.until is null then '{}'
    else
        _pgwhen.until_field_faults(until_faults.until ->> 'field', until_faults.at_path || '.field')
        || case
            when _pgwhen.until_offset(until_faults.until -> 'offset') is null
                then _pgwhen.one_fault(
                    until_faults.at_path || '.offset',
                    format(
                        'is no interval of at most ten years, got %s',
                        _pgwhen.excerpt(until_faults.until -> 'offset')
                    ),
                    'Write an interval such as "-1 day" or "2 hours", or a number of seconds.',
                    'PW004'
                )
            else '{}'
        end
end;
$$;

-- The fields are those of conditions, but that nothing looks into an array.
create or replace function _pgwhen.until_field_faults(field text, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select case
    when until_field_faults.field ~ '(^|\.)[\s+-]*[0-9]+(\.|$)' then _pgwhen.one_fault(
        until_field_faults.at_path,
        format('field "%s" has a number for a part', left(until_field_faults.field, 60)),
        'Name a field of an object: of an array no element can be named.', 'PW004'
    )
    else array(
        select row(f.path, f.message, f.hint, 'PW004')::_pgwhen.fault
        from _pgwhen.field_faults(
            until_field_faults.field, until_field_faults.at_path, true
        ) as f
    )
end;
$$;

-- The offset of an `until`; none is no time at all. Null where it is no interval, or its years and
-- months, days and seconds, each without its sign, come to more than ten years. The style is set
-- because it changes how signs are read.
create or replace function _pgwhen.until_offset(value jsonb)
returns interval
language plpgsql
stable
set intervalstyle = 'postgres'
as $$
declare
    v_offset interval;
begin
    v_offset := _pgwhen.span(coalesce(until_offset.value, '0'));
    return case
        when abs(extract(year from v_offset) + extract(month from v_offset) / 12) * 365.25
            + abs(extract(day from v_offset))
            + abs(extract(epoch from v_offset - date_trunc('day', v_offset))) / 86400 <= 3653
            then v_offset
    end;
exception
    when data_exception then
        return null;
end;
$$;

-- What is done when a wait ends: an action of its own, checked as the rule's is.
create or replace function _pgwhen.follow_up_faults(follow_up jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
select case
    when follow_up_faults.follow_up is null then '{}'
    when follow_up_faults.follow_up -> 'actionConfig' ? 'delay' then _pgwhen.one_fault(
        follow_up_faults.at_path || '.actionConfig.delay', 'cannot stand here',
        'Leave it out: what follows a wait is done when the wait ends.', 'PW004'
    )
    else
        _pgwhen.retry_policy_faults(
            follow_up_faults.follow_up #> '{actionConfig,retryPolicy}',
            follow_up_faults.at_path || '.actionConfig.retryPolicy', 'PW006'
        )
        || _pgwhen.timeouts_faults(
            follow_up_faults.follow_up #> '{actionConfig,timeouts}',
            _pgwhen.timeouts_of_type(follow_up_faults.follow_up ->> 'actionType'),
            follow_up_faults.at_path || '.actionConfig.timeouts', 'PW007'
        )
        || _pgwhen.config_faults(
            follow_up_faults.follow_up ->> 'actionType',
            coalesce(follow_up_faults.follow_up -> 'actionConfig', '{}')
            - _pgwhen.config_keys_of_pgwhen(),
            follow_up_faults.at_path || '.actionConfig'
        )
end;
$$;
