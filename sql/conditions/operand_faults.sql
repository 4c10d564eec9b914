-- _pgwhen.operand_faults: what is wrong with the operand of one operator that takes values.

create or replace function _pgwhen.operand_faults(operator text, operand jsonb, at_path text)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_shape constant text := jsonb_typeof(operand);
begin
    case
        when operator in ('$eq', '$ne', '$gt', '$gte', '$lt', '$lte') then
            return query select f.* from _pgwhen.comparand_faults(operator, operand, at_path) as f;
        when operator in ('$in', '$nin', '$all') then
            return query select f.* from _pgwhen.list_faults(operator, operand, at_path) as f;
        when operator = '$exists' and v_shape != 'boolean' then
            return next (
                at_path, 'the operand of $exists is true or false',
                'Write {"$exists": true}.', 'PW103'
            )::_pgwhen.fault;
        when operator = '$type' and not _pgwhen.names_types(operand) then
            return next (
                at_path, format('%s is no type of a JSON value', operand),
                'There are "string", "number", "bool", "null", "object" and "array", or a list of them.',
                'PW103'
            )::_pgwhen.fault;
        when operator = '$size' and not _pgwhen.is_whole(operand, 0) then
            return next (
                at_path, 'the operand of $size is a whole number from 0',
                'Write {"$size": 2}; for "at least one element" write {"$exists": true, "$not": {"$size": 0}}.',
                'PW103'
            )::_pgwhen.fault;
        when operator = '$mod' and not _pgwhen.is_division(operand) then
            return next (
                at_path, 'the operand of $mod is a list of divisor and remainder, whole numbers',
                'Write {"$mod": [10, 0]} for every tenth; the divisor is not 0.', 'PW103'
            )::_pgwhen.fault;
        else
            return;
    end case;
end;
$$;

create or replace function _pgwhen.is_scalar(value jsonb)
returns boolean
language sql
immutable
as $$
select jsonb_typeof(value) in ('string', 'number', 'boolean', 'null')
$$;

-- {"$now": offset}: a moment, not an object to compare with.
create or replace function _pgwhen.is_moment(operand jsonb)
returns boolean
language sql
immutable
as $$
select jsonb_typeof(operand) = 'object' and operand ? '$now' and operand - '$now' = '{}'
$$;

create or replace function _pgwhen.comparand_faults(operator text, operand jsonb, at_path text)
returns setof _pgwhen.fault
language sql
stable
as $$
select
    _pgwhen.fault_place(at_path, '$now'),
    format('%s is no offset from now', operand -> '$now'),
    'Write an interval such as "-7 days" or "1 month", or a number of seconds, '
    'of at most a thousand years.',
    'PW109'
where
    _pgwhen.is_moment(operand)
    and _pgwhen.offset_text(operand -> '$now') is null
union all
select
    at_path,
    format('%s compares with one value, not %s', operator, jsonb_typeof(operand)),
    'Write a text, a number, true, false, null or a time such as {"$now": "-7 days"}; '
    'for several values there are $in and $all.',
    'PW104'
where
    not _pgwhen.is_scalar(operand)
    and not _pgwhen.is_moment(operand)
$$;

create or replace function _pgwhen.list_faults(operator text, operand jsonb, at_path text)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    if jsonb_typeof(operand) != 'array' then
        return next (
            at_path, format('the operand of %s is a list', operator),
            format('Write {"%s": ["gold", "silver"]}.', operator), 'PW103'
        )::_pgwhen.fault;
        return;
    end if;
    return query
    select
        format('%s[%s]', at_path, e.place - 1),
        format('%s takes texts, numbers, true, false and null, not %s', operator, jsonb_typeof(e.element)),
        'Write several conditions under $or or $and.',
        'PW104'
    from jsonb_array_elements(operand) with ordinality as e (element, place)
    where not _pgwhen.is_scalar(e.element);
end;
$$;

create or replace function _pgwhen.names_types(operand jsonb)
returns boolean
language sql
immutable
as $$
select
    jsonb_typeof(operand) in ('string', 'array')
    and operand != '[]'
    and not jsonb_path_exists(
        operand,
        '$[*] ? (!(@ == "string" || @ == "number" || @ == "bool" || @ == "null"
            || @ == "object" || @ == "array") || (@ == "string") is unknown)'
    )
$$;

create or replace function _pgwhen.is_whole(value jsonb, least_value numeric default null)
returns boolean
language sql
immutable
as $$
select case
    when jsonb_typeof(value) = 'number' then
        value::numeric = trunc(value::numeric)
        and value::numeric >= coalesce(least_value, value::numeric)
    else false
end
$$;

create or replace function _pgwhen.is_division(operand jsonb)
returns boolean
language sql
immutable
as $$
select case
    when jsonb_typeof(operand) = 'array' and jsonb_array_length(operand) = 2 then
        _pgwhen.is_whole(operand -> 0)
        and _pgwhen.is_whole(operand -> 1)
        and operand -> 0 != '0'
    else false
end
$$;
