-- _pgwhen.compile_leaf: one positive test of one field, as a jsonpath predicate.

create or replace function _pgwhen.compile_leaf(
    operator text,
    operand jsonb,
    options text,
    item text,
    field text[],
    origin text,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_place constant text := item || _pgwhen.steps(field);
    v_is_element constant boolean := field = '{}';
    v_variable text;
begin
    if operator = '$elemMatch' then
        select c.expr, c.bound into expr, bound
        from _pgwhen.compile_element_match(operand, item, field, origin, bound) as c;
        return;
    end if;
    if operator not in ('$exists', '$type', '$regex') then
        select b.variable, b.bound into v_variable, bound
        from _pgwhen.bind(
            case when _pgwhen.is_moment(operand) then 't' else 'v' end,
            case
                when _pgwhen.is_moment(operand)
                    then _pgwhen.moment(operator, operand, origin || _pgwhen.steps(field))
                else operand
            end,
            bound
        ) as b;
    end if;

    expr := case
        when operator = '$exists' then format('exists(%s)', v_place)
        when operator = '$type' then _pgwhen.type_expr(operand, v_place, v_is_element)
        when operator = '$regex' then _pgwhen.regex_expr(operand #>> '{}', options, v_place)
        when operator = '$size' then _pgwhen.size_expr(v_variable, item, field)
        when operator = '$mod' then
            format(
                'exists(%1$s ? (@.type() == "number" && (@ - @ %% 1) %% %2$s[0] == %2$s[1]))',
                v_place, v_variable
            )
        when _pgwhen.is_moment(operand) then format('%s == %s[*]', v_place, v_variable)
        else _pgwhen.comparison_expr(operator, operand, v_variable, item, field)
    end;

    -- A comparison would look into an element that is an array; MongoDB compares it whole,
    -- and no array equals a scalar.
    if v_is_element and operator not in ('$exists', '$type', '$size') then
        expr := format('(@.type() != "array" && %s)', expr);
    end if;
end;
$$;

create or replace function _pgwhen.steps(field text[])
returns text
language sql
immutable
as $$
select coalesce(string_agg('.' || to_jsonb(f.part)::text, '' order by f.place), '')
from unnest(field) with ordinality as f (part, place)
$$;

-- What holds() needs to list the texts that stand in the asked relation to now.
create or replace function _pgwhen.moment(operator text, operand jsonb, origin text)
returns jsonb
language sql
stable
as $$
select jsonb_build_object(
    'path', origin || '[*]',
    'operator', operator,
    'offset', _pgwhen.offset_text(operand -> '$now')
)
$$;

-- Missing as MongoDB has it: some object on the way lacks the next step, or holds there a
-- scalar with steps still to go. In arrays only elements that are objects can lack anything.
create or replace function _pgwhen.missing_expr(item text, field text[])
returns text
language sql
immutable
as $$
select string_agg(
    format(
        case
            when f.place = cardinality(field)
                then 'exists(%1$s ? (@.type() == "object" && !exists(@%2$s)))'
            else
                'exists(%1$s ? (@.type() == "object" '
                '&& !(@%2$s.type() == "object" || @%2$s.type() == "array")))'
        end,
        item || _pgwhen.steps(field[:f.place - 1]),
        _pgwhen.steps(array[f.part])
    ),
    ' || ' order by f.place desc
)
from unnest(field) with ordinality as f (part, place)
$$;

create or replace function _pgwhen.comparison_expr(
    operator text,
    operand jsonb,
    variable text,
    item text,
    field text[]
)
returns text
language sql
immutable
as $$
select case
    when field != '{}' and (
        (operator in ('$eq', '$gte', '$lte') and operand = 'null')
        or (operator = '$in' and operand @> '[null]')
    ) then format('(%s || %s)', c.comparison, _pgwhen.missing_expr(item, field))
    else c.comparison
end
from (
    select item || _pgwhen.steps(field) || case operator
        when '$eq' then ' == ' || variable
        when '$gt' then ' > ' || variable
        when '$gte' then ' >= ' || variable
        when '$lt' then ' < ' || variable
        when '$lte' then ' <= ' || variable
        when '$in' then ' == ' || variable || '[*]'
    end as comparison
) as c
$$;

create or replace function _pgwhen.type_expr(types jsonb, place text, is_element boolean)
returns text
language sql
immutable
as $$
select '(' || string_agg(
    case
        when is_element or t.name = 'array' then format('%s.type() == "%s"', place, t.name)
        else format('%s[*].type() == "%s"', place, t.name)
    end,
    ' || ' order by t.name
) || ')'
from (
    select distinct case n.name when 'bool' then 'boolean' else n.name end as name
    from jsonb_path_query(types, '$[*]') as v (value)
    cross join lateral (select v.value #>> '{}' as name) as n
) as t
$$;

create or replace function _pgwhen.regex_expr(pattern text, options text, place text)
returns text
language sql
immutable
as $$
select format(
    '%s like_regex %s flag "%s"',
    place,
    to_jsonb((_pgwhen.are_from_pcre(pattern, options)).are),
    case when options like '%i%' then 'is' else 's' end
)
$$;

-- .size() of a scalar is 1 and a filter looks into arrays, so the array is tested as a member
-- of the object that holds it.
create or replace function _pgwhen.size_expr(variable text, item text, field text[])
returns text
language sql
immutable
as $$
select case
    when field = '{}' then format('(@.type() == "array" && @.size() == %s)', variable)
    else format(
        'exists(%1$s ? (@.type() == "object" && @%2$s.type() == "array" && @%2$s.size() == %3$s))',
        item || _pgwhen.steps(field[:cardinality(field) - 1]),
        _pgwhen.steps(field[cardinality(field):]),
        variable
    )
end
$$;

create or replace function _pgwhen.compile_element_match(
    operand jsonb,
    item text,
    field text[],
    origin text,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_elements constant text := origin || _pgwhen.steps(field) || '[*]';
    v_test text;
begin
    if _pgwhen.matches_values(operand) then
        select c.expr, c.bound into v_test, bound
        from _pgwhen.compile_operators(operand, '@', '{}', v_elements, false, bound) as c;
    else
        select '@.type() == "object" && ' || c.expr, c.bound into v_test, bound
        from _pgwhen.compile_clause(operand, '@', v_elements, false, bound) as c;
    end if;

    if field = '{}' then
        expr := format('(@.type() == "array" && exists(@ ? (%s)))', v_test);
    else
        expr := format(
            'exists(%1$s ? (@.type() == "object" && @%2$s.type() == "array")%2$s ? (%3$s))',
            item || _pgwhen.steps(field[:cardinality(field) - 1]),
            _pgwhen.steps(field[cardinality(field):]),
            v_test
        );
    end if;
end;
$$;
