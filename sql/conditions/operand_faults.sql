-- _pgwhen.operand_faults: what is wrong with the operand of one operator that takes values.

create or replace function _pgwhen.operand_faults(operator text, operand jsonb, at_path text)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    case
        when operand_faults.operator in ('$eq', '$ne', '$gt', '$gte', '$lt', '$lte') then
            return query
            select f.*
            from _pgwhen.comparand_faults(
                operand_faults.operator, operand_faults.operand, operand_faults.at_path
            ) as f;
        when operand_faults.operator in ('$in', '$nin', '$all') then
            return query
            select f.*
            from _pgwhen.list_faults(
                operand_faults.operator, operand_faults.operand, operand_faults.at_path
            ) as f;
        else
            return query
            select
                operand_faults.at_path, r.message, r.hint, 'PW103'
            from _pgwhen.operand_rules(operand_faults.operand) as r
            where
                r.operator = operand_faults.operator
                and not r.is_kept;
    end case;
end;
$$;

create or replace function _pgwhen.operand_rules(
    operand jsonb,
    out operator text,
    out is_kept boolean,
    out message text,
    out hint text
)
returns setof record
language sql
immutable
as $$
values
(
    '$exists', jsonb_typeof(operand_rules.operand) = 'boolean',
    'the operand of $exists is true or false', 'Write {"$exists": true}.'
),
(
    '$type', _pgwhen.names_types(operand_rules.operand),
    'the operand of $type is no type of a JSON value',
    'There are "string", "number", "bool", "null", "object" and "array", or a list of them.'
),
(
    '$size', _pgwhen.is_whole(operand_rules.operand) and operand_rules.operand >= '0',
    'the operand of $size is a whole number from 0',
    'Write {"$size": 2}; for "not empty" write {"$type": "array", "$not": {"$size": 0}}.'
),
(
    '$mod', _pgwhen.is_division(operand_rules.operand),
    'the operand of $mod is a list of divisor and remainder, whole numbers',
    'Write {"$mod": [10, 0]} for every tenth; the divisor is not 0.'
);
$$;

create or replace function _pgwhen.is_scalar(value jsonb)
returns boolean
language sql
immutable
as $$
select jsonb_typeof(is_scalar.value) in ('string', 'number', 'boolean', 'null');
$$;

-- {"$now": offset}: a moment, not an object to compare with.
create or replace function _pgwhen.is_moment(operand jsonb)
returns boolean
language sql
immutable
as $$
select
    jsonb_typeof(is_moment.operand) = 'object'
    and is_moment.operand ? '$now'
    and is_moment.operand - '$now' = '{}';
$$;

create or replace function _pgwhen.comparand_faults(operator text, operand jsonb, at_path text)
returns setof _pgwhen.fault
language sql
stable
as $$
select
    _pgwhen.fault_place(comparand_faults.at_path, '$now'),
    format('%s is no offset from now', comparand_faults.operand -> '$now'),
    'Write an interval such as "-7 days" or "1 month", or a number of seconds, '
    'of at most a thousand years.',
    'PW109'
where
    _pgwhen.is_moment(comparand_faults.operand)
    and _pgwhen.offset_text(comparand_faults.operand -> '$now') is null
union all
select
    comparand_faults.at_path,
    format(
        '%s compares with one value, not %s',
        comparand_faults.operator, jsonb_typeof(comparand_faults.operand)
    ),
    'Write a text, a number, true, false, null or a time such as {"$now": "-7 days"}; '
    'for several values there are $in and $all.',
    'PW104'
where
    not _pgwhen.is_scalar(comparand_faults.operand)
    and not _pgwhen.is_moment(comparand_faults.operand);
$$;

create or replace function _pgwhen.list_faults(operator text, operand jsonb, at_path text)
returns setof _pgwhen.fault
language plpgsql
immutable
as $$
begin
    if jsonb_typeof(list_faults.operand) <> 'array' then
        return next (
            list_faults.at_path,
            format('the operand of %s is a list', list_faults.operator),
            format('Write {"%s": ["gold", "silver"]}.', list_faults.operator), 'PW103'
        )::_pgwhen.fault;
        return;
    end if;
    return query
    select
        format('%s[%s]', list_faults.at_path, e.place - 1),
        format(
            '%s takes texts, numbers, true, false and null, not %s',
            list_faults.operator, jsonb_typeof(e.element)
        ),
        'Write several conditions under $or or $and.',
        'PW104'
    from jsonb_array_elements(list_faults.operand) with ordinality as e (element, place)
    where not _pgwhen.is_scalar(e.element);
end;
$$;

create or replace function _pgwhen.names_types(operand jsonb)
returns boolean
language sql
immutable
as $$
select
    jsonb_typeof(names_types.operand) in ('string', 'array')
    and names_types.operand <> '[]'
    and '["string", "number", "bool", "null", "object", "array"]' @> names_types.operand;
$$;

create or replace function _pgwhen.is_whole(value jsonb)
returns boolean
language sql
immutable
as $$
select case
    when jsonb_typeof(is_whole.value) = 'number' then is_whole.value::numeric % 1 = 0
    else false
end;
$$;

create or replace function _pgwhen.is_division(operand jsonb)
returns boolean
language sql
immutable
as $$
select
    jsonb_typeof(is_division.operand) = 'array'
    and jsonb_path_match(is_division.operand, '$.size() == 2')
    and _pgwhen.is_whole(is_division.operand -> 0)
    and _pgwhen.is_whole(is_division.operand -> 1)
    and is_division.operand -> 0 <> '0';
$$;
