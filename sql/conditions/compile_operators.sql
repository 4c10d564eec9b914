-- _pgwhen.compile_operators: the operators beside one field, as jsonpath.
--
-- item and field say where the value stands: item."a"."b", each step looking into arrays. With
-- an empty field the value is the item itself, an element under $elemMatch, and is not looked into.

create or replace function _pgwhen.compile_operators(
    operators jsonb,
    item text,
    field text[],
    origin text,
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_operator text;
    v_operand jsonb;
    v_expr text;
    v_exprs text[] := '{}';
begin
    for v_operator, v_operand in
        select o.key, o.value from jsonb_each(operators) as o where o.key != '$options'
    loop
        case v_operator
            when '$not' then
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_operators(v_operand, item, field, origin, not negated, bound) as c;
            when '$all' then
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_all(v_operand, item, field, origin, negated, bound) as c;
            else
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_operator(
                    v_operator, v_operand, coalesce(operators ->> '$options', ''),
                    item, field, origin, negated, bound
                ) as c;
        end case;
        v_exprs := v_exprs || v_expr;
    end loop;
    expr := _pgwhen.joined(v_exprs, negated, true);
end;
$$;

-- $all of nothing is false, as in MongoDB: nothing is $in of nothing.
create or replace function _pgwhen.compile_all(
    operand jsonb,
    item text,
    field text[],
    origin text,
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_value jsonb;
    v_expr text;
    v_exprs text[] := '{}';
begin
    for v_value in select e.value from jsonb_array_elements(operand) as e loop
        select c.expr, c.bound into v_expr, bound
        from _pgwhen.compile_operator('$eq', v_value, '', item, field, origin, negated, bound) as c;
        v_exprs := v_exprs || v_expr;
    end loop;
    expr := _pgwhen.joined(v_exprs, negated, v_exprs != '{}');
end;
$$;

-- The negative operators are negations of positive ones. Unknown can only be a like_regex or a
-- comparison, and that not with null, which is comparable with everything.
create or replace function _pgwhen.compile_operator(
    operator text,
    operand jsonb,
    options text,
    item text,
    field text[],
    origin text,
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_positive constant text := case operator
        when '$ne' then '$eq'
        when '$nin' then '$in'
        else operator
    end;
    v_negated constant boolean :=
        negated != (v_positive != operator or (operator = '$exists' and operand = 'false'));
begin
    select c.expr, c.bound into expr, bound
    from _pgwhen.compile_leaf(v_positive, operand, options, item, field, origin, bound) as c;

    if v_negated then
        expr := format(
            case
                when
                    v_positive in ('$exists', '$type', '$size', '$mod', '$elemMatch')
                    or operand = 'null' then '!(%1$s)'
                else '(!(%1$s) || (%1$s) is unknown)'
            end,
            expr
        );
    end if;
end;
$$;
