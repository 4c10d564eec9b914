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
    v_shape constant text := jsonb_typeof(predicate);
begin
    if v_shape = 'array' then
        return next (
            at_path, 'a field cannot be compared with a whole array',
            'Write {"$in": […]} for one of them, {"$all": […]} for all of them.', 'PW104'
        )::_pgwhen.fault;
    elsif v_shape = 'object' and not _pgwhen.has_operator(predicate) then
        return next (
            at_path, 'a field cannot be compared with a whole object',
            'Compare its parts by dotted fields, for example "user.address.city".', 'PW104'
        )::_pgwhen.fault;
    elsif v_shape = 'object' then
        return query select f.* from _pgwhen.operators_faults(predicate, at_path, depth) as f;
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
    v_name text;
    v_operand jsonb;
    v_place text;
begin
    if depth > 16 then
        return next _pgwhen.depth_fault(at_path);
        return;
    end if;

    for v_name, v_operand in select o.key, o.value from jsonb_each(operators) as o loop
        v_place := _pgwhen.fault_place(at_path, v_name);
        case
            when v_name not like '$%' then
                return next (
                    v_place, format('"%s" stands among operators', v_name),
                    'Keep operators and fields apart: one object holds either.', 'PW106'
                )::_pgwhen.fault;
            when not _pgwhen.is_field_operator(v_name) then
                return next (
                    v_place, format('unknown operator %s', v_name),
                    case
                        when v_name in ('$and', '$or', '$nor', '$audience')
                            then format('Write %s outside of the field: {"%1$s": …}.', v_name)
                        when v_name = '$now'
                            then 'Compare with a time: {"$gte": {"$now": "-7 days"}}.'
                        else 'There are $eq $ne $gt $gte $lt $lte $in $nin $exists $type $regex '
                            '$options $all $elemMatch $size $mod $not.'
                    end, 'PW102'
                )::_pgwhen.fault;
            when v_name = '$not' then
                return query select f.* from _pgwhen.not_faults(v_operand, v_place, depth + 1) as f;
            when v_name = '$elemMatch' then
                return query select f.* from _pgwhen.element_faults(v_operand, v_place, depth + 1) as f;
            when v_name in ('$regex', '$options') then
                return query select f.* from _pgwhen.regex_faults(operators, v_name, v_place) as f;
            else
                return query select f.* from _pgwhen.operand_faults(v_name, v_operand, v_place) as f;
        end case;
    end loop;
end;
$$;

create or replace function _pgwhen.is_field_operator(name text)
returns boolean
language sql
immutable
as $$
select name in (
    '$eq', '$ne', '$gt', '$gte', '$lt', '$lte', '$in', '$nin', '$exists', '$type', '$regex',
    '$options', '$all', '$elemMatch', '$size', '$mod', '$not'
)
$$;

create or replace function _pgwhen.has_operator(object jsonb)
returns boolean
language sql
immutable
as $$
select exists (select from jsonb_object_keys(object) as k (name) where k.name like '$%')
$$;

create or replace function _pgwhen.not_faults(operand jsonb, at_path text, depth integer)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    if jsonb_typeof(operand) != 'object' or operand = '{}' then
        return next (
            at_path, 'the operand of $not is an object of operators',
            'Write {"$not": {"$gt": 5}}; for "is not this value" there is $ne.', 'PW103'
        )::_pgwhen.fault;
        return;
    end if;
    return query select f.* from _pgwhen.operators_faults(operand, at_path, depth) as f;
end;
$$;

-- $elemMatch holds a condition on elements that are objects, or operators on elements that
-- are values.
create or replace function _pgwhen.element_faults(operand jsonb, at_path text, depth integer)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    if jsonb_typeof(operand) != 'object' or operand = '{}' then
        return next (
            at_path, 'the operand of $elemMatch is an object of operators or of an element''s fields',
            'Write {"$elemMatch": {"status": "paid", "total": {"$gte": 100}}} or {"$elemMatch": {"$gt": 5}}.',
            'PW103'
        )::_pgwhen.fault;
    elsif _pgwhen.matches_values(operand) then
        return query select f.* from _pgwhen.operators_faults(operand, at_path, depth) as f;
    else
        return query select f.* from _pgwhen.clause_faults(operand, at_path, depth, false) as f;
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
    from jsonb_object_keys(element_match) as k (name)
    where
        k.name like '$%'
        and k.name not in ('$and', '$or', '$nor')
)
$$;
