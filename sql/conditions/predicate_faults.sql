-- _pgwhen.predicate_faults: what is wrong beside a field: a value, or an object of operators.
--
-- Which operators there are stands in is_field_operator; what each takes, in operand_faults.

create or replace function _pgwhen.predicate_faults(
    predicate jsonb,
    at_path text,
    depth integer
)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_shape constant text := jsonb_typeof(predicate_faults.predicate);
begin
    if v_shape = 'array' then
        return next (
            predicate_faults.at_path, 'a field cannot be compared with a whole array',
            'Write {"$in": […]} for one of them, {"$all": […]} for all of them.', 'PW104'
        )::_pgwhen.fault;
    elsif v_shape = 'object' and not _pgwhen.has_operator(predicate_faults.predicate) then
        return next (
            predicate_faults.at_path, 'a field cannot be compared with a whole object',
            'Compare its parts by dotted fields, for example "user.address.city".', 'PW104'
        )::_pgwhen.fault;
    elsif v_shape = 'object' then
        return query
        select f.*
        from _pgwhen.operators_faults(
            predicate_faults.predicate, predicate_faults.at_path, predicate_faults.depth
        ) as f;
    end if;
end;
$$;

create or replace function _pgwhen.operators_faults(
    operators jsonb,
    at_path text,
    depth integer
)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_depth constant integer := operators_faults.depth + 1;
    v_operator text;
    v_operand jsonb;
    v_place text;
begin
    if operators_faults.depth > 16 then
        return next _pgwhen.depth_fault(operators_faults.at_path);
        return;
    end if;

    for v_operator, v_operand in
        select o.key, o.value
        from jsonb_each(operators_faults.operators) as o
    loop
        v_place := _pgwhen.fault_place(operators_faults.at_path, v_operator);
        case
            when not _pgwhen.is_field_operator(v_operator) then
                return next _pgwhen.unknown_operator_fault(v_operator, v_place);
            when v_operator = '$not' then
                return query
                select f.* from _pgwhen.not_faults(v_operand, v_place, v_depth) as f;
            when v_operator = '$elemMatch' then
                return query
                select f.* from _pgwhen.match_faults(v_operand, v_place, v_depth) as f;
            when v_operator in ('$regex', '$options') then
                return query
                select f.*
                from _pgwhen.regex_faults(operators_faults.operators, v_operator, v_place) as f;
            else
                return query
                select f.* from _pgwhen.operand_faults(v_operator, v_operand, v_place) as f;
        end case;
    end loop;
end;
$$;

create or replace function _pgwhen.is_field_operator(name text)
returns boolean
language sql
immutable
as $$
select is_field_operator.name in (
    '$eq', '$ne', '$gt', '$gte', '$lt', '$lte', '$in', '$nin', '$exists', '$type', '$regex',
    '$options', '$all', '$elemMatch', '$size', '$mod', '$not'
);
$$;

create or replace function _pgwhen.has_operator(object jsonb)
returns boolean
language sql
immutable
as $$
select exists (
    select
    from jsonb_object_keys(has_operator.object) as k (name)
    where k.name like '$%'
);
$$;

create or replace function _pgwhen.unknown_operator_fault(operator text, at_path text)
returns _pgwhen.fault
language sql
immutable
as $$
select case
    when unknown_operator_fault.operator not like '$%' then (
        unknown_operator_fault.at_path,
        format('"%s" stands among operators', unknown_operator_fault.operator),
        'Keep operators and fields apart: one object holds either.',
        'PW106'
    )::_pgwhen.fault
    else (
        unknown_operator_fault.at_path,
        format('unknown operator %s', unknown_operator_fault.operator),
        case
            when unknown_operator_fault.operator in ('$and', '$or', '$nor', '$audience') then
                format('Write it outside of the field: {"%s": …}.', unknown_operator_fault.operator)
            when unknown_operator_fault.operator = '$now' then
                'Compare with a time: {"$gte": {"$now": "-7 days"}}.'
            else
                'There are $eq $ne $gt $gte $lt $lte $in $nin $exists $type $regex $options '
                '$all $elemMatch $size $mod $not.'
        end,
        'PW102'
    )::_pgwhen.fault
end;
$$;

create or replace function _pgwhen.not_faults(operand jsonb, at_path text, depth integer)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    if jsonb_typeof(not_faults.operand) <> 'object' or not_faults.operand = '{}' then
        return next (
            not_faults.at_path, 'the operand of $not is an object of operators',
            'Write {"$not": {"$gt": 5}}; for "is not this value" there is $ne.', 'PW103'
        )::_pgwhen.fault;
        return;
    end if;
    return query
    select f.*
    from _pgwhen.operators_faults(not_faults.operand, not_faults.at_path, not_faults.depth) as f;
end;
$$;

-- $elemMatch holds a condition on elements that are objects, or operators on elements that
-- are values.
create or replace function _pgwhen.match_faults(operand jsonb, at_path text, depth integer)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    if jsonb_typeof(match_faults.operand) <> 'object' or match_faults.operand = '{}' then
        return next (
            match_faults.at_path,
            'the operand of $elemMatch is an object of operators or of fields of an element',
            'Write {"$elemMatch": {"status": "paid", "total": {"$gte": 100}}} '
            'or {"$elemMatch": {"$gt": 5}}.', 'PW103'
        )::_pgwhen.fault;
    elsif _pgwhen.matches_values(match_faults.operand) then
        return query
        select f.*
        from _pgwhen.operators_faults(
            match_faults.operand, match_faults.at_path, match_faults.depth
        ) as f;
    else
        return query
        select f.*
        from _pgwhen.clause_faults(
            match_faults.operand, match_faults.at_path, match_faults.depth, false
        ) as f;
    end if;
end;
$$;

create or replace function _pgwhen.matches_values(element_match jsonb)
returns boolean
language sql
immutable
as $$
select exists (
    select
    from jsonb_object_keys(matches_values.element_match) as k (name)
    where
        k.name like '$%'
        and k.name not in ('$and', '$or', '$nor')
);
$$;
