-- JSON Schema in SQL, the part that configs need.
--
-- The keywords are those of _pgwhen.schema_of_schemas(); every other one is refused when a schema
-- is registered, so that no schema is believed to check what it does not. A schema's `description`
-- is the hint of its faults: it tells people what to write instead.
--
-- Faults travel as arrays, because a rule is checked on every save and an array costs a tenth of a
-- set. Recursion follows the schema, whose depth is bounded, and never the value.

create or replace function _pgwhen.schema_faults(
    schema jsonb,
    value jsonb,
    at_path text,
    code text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_complaint constant text := _pgwhen.complaint(schema_faults.schema, schema_faults.value);
begin
    -- Its value is a text, and known to the listener alone.
    if schema_faults.code = 'PW003'
        and schema_faults.schema -> 'type' ? 'string'
        and _pgwhen.is_secret(schema_faults.value)
    then
        return '{}';
    end if;
    return
        case
            when v_complaint is null then '{}'
            else _pgwhen.one_fault(
                schema_faults.at_path, v_complaint, schema_faults.schema ->> 'description',
                schema_faults.code
            )
        end
        || case jsonb_typeof(schema_faults.value)
            when 'object' then _pgwhen.key_faults(
                schema_faults.schema, schema_faults.value, schema_faults.at_path, schema_faults.code
            )
            when 'array' then _pgwhen.element_faults(
                schema_faults.schema, schema_faults.value, schema_faults.at_path, schema_faults.code
            )
        end;
end;
$$;

-- What is wrong with the value itself, whatever stands below it; null for nothing. A keyword that
-- is not there makes its line null.
create or replace function _pgwhen.complaint(schema jsonb, value jsonb)
returns text
language sql
stable
as $$
select case
    when not _pgwhen.is_of_type(complaint.value, complaint.schema -> 'type')
        then format(
            'must be %s, got %s',
            _pgwhen.type_words(complaint.schema -> 'type'), _pgwhen.excerpt(complaint.value)
        )
    when complaint.value <> complaint.schema -> 'const'
        then format(
            'must be %s, got %s', complaint.schema -> 'const', _pgwhen.excerpt(complaint.value)
        )
    when not _pgwhen.is_one_of(complaint.value, complaint.schema -> 'enum')
        then format(
            'must be one of %s, got %s',
            btrim((complaint.schema -> 'enum')::text, '[]'), _pgwhen.excerpt(complaint.value)
        )
    else case jsonb_typeof(complaint.value)
        when 'string' then _pgwhen.string_complaint(complaint.schema, complaint.value #>> '{}')
        when 'number' then _pgwhen.number_complaint(complaint.schema, complaint.value::numeric)
        when 'array' then _pgwhen.size_complaint(
            'element', jsonb_array_length(complaint.value),
            complaint.schema -> 'minItems', complaint.schema -> 'maxItems'
        )
        when 'object' then case
            when complaint.schema ?| array['minProperties', 'maxProperties']
                then _pgwhen.size_complaint(
                    'key', cardinality(_pgwhen.keys_of(complaint.value)),
                    complaint.schema -> 'minProperties', complaint.schema -> 'maxProperties'
                )
        end
    end
end;
$$;

create or replace function _pgwhen.string_complaint(schema jsonb, value text)
returns text
language sql
stable
as $$
select case
    when string_complaint.value = '' and (string_complaint.schema -> 'minLength')::integer > 0
        then 'must not be empty'
    when string_complaint.schema ->> 'pattern' = '\S' and string_complaint.value !~ '\S'
        then 'must not be blank'
    when string_complaint.value !~ (string_complaint.schema ->> 'pattern')
        then format(
            'must match %s, got %s',
            string_complaint.schema ->> 'pattern', _pgwhen.excerpt(to_jsonb(string_complaint.value))
        )
    else _pgwhen.size_complaint(
        'character', length(string_complaint.value),
        string_complaint.schema -> 'minLength', string_complaint.schema -> 'maxLength'
    )
end;
$$;

create or replace function _pgwhen.number_complaint(schema jsonb, value numeric)
returns text
language sql
stable
as $$
select case
    when number_complaint.value < (number_complaint.schema -> 'minimum')::numeric
        then format(
            'must be at least %s, got %s', number_complaint.schema -> 'minimum',
            _pgwhen.excerpt(to_jsonb(number_complaint.value))
        )
    when number_complaint.value > (number_complaint.schema -> 'maximum')::numeric
        then format(
            'must be at most %s, got %s', number_complaint.schema -> 'maximum',
            _pgwhen.excerpt(to_jsonb(number_complaint.value))
        )
end;
$$;

create or replace function _pgwhen.size_complaint(
    noun text,
    size integer,
    least_size jsonb,
    most_size jsonb
)
returns text
language plpgsql
stable
as $$
begin
    return case
        when size_complaint.size < size_complaint.least_size::integer
            then format(
                'must have at least %s %s%s, has %s',
                size_complaint.least_size, size_complaint.noun,
                case when size_complaint.least_size::integer > 1 then 's' end, size_complaint.size
            )
        when size_complaint.size > size_complaint.most_size::integer
            then format(
                'must have at most %s %s%s, has %s',
                size_complaint.most_size, size_complaint.noun,
                case when size_complaint.most_size::integer > 1 then 's' end, size_complaint.size
            )
    end;
end;
$$;

-- Most values are leaves and right: they are passed without a recursive call, in which plpgsql
-- evaluates every expression the slow way.
create or replace function _pgwhen.is_right_leaf(schema jsonb, value jsonb)
returns boolean
language sql
stable
as $$
select
    not (
        jsonb_typeof(is_right_leaf.value) in ('object', 'array')
        and is_right_leaf.schema ?| array['required', 'properties', 'additionalProperties', 'items']
    )
    and _pgwhen.complaint(is_right_leaf.schema, is_right_leaf.value) is null;
$$;

create or replace function _pgwhen.key_faults(schema jsonb, value jsonb, at_path text, code text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_properties constant jsonb := coalesce(key_faults.schema -> 'properties', '{}');
    v_others constant jsonb := key_faults.schema -> 'additionalProperties';
    v_faults _pgwhen.fault[] := '{}';
    v_key text;
    v_part jsonb;
begin
    if not key_faults.value ?& _pgwhen.texts(key_faults.schema -> 'required') then
        v_faults := _pgwhen.missing_key_faults(
            key_faults.schema, key_faults.value, key_faults.at_path, key_faults.code
        );
    end if;

    foreach v_key in array _pgwhen.keys_of(key_faults.value) loop
        exit when cardinality(v_faults) >= _pgwhen.most_faults();
        v_part := coalesce(v_properties -> v_key, v_others, 'true');
        if v_part = 'false' then
            v_faults := v_faults || _pgwhen.one_fault(
                _pgwhen.path_to(key_faults.at_path, v_key), 'is not a key that is known here',
                'Known keys: ' || array_to_string(_pgwhen.keys_of(v_properties), ', ') || '.',
                key_faults.code
            );
        elsif not _pgwhen.is_right_leaf(v_part, key_faults.value -> v_key) then
            v_faults := v_faults || _pgwhen.schema_faults(
                v_part, key_faults.value -> v_key,
                _pgwhen.path_to(key_faults.at_path, v_key), key_faults.code
            );
        end if;
    end loop;
    return v_faults;
end;
$$;

create or replace function _pgwhen.missing_key_faults(
    schema jsonb,
    value jsonb,
    at_path text,
    code text
)
returns _pgwhen.fault[]
language sql
stable
as $$
select array(
    select
        row(
            _pgwhen.path_to(missing_key_faults.at_path, k.key), 'is required',
            coalesce(
                missing_key_faults.schema -> 'properties' -> k.key ->> 'description',
                format('Add the key "%s".', k.key)
            ),
            missing_key_faults.code
        )::_pgwhen.fault
    from unnest(
        _pgwhen.texts(missing_key_faults.schema -> 'required')
    ) with ordinality as k (key, n)
    where not missing_key_faults.value ? k.key
    order by k.n
);
$$;

create or replace function _pgwhen.element_faults(
    schema jsonb,
    value jsonb,
    at_path text,
    code text
)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
declare
    v_part constant jsonb := element_faults.schema -> 'items';
    v_faults _pgwhen.fault[] := '{}';
begin
    if v_part is null then
        return v_faults;
    end if;
    for v_n in 0 .. jsonb_array_length(element_faults.value) - 1 loop
        exit when cardinality(v_faults) >= _pgwhen.most_faults();
        if not _pgwhen.is_right_leaf(v_part, element_faults.value -> v_n) then
            v_faults := v_faults || _pgwhen.schema_faults(
                v_part, element_faults.value -> v_n,
                format('%s[%s]', element_faults.at_path, v_n), element_faults.code
            );
        end if;
    end loop;
    return v_faults;
end;
$$;

-- How many faults of one object or array are told. Nobody reads more, and the time to gather them
-- grows with their square.
create or replace function _pgwhen.most_faults()
returns integer
language sql
immutable
as $$
select 100;
$$;

create or replace function _pgwhen.one_fault(path text, message text, hint text, code text)
returns _pgwhen.fault[]
language sql
immutable
as $$
select array[
    row(
        one_fault.path, one_fault.message,
        coalesce(one_fault.hint, 'Change the value, or leave the key out.'), one_fault.code
    )::_pgwhen.fault
];
$$;

-- `type` is a name or an array of names; jsonb's ? looks into both.
create or replace function _pgwhen.is_of_type(value jsonb, type jsonb)
returns boolean
language sql
immutable
as $$
select
    is_of_type.type ? coalesce(jsonb_typeof(is_of_type.value), 'null')
    or (
        is_of_type.type ? 'integer'
        and case
            when jsonb_typeof(is_of_type.value) = 'number'
                then is_of_type.value::numeric = trunc(is_of_type.value::numeric)
            else false
        end
    );
$$;

-- Not by @>, for which {} is contained in any object.
create or replace function _pgwhen.is_one_of(value jsonb, enum jsonb)
returns boolean
language sql
immutable
as $$
select case
    when jsonb_typeof(is_one_of.value) = 'string' then is_one_of.enum ? (is_one_of.value #>> '{}')
    else _pgwhen.has_element(is_one_of.enum, is_one_of.value)
end;
$$;

create or replace function _pgwhen.has_element(elements jsonb, value jsonb)
returns boolean
language sql
immutable
strict
as $$
select exists (
    select
    from jsonb_array_elements(has_element.elements) as e (value)
    where e.value = has_element.value
);
$$;

-- 'a string', 'an object or null', 'a string, a number or null'
create or replace function _pgwhen.type_words(type jsonb)
returns text
language sql
stable
as $$
select regexp_replace(
    string_agg(
        case
            when t.name = 'null' then 'null'
            when t.name ~ '^[aeiou]' then 'an ' || t.name
            else 'a ' || t.name
        end,
        ', ' order by t.n
    ),
    ', ([^,]*)$', ' or \1'
)
from unnest(_pgwhen.texts(type_words.type)) with ordinality as t (name, n);
$$;

create or replace function _pgwhen.excerpt(value jsonb)
returns text
language sql
stable
as $$
select case
    when excerpt.value is null then 'nothing'
    when pg_column_size(excerpt.value) > 2000
        then format('%s of %s bytes', jsonb_typeof(excerpt.value), pg_column_size(excerpt.value))
    when length(excerpt.value::text) > 60 then left(excerpt.value::text, 57) || '...'
    else excerpt.value::text
end;
$$;

create or replace function _pgwhen.path_to(at_path text, key text)
returns text
language sql
immutable
as $$
select case
    when path_to.at_path = '' then left(path_to.key, 60)
    else _pgwhen.fault_place(path_to.at_path, left(path_to.key, 60))
end;
$$;

create or replace function _pgwhen.keys_of(value jsonb)
returns text[]
language plpgsql
immutable
as $$
begin
    return array(select k from jsonb_object_keys(keys_of.value) as k order by k collate "C");
end;
$$;

-- A string, or an array of strings, as an array of texts; null as null.
create or replace function _pgwhen.texts(value jsonb)
returns text[]
language plpgsql
immutable
as $$
begin
    return case jsonb_typeof(texts.value)
        when 'array' then array(select jsonb_array_elements_text(texts.value))
        when 'string' then array[texts.value #>> '{}']
    end;
end;
$$;
