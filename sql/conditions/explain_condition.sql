-- _pgwhen.explain_condition: a condition, clause by clause, with the value that each saw.
--
-- Each clause is compiled and judged alone by what judges the whole. A clause under $not or
-- $nor is told as it stands there, not turned round.

create or replace function _pgwhen.explain_condition(
    condition jsonb,
    doc jsonb,
    as_of timestamptz,
    audiences text[]
)
returns table (clause text, field text, saw jsonb, holds boolean)
language sql
stable
as $$
select
    l.clause::text,
    l.field,
    case
        when l.field = '$audience' then
            to_jsonb(coalesce(l.clause ->> '$audience' = any(explain_condition.audiences), false))
        else _pgwhen.seen(explain_condition.doc, l.field)
    end,
    _pgwhen.holds(
        c.path, c.vars, c.needs,
        explain_condition.doc, explain_condition.as_of, explain_condition.audiences
    )
from _pgwhen.condition_leaves(explain_condition.condition)
with ordinality as l (clause, field, place)
cross join lateral _pgwhen.compile_condition(l.clause) as c
order by l.place;
$$;

-- The clauses that are no "and", "or" or "not" of others, each a condition of its own.
create or replace function _pgwhen.condition_leaves(
    condition jsonb,
    out clause jsonb,
    out field text
)
returns setof record
language plpgsql
stable
as $$
declare
    v_name text;
    v_value jsonb;
begin
    for v_name, v_value in
        select c.key, c.value
        from jsonb_each(nullif(condition_leaves.condition, 'null')) as c
    loop
        if v_name in ('$and', '$or', '$nor', '$not') then
            return query
            select l.clause, l.field
            from jsonb_path_query(v_value, '$[*]') with ordinality as c (condition, place)
            cross join lateral _pgwhen.condition_leaves(c.condition)
            with ordinality as l (clause, field, place)
            order by c.place, l.place;
        else
            return query
            select jsonb_build_object(v_name, p.predicate), v_name
            from _pgwhen.single_predicates(v_value) as p (predicate);
        end if;
    end loop;
end;
$$;

-- {"$gte": 1, "$lt": 5} as two; a $regex keeps its $options.
create or replace function _pgwhen.single_predicates(predicate jsonb)
returns setof jsonb
language plpgsql
immutable
as $$
begin
    if jsonb_typeof(single_predicates.predicate) <> 'object' then
        return next single_predicates.predicate;
        return;
    end if;
    return query
    select
        jsonb_build_object(o.key, o.value)
        || case
            when o.key = '$regex' and single_predicates.predicate ? '$options' then
                jsonb_build_object('$options', single_predicates.predicate -> '$options')
            else '{}'
        end
    from jsonb_each(single_predicates.predicate) as o
    where o.key <> '$options';
end;
$$;

-- What stands at a field: its value, NULL where there is none, a list where arrays on the way
-- lead to several.
create or replace function _pgwhen.seen(doc jsonb, field text)
returns jsonb
language sql
immutable
as $$
select case jsonb_array_length(s.seen)
    when 0 then null
    when 1 then s.seen -> 0
    else s.seen
end
from jsonb_path_query_array(
    seen.doc, ('$' || _pgwhen.steps(string_to_array(seen.field, '.')))::jsonpath
) as s (seen);
$$;
