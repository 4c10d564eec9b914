-- _pgwhen.holds: whether a compiled condition holds of a document. Never NULL, never an error.
--
-- Where needs is NULL the engine calls jsonb_path_match itself: the same expression, in line.

create or replace function _pgwhen.holds(
    path jsonpath,
    vars jsonb,
    needs jsonb,
    doc jsonb,
    as_of timestamptz,
    audiences text[]
)
returns boolean
language sql
stable
as $$
select case
    when holds.path is null then true
    when holds.needs is null then jsonb_path_match(holds.doc, holds.path, holds.vars)
    else jsonb_path_match(
        holds.doc,
        holds.path,
        holds.vars || _pgwhen.needed_vars(holds.needs, holds.doc, holds.as_of, holds.audiences)
    )
end;
$$;

create or replace function _pgwhen.needed_vars(
    needs jsonb,
    doc jsonb,
    as_of timestamptz,
    audiences text[]
)
returns jsonb
language plpgsql
stable
as $$
declare
    v_variable text;
    v_audience text;
    v_time jsonb;
    v_vars jsonb := '{}';
begin
    for v_variable, v_audience in
        select a.key, a.value
        from jsonb_each_text(needed_vars.needs -> 'audiences') as a
    loop
        v_vars := v_vars || jsonb_build_object(
            v_variable, coalesce(v_audience = any(needed_vars.audiences), false)
        );
    end loop;
    for v_variable, v_time in
        select t.key, t.value
        from jsonb_each(needed_vars.needs -> 'times') as t
    loop
        v_vars := v_vars || jsonb_build_object(
            v_variable,
            _pgwhen.texts_in_time(
                needed_vars.doc, v_time ->> 'path', v_time ->> 'operator',
                _pgwhen.moved(needed_vars.as_of, v_time ->> 'offset')
            )
        );
    end loop;
    return v_vars;
end;
$$;

-- Those texts at a path that are moments standing in the asked relation to another moment.
create or replace function _pgwhen.texts_in_time(
    doc jsonb,
    path text,
    operator text,
    moment timestamptz
)
returns jsonb
language sql
stable
as $$
select coalesce(jsonb_agg(t.value), '[]')
from jsonb_path_query(texts_in_time.doc, texts_in_time.path::jsonpath) as t (value)
cross join lateral _pgwhen.to_instant(
    case when jsonb_typeof(t.value) = 'string' then t.value #>> '{}' end
) as i (instant)
where case texts_in_time.operator
    when '$eq' then i.instant = texts_in_time.moment
    when '$gt' then i.instant > texts_in_time.moment
    when '$gte' then i.instant >= texts_in_time.moment
    when '$lt' then i.instant < texts_in_time.moment
    when '$lte' then i.instant <= texts_in_time.moment
end;
$$;

-- The names of the audiences that a condition asks for: their membership is to be loaded.
create or replace function _pgwhen.asked_audiences(needs jsonb)
returns text[]
language sql
immutable
as $$
select coalesce(array_agg(distinct a.value), '{}')
from jsonb_each_text(asked_audiences.needs -> 'audiences') as a;
$$;
