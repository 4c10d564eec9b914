-- _pgwhen.condition_faults: everything that is wrong with a condition, for forms.
--
-- One function for each shape that can stand in a condition: a clause (an object of fields and
-- logical operators), a predicate (what stands beside a field), an operator with its operand.
-- compile_condition raises the first fault and otherwise trusts that there is none.

create or replace function _pgwhen.condition_faults(
    condition jsonb,
    at_path text default 'condition'
)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_fault _pgwhen.fault;
begin
    if condition_faults.condition is null or condition_faults.condition = 'null' then
        return;
    end if;
    v_fault := _pgwhen.size_fault(condition_faults.condition, condition_faults.at_path);
    if v_fault.code is not null then
        return next v_fault;
        return;
    end if;
    return query
    select f.*
    from _pgwhen.clause_faults(condition_faults.condition, condition_faults.at_path, 1, true) as f;
end;
$$;

-- Limits on the whole, so that nothing below walks what is too big. Nesting has its own, in
-- clause_faults: there the fault has a place.
create or replace function _pgwhen.size_fault(
    condition jsonb,
    at_path text,
    out fault _pgwhen.fault
)
language plpgsql
stable
as $$
declare
    v_bytes constant integer := octet_length(size_fault.condition::text);
    v_values bigint;
    v_longest integer;
begin
    if v_bytes > 262144 then
        fault := (
            size_fault.at_path,
            format('the condition is too large: %s bytes of at most 262144', v_bytes),
            'Keep long lists in an audience and ask {"$audience": "its name"}.', 'PW108'
        )::_pgwhen.fault;
        return;
    end if;

    select
        count(*),
        max(length(n.node #>> '{}')) filter (where jsonb_typeof(n.node) = 'string')
    into v_values, v_longest
    from jsonb_path_query(size_fault.condition, 'strict $.**') as n (node);

    if v_values > 1000 then
        fault := (
            size_fault.at_path,
            format('the condition is too large: %s JSON values of at most 1000', v_values),
            'Keep long lists in an audience and ask {"$audience": "its name"}.', 'PW108'
        )::_pgwhen.fault;
    elsif v_longest > 10000 then
        fault := (
            size_fault.at_path,
            format('a text is too long: %s characters of at most 10000', v_longest),
            'Compare with a shorter text.', 'PW108'
        )::_pgwhen.fault;
    end if;
end;
$$;

-- The place of a member below another place: condition.$and[0]["user.tier"].$gte
create or replace function _pgwhen.fault_place(at_path text, member text)
returns text
language sql
immutable
as $$
select fault_place.at_path || case
    when fault_place.member ~ '^[A-Za-z_$][A-Za-z0-9_]*$' then '.' || fault_place.member
    else '[' || to_jsonb(fault_place.member)::text || ']'
end;
$$;

-- rooted: fields begin with user. or event.; not so inside $elemMatch, where they belong to
-- the element.
create or replace function _pgwhen.clause_faults(
    condition jsonb,
    at_path text,
    depth integer,
    rooted boolean
)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_name text;
    v_value jsonb;
    v_place text;
begin
    if jsonb_typeof(clause_faults.condition) <> 'object' then
        return next (
            clause_faults.at_path,
            format('a condition is an object, not %s', jsonb_typeof(clause_faults.condition)),
            'Write for example {"user.tier": "gold"}.', 'PW101'
        )::_pgwhen.fault;
        return;
    end if;
    if clause_faults.depth > 16 then
        return next _pgwhen.depth_fault(clause_faults.at_path);
        return;
    end if;

    for v_name, v_value in
        select c.key, c.value
        from jsonb_each(clause_faults.condition) as c
    loop
        v_place := _pgwhen.fault_place(clause_faults.at_path, v_name);
        case
            when v_name in ('$and', '$or', '$nor') then
                return query
                select f.*
                from _pgwhen.clause_list_faults(
                    v_value, v_place, clause_faults.depth + 1, clause_faults.rooted
                ) as f;
            when v_name = '$not' then
                return query
                select f.*
                from _pgwhen.clause_faults(
                    v_value, v_place, clause_faults.depth + 1, clause_faults.rooted
                ) as f;
            when v_name = '$audience' and clause_faults.rooted then
                return query
                select f.* from _pgwhen.audience_faults(v_value, v_place) as f;
            when v_name like '$%' then
                return next _pgwhen.misplaced_fault(v_name, v_place);
            else
                return query
                select f.* from _pgwhen.field_faults(v_name, v_place, clause_faults.rooted) as f
                union all
                select f.*
                from _pgwhen.predicate_faults(v_value, v_place, clause_faults.depth) as f;
        end case;
    end loop;
end;
$$;

create or replace function _pgwhen.clause_list_faults(
    conditions jsonb,
    at_path text,
    depth integer,
    rooted boolean
)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
begin
    if
        jsonb_typeof(clause_list_faults.conditions) <> 'array'
        or clause_list_faults.conditions = '[]'
    then
        return next (
            clause_list_faults.at_path, 'the operand is a list of at least one condition',
            'Write for example [{"user.tier": "gold"}, {"user.points": {"$gte": 100}}].', 'PW103'
        )::_pgwhen.fault;
        return;
    end if;
    return query
    select f.*
    from jsonb_array_elements(clause_list_faults.conditions) with ordinality as c (condition, place)
    cross join lateral _pgwhen.clause_faults(
        c.condition,
        format('%s[%s]', clause_list_faults.at_path, c.place - 1),
        clause_list_faults.depth,
        clause_list_faults.rooted
    ) as f;
end;
$$;

create or replace function _pgwhen.audience_faults(name jsonb, at_path text)
returns setof _pgwhen.fault
language sql
immutable
as $$
select
    audience_faults.at_path,
    'the operand is the name of an audience',
    'Write {"$audience": "gold members"}; join several with $and or $or.',
    'PW103'
where
    jsonb_typeof(audience_faults.name) <> 'string'
    or audience_faults.name = '""';
$$;

create or replace function _pgwhen.misplaced_fault(operator text, at_path text)
returns _pgwhen.fault
language sql
immutable
as $$
select (
    misplaced_fault.at_path,
    format('%s is no operator of a whole condition', misplaced_fault.operator),
    case
        when misplaced_fault.operator = '$audience' then
            'Ask for the audience beside the field, outside of $elemMatch.'
        when _pgwhen.is_field_operator(misplaced_fault.operator) then
            format('Name a field: {"user.points": {"%s": …}}.', misplaced_fault.operator)
        else 'There are $and $or $nor $not $audience, and fields such as "user.tier".'
    end,
    'PW102'
)::_pgwhen.fault;
$$;

create or replace function _pgwhen.depth_fault(at_path text)
returns _pgwhen.fault
language sql
immutable
as $$
select (
    depth_fault.at_path,
    'the condition is nested more than 16 levels deep',
    'Flatten it: fields beside each other in one object are joined by "and".',
    'PW108'
)::_pgwhen.fault;
$$;
