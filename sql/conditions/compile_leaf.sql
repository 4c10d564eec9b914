-- _pgwhen.compile_leaf: one positive test of one field, as a jsonpath predicate.

create or replace function _pgwhen.compile_leaf(
    operator text,
    operand jsonb,
    options text,
    origin text,
    field text[],
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_is_element constant boolean := compile_leaf.field = '{}';
    v_is_moment constant boolean := _pgwhen.is_moment(compile_leaf.operand);
    v_item constant text := _pgwhen.item_at(compile_leaf.origin);
    v_place constant text := v_item || _pgwhen.steps(compile_leaf.field);
    v_variable text;
begin
    if compile_leaf.operator = '$elemMatch' then
        select c.expr, c.bound into expr, bound
        from _pgwhen.compile_element_match(
            compile_leaf.operand, compile_leaf.origin, compile_leaf.field, compile_leaf.bound
        ) as c;
        return;
    end if;

    if compile_leaf.operator not in ('$exists', '$type', '$regex') then
        select b.variable, b.bound into v_variable, bound
        from _pgwhen.bind(
            case when v_is_moment then 't' else 'v' end,
            case
                when v_is_moment then _pgwhen.moment(
                    compile_leaf.operator, compile_leaf.operand,
                    compile_leaf.origin || _pgwhen.steps(compile_leaf.field)
                )
                else compile_leaf.operand
            end,
            compile_leaf.bound
        ) as b;
    end if;

    expr := case
        when compile_leaf.operator = '$exists' then
            format('exists(%s)', v_place)
        when compile_leaf.operator = '$type' then
            _pgwhen.type_expr(compile_leaf.operand, v_place, v_is_element)
        when compile_leaf.operator = '$regex' then
            _pgwhen.regex_expr(compile_leaf.operand #>> '{}', compile_leaf.options, v_place)
        when compile_leaf.operator = '$size' then
            _pgwhen.size_expr(v_variable, v_item, compile_leaf.field)
        when compile_leaf.operator = '$mod' then
            format(
                'exists(%1$s ? (@.type() == "number" && (@ - @ %% 1) %% %2$s[0] == %2$s[1]))',
                v_place, v_variable
            )
        when v_is_moment then
            format(
                'exists(%1$s ? (@.type() == "string" '
                '&& ((@ >= %2$s.low && @ <= %2$s.high) || @ == %2$s.texts[*])))',
                v_place, v_variable
            )
        else
            _pgwhen.comparison_expr(
                compile_leaf.operator, compile_leaf.operand, v_variable, v_item, compile_leaf.field
            )
    end;

    -- A comparison would look into an element that is an array; MongoDB compares it whole,
    -- and no array equals a scalar.
    if v_is_element and compile_leaf.operator not in ('$exists', '$type', '$size') then
        expr := format('(@.type() != "array" && %s)', expr);
    end if;
end;
$$;

create or replace function _pgwhen.item_at(origin text)
returns text
language sql
immutable
as $$
select case when item_at.origin = '$' then '$' else '@' end;
$$;

create or replace function _pgwhen.steps(field text[])
returns text
language sql
immutable
as $$
select coalesce(string_agg('.' || to_jsonb(f.part)::text, '' order by f.place), '')
from unnest(steps.field) with ordinality as f (part, place);
$$;

-- The two halves of a field: what holds its last step, and that step.
create or replace function _pgwhen.last_step(field text[], out holder text, out step text)
language sql
immutable
as $$
select
    _pgwhen.steps(last_step.field[:cardinality(last_step.field) - 1]),
    _pgwhen.steps(last_step.field[cardinality(last_step.field):]);
$$;

-- What holds() needs to tell the texts that stand in the asked relation to now.
create or replace function _pgwhen.moment(operator text, operand jsonb, origin text)
returns jsonb
language sql
stable
as $$
select jsonb_build_object(
    'path', moment.origin || '[*]',
    'operator', moment.operator,
    'offset', _pgwhen.offset_text(moment.operand -> '$now')
);
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
select
    case
        when c.takes_missing and comparison_expr.field <> '{}' then
            format(
                '(%s || %s)',
                c.comparison, _pgwhen.missing_expr(comparison_expr.item, comparison_expr.field)
            )
        else c.comparison
    end
from (
    select
        comparison_expr.item
        || _pgwhen.steps(comparison_expr.field)
        || case comparison_expr.operator
            when '$gt' then ' > '
            when '$gte' then ' >= '
            when '$lt' then ' < '
            when '$lte' then ' <= '
            else ' == '
        end
        || comparison_expr.variable
        || case comparison_expr.operator when '$in' then '[*]' else '' end as comparison,
        case comparison_expr.operator
            when '$in' then comparison_expr.operand @> '[null]'
            else
                comparison_expr.operand = 'null'
                and comparison_expr.operator in ('$eq', '$gte', '$lte')
        end as takes_missing
) as c;
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
            when f.place = cardinality(missing_expr.field) then
                'exists(%1$s ? (@.type() == "object" && !exists(@%2$s)))'
            else
                'exists(%1$s ? (@.type() == "object" '
                '&& !(@%2$s.type() == "object" || @%2$s.type() == "array")))'
        end,
        missing_expr.item || _pgwhen.steps(missing_expr.field[:f.place - 1]),
        _pgwhen.steps(array[f.part])
    ),
    ' || ' order by f.place desc
)
from unnest(missing_expr.field) with ordinality as f (part, place);
$$;

