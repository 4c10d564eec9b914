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

-- Plain expressions, for which PL/pgSQL starts no executor, here and below, and arguments that
-- let SQL functions be inlined: this runs for each (event, rule) that asks for a time or audience.
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
    v_audiences constant jsonb := needed_vars.needs -> 'audiences';
    v_times constant jsonb := needed_vars.needs -> 'times';
    v_vars jsonb := '{}';
begin
    for v_n in 0 .. jsonb_array_length(v_audiences) - 1 loop
        v_vars := v_vars || jsonb_build_object(
            'a' || v_n, coalesce(v_audiences ->> v_n = any(needed_vars.audiences), false)
        );
    end loop;
    for v_n in 0 .. jsonb_array_length(v_times) - 1 loop
        v_vars := v_vars || jsonb_build_object(
            't' || v_n,
            _pgwhen.texts_in_time(needed_vars.doc, v_times -> v_n, needed_vars.as_of)
        );
    end loop;
    return v_vars;
end;
$$;

-- Those texts at a path that are moments standing in the asked relation to now: as a range where
-- no other text lies in between, which is so when all are written alike, else as a list. Under
-- $elemMatch a list would be compared with each element.
create or replace function _pgwhen.texts_in_time(doc jsonb, asked jsonb, as_of timestamptz)
returns jsonb
language plpgsql
stable
as $$
declare
    v_values constant jsonb := jsonb_path_query_array(
        texts_in_time.doc, (texts_in_time.asked ->> 'path')::jsonpath
    );
    v_operator constant text := texts_in_time.asked ->> 'operator';
    v_moment constant timestamptz := _pgwhen.moved(
        texts_in_time.as_of, texts_in_time.asked ->> 'offset'
    );
    v_instant timestamptz;
    v_text text collate "C";
    v_low text collate "C";
    v_high text collate "C";
    v_in text[] := '{}';
    v_out text[] := '{}';
begin
    for v_n in 0 .. jsonb_array_length(v_values) - 1 loop
        continue when jsonb_typeof(v_values -> v_n) <> 'string';
        v_text := v_values ->> v_n;
        v_instant := _pgwhen.to_instant(v_text);
        if _pgwhen.stands(v_instant, v_operator, v_moment) then
            v_in := array_append(v_in, v_text);
            v_low := least(v_low, v_text);
            v_high := greatest(v_high, v_text);
        else
            v_out := array_append(v_out, v_text);
        end if;
    end loop;

    if v_in <> '{}' and v_out <> '{}' then
        if exists (
            select
            from unnest(v_out) as o (text)
            where o.text between v_low and v_high
        ) then
            return jsonb_build_object('texts', v_in);
        end if;
    end if;
    return jsonb_build_object('low', v_low, 'high', v_high);
end;
$$;

create or replace function _pgwhen.stands(
    instant timestamptz,
    operator text,
    moment timestamptz
)
returns boolean
language sql
immutable
as $$
select case stands.operator
    when '$eq' then stands.instant = stands.moment
    when '$gt' then stands.instant > stands.moment
    when '$gte' then stands.instant >= stands.moment
    when '$lt' then stands.instant < stands.moment
    when '$lte' then stands.instant <= stands.moment
end;
$$;

-- The names of the audiences that a condition asks for: their membership is to be loaded.
create or replace function _pgwhen.asked_audiences(needs jsonb)
returns text[]
language sql
immutable
as $$
select coalesce(array_agg(distinct a.name), '{}')
from jsonb_array_elements_text(asked_audiences.needs -> 'audiences') as a (name);
$$;
