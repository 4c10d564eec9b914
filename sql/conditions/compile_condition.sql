-- _pgwhen.compile_condition: a condition as one jsonpath predicate with variables.
--
-- How MongoDB's meaning comes out of a language of three values, in lax mode:
-- * Negation is pushed down to the leaves as the text is made ($nor of an $and is an "or" of
--   negated leaves). A negated leaf is (!(leaf) || (leaf) is unknown): two-valued. A leaf that
--   is not negated may be unknown, as when a text meets a number; only "and" and "or" stand above
--   it, so taking unknown for false at the very top is exact. exists(1 ? (…)) does that.
-- * Comparisons and like_regex look into an array by themselves, one level deep, as MongoDB does.
--   So does a filter; that is why no filter here follows a [*], which would look two levels deep.
-- * A value is never part of the text: it is bound as $v0, $v1, … . Names of fields and regular
--   expressions, for which jsonpath has no variables, are quoted as JSON.
-- * What neither document nor condition holds is bound at each evaluation (holds.sql): $a0 is
--   whether the user is in an audience; $t0 tells those texts of the document that stand in
--   the asked relation to now, so that a time leaf is a membership test and keeps MongoDB's
--   meaning in arrays and in $elemMatch.

create or replace function _pgwhen.compile_condition(condition jsonb)
returns _pgwhen.compiled
language plpgsql
stable
as $$
declare
    v_fault _pgwhen.fault;
    v_expr text;
    v_bound jsonb := '{"v": [], "a": [], "t": []}';
begin
    select f.* into v_fault
    from _pgwhen.condition_faults(compile_condition.condition) as f
    limit 1;
    if found then
        raise exception '%: %', v_fault.path, v_fault.message
            using errcode = v_fault.code, hint = v_fault.hint;
    end if;
    if
        compile_condition.condition is null
        or compile_condition.condition in ('null', '{}')
    then
        return (null, '{}', null)::_pgwhen.compiled;
    end if;

    select c.expr, c.bound into v_expr, v_bound
    from _pgwhen.compile_clause(compile_condition.condition, '$', false, v_bound) as c;

    return (
        format('exists(1 ? (%s))', v_expr),
        (
            select coalesce(jsonb_object_agg('v' || (b.place - 1), b.value), '{}')
            from jsonb_array_elements(v_bound -> 'v') with ordinality as b (value, place)
        ),
        nullif(
            jsonb_build_object('audiences', v_bound -> 'a', 'times', v_bound -> 't'),
            '{"audiences": [], "times": []}'
        )
    )::_pgwhen.compiled;
end;
$$;

-- bound holds, under the letter of its kind, a list of what has been given a variable so far.
create or replace function _pgwhen.bind(
    letter text,
    value jsonb,
    inout bound jsonb,
    out variable text
)
language sql
immutable
as $$
select
    jsonb_set(
        bind.bound, array[bind.letter],
        (bind.bound -> bind.letter) || jsonb_build_array(bind.value)
    ),
    '$' || bind.letter || jsonb_array_length(bind.bound -> bind.letter);
$$;

-- An object of fields and logical operators. origin is the path from the document's root to
-- what the fields belong to: '$', or the elements of an $elemMatch, of which one is at hand as @.
create or replace function _pgwhen.compile_clause(
    condition jsonb,
    origin text,
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_name text;
    v_value jsonb;
    v_expr text;
    v_exprs text[] := '{}';
begin
    for v_name, v_value in
        select c.key, c.value
        from jsonb_each(compile_clause.condition) as c
    loop
        case v_name
            when '$and', '$or', '$nor' then
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_clauses(
                    v_value, v_name = '$and', compile_clause.origin,
                    compile_clause.negated <> (v_name = '$nor'), compile_clause.bound
                ) as c;
            when '$not' then
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_clause(
                    v_value, compile_clause.origin,
                    not compile_clause.negated, compile_clause.bound
                ) as c;
            when '$audience' then
                select format('%s == %s', b.variable, (not compile_clause.negated)::text), b.bound
                into v_expr, bound
                from _pgwhen.bind('a', v_value, compile_clause.bound) as b;
            else
                select c.expr, c.bound into v_expr, bound
                from _pgwhen.compile_operators(
                    case
                        when jsonb_typeof(v_value) = 'object' then v_value
                        else jsonb_build_object('$eq', v_value)
                    end,
                    compile_clause.origin, string_to_array(v_name, '.'),
                    compile_clause.negated, compile_clause.bound
                ) as c;
        end case;
        v_exprs := v_exprs || v_expr;
    end loop;
    expr := _pgwhen.joined(v_exprs, true, compile_clause.negated);
end;
$$;

create or replace function _pgwhen.compile_clauses(
    conditions jsonb,
    by_and boolean,
    origin text,
    negated boolean,
    inout bound jsonb,
    out expr text
)
language plpgsql
stable
as $$
declare
    v_condition jsonb;
    v_expr text;
    v_exprs text[] := '{}';
begin
    for v_condition in
        select c.value
        from jsonb_array_elements(compile_clauses.conditions) as c
    loop
        select c.expr, c.bound into v_expr, bound
        from _pgwhen.compile_clause(
            v_condition, compile_clauses.origin, compile_clauses.negated, compile_clauses.bound
        ) as c;
        v_exprs := v_exprs || v_expr;
    end loop;
    expr := _pgwhen.joined(v_exprs, compile_clauses.by_and, compile_clauses.negated);
end;
$$;

-- Parts that have taken a negation in turn "and" into "or" around them. "And" of nothing is true.
create or replace function _pgwhen.joined(exprs text[], by_and boolean, negated boolean)
returns text
language sql
immutable
as $$
select case
    when joined.exprs <> '{}' then
        '('
        || array_to_string(
            joined.exprs, case when joined.by_and <> joined.negated then ' && ' else ' || ' end
        )
        || ')'
    when joined.by_and <> joined.negated then '1 == 1'
    else '1 == 0'
end;
$$;
