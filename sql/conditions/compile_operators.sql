-- _pgwhen.compile_operators: the operators beside one field, as jsonpath.
--
-- With an empty field the operators are those of an $elemMatch, on the element itself.

create or replace function _pgwhen.compile_operators(
    operators jsonb,
    origin text,
    field text[],
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
        select o.key, o.value
        from jsonb_each(compile_operators.operators) as o
        where o.key <> '$options'
    loop
        case v_operator
            when '$not' then
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_operators(
                    v_operand, compile_operators.origin, compile_operators.field,
                    not compile_operators.negated, compile_operators.bound
                ) as c;
            when '$all' then
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_all(
                    v_operand, compile_operators.origin, compile_operators.field,
                    compile_operators.negated, compile_operators.bound
                ) as c;
            else
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_operator(
                    v_operator, v_operand,
                    coalesce(compile_operators.operators ->> '$options', ''),
                    compile_operators.origin, compile_operators.field,
                    compile_operators.negated, compile_operators.bound
                ) as c;
        end case;
        v_exprs := v_exprs || v_expr;
    end loop;
    expr := _pgwhen.joined(v_exprs, true, compile_operators.negated);
end;
$$;

-- $all of nothing is false, as in MongoDB, so an empty list is joined by "or".
create or replace function _pgwhen.compile_all(
    operands jsonb,
    origin text,
    field text[],
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_operand jsonb;
    v_expr text;
    v_exprs text[] := '{}';
begin
    for v_operand in
        select e.value
        from jsonb_array_elements(compile_all.operands) as e
    loop
        select c.expr, c.bound into v_expr, bound
        from _pgwhen.compile_operator(
            '$eq', v_operand, '', compile_all.origin, compile_all.field,
            compile_all.negated, compile_all.bound
        ) as c;
        v_exprs := v_exprs || v_expr;
    end loop;
    expr := _pgwhen.joined(v_exprs, compile_all.operands <> '[]', compile_all.negated);
end;
$$;

-- The negative operators are negations of positive ones. Unknown can only be a like_regex or a
-- comparison, and that not with null, which is comparable with everything.
create or replace function _pgwhen.compile_operator(
    operator text,
    operand jsonb,
    options text,
    origin text,
    field text[],
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_positive constant text := case compile_operator.operator
        when '$ne' then '$eq'
        when '$nin' then '$in'
        else compile_operator.operator
    end;
    v_is_negative constant boolean :=
        v_positive <> compile_operator.operator
        or (v_positive = '$exists' and compile_operator.operand = 'false');
    v_is_certain constant boolean :=
        v_positive in ('$exists', '$type', '$size', '$mod', '$elemMatch')
        or compile_operator.operand = 'null'
        or _pgwhen.is_moment(compile_operator.operand);
begin
    select c.expr, c.bound into expr, bound
    from _pgwhen.compile_leaf(
        v_positive, compile_operator.operand, compile_operator.options,
        compile_operator.origin, compile_operator.field, compile_operator.bound
    ) as c;

    if compile_operator.negated <> v_is_negative then
        expr := format(
            case when v_is_certain then '!(%1$s)' else '(!(%1$s) || (%1$s) is unknown)' end, expr
        );
    end if;
end;
$$;