create or replace function _pgwhen.type_expr(types jsonb, place text, is_element boolean)
returns text
language sql
immutable
as $$
select '(' || string_agg(
    format(
        case
            when type_expr.is_element or t.name = 'array' then '%s.type() == "%s"'
            else '%s[*].type() == "%s"'
        end,
        type_expr.place, t.name
    ),
    ' || '
) || ')'
from (
    select replace(n.name #>> '{}', 'bool', 'boolean') as name
    from jsonb_path_query(type_expr.types, '$[*]') as n (name)
) as t;
$$;

create or replace function _pgwhen.regex_expr(pattern text, options text, place text)
returns text
language sql
immutable
as $$
select format(
    '%s like_regex %s flag "%s"',
    regex_expr.place,
    to_jsonb((_pgwhen.are_from_pcre(regex_expr.pattern, regex_expr.options)).are),
    case when regex_expr.options like '%i%' then 'is' else 's' end
);
$$;

-- .size() of a scalar is 1 and a filter looks into arrays, so the array is tested as a member
-- of the object that holds it.
create or replace function _pgwhen.size_expr(variable text, item text, field text[])
returns text
language sql
immutable
as $$
select case
    when size_expr.field = '{}' then
        format('(@.type() == "array" && @.size() == %s)', size_expr.variable)
    else
        format(
            'exists(%1$s ? (@.type() == "object" '
            '&& @%2$s.type() == "array" && @%2$s.size() == %3$s))',
            size_expr.item || l.holder, l.step, size_expr.variable
        )
end
from _pgwhen.last_step(size_expr.field) as l;
$$;

create or replace function _pgwhen.compile_element_match(
    operand jsonb,
    origin text,
    field text[],
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_elements constant text :=
        compile_element_match.origin || _pgwhen.steps(compile_element_match.field) || '[*]';
begin
    if _pgwhen.matches_values(compile_element_match.operand) then
        select c.expr, c.bound into expr, bound
        from _pgwhen.compile_operators(
            compile_element_match.operand, v_elements, '{}', false, compile_element_match.bound
        ) as c;
    else
        select '@.type() == "object" && ' || c.expr, c.bound into expr, bound
        from _pgwhen.compile_clause(
            compile_element_match.operand, v_elements, false, compile_element_match.bound
        ) as c;
    end if;

    if compile_element_match.field = '{}' then
        expr := format('(@.type() == "array" && exists(@ ? (%s)))', expr);
    else
        select format(
            'exists(%1$s ? (@.type() == "object" && @%2$s.type() == "array")%2$s ? (%3$s))',
            _pgwhen.item_at(compile_element_match.origin) || l.holder, l.step, expr
        )
        into expr
        from _pgwhen.last_step(compile_element_match.field) as l;
    end if;
end;
$$;
