-- {"$secret": "name"} in an action_config: a value that only the listener knows. What is wrong with
-- those of a config, none of which is told what stands in it: somebody may have written the secret
-- itself where its name belongs.

create or replace function _pgwhen.secret_faults(action_type text, config jsonb, at_path text)
returns _pgwhen.fault[]
language plpgsql
stable
as $$
begin
    if not _pgwhen.may_hold_secrets(secret_faults.config) then
        return '{}';
    elsif exists (
        select
        from _pgwhen.action_type as t
        where t.name = secret_faults.action_type and t.kind = 'sql'
    ) then
        return _pgwhen.one_fault(
            secret_faults.at_path,
            'cannot hold a secret: a SQL function serves this type, and only the listener knows secrets',
            'Leave {"$secret": …} out, or serve the type by a Python handler.', 'PW003'
        );
    elsif secret_faults.config ? '$secret' then
        return _pgwhen.one_fault(
            secret_faults.at_path, 'cannot be a secret as a whole',
            'Give the secret a key, for example {"token": {"$secret": "line-token"}}.', 'PW003'
        );
    end if;
    return _pgwhen.malformed_secret_faults(secret_faults.config, secret_faults.at_path);
end;
$$;

-- Cheap, and true also where the word stands in a text.
create or replace function _pgwhen.may_hold_secrets(config jsonb)
returns boolean
language plpgsql
immutable
as $$
begin
    return strpos(may_hold_secrets.config::text, '"$secret"') > 0;
end;
$$;

create or replace function _pgwhen.is_secret(value jsonb)
returns boolean
language sql
immutable
as $$
select
    pg_catalog.jsonb_typeof(is_secret.value) = 'object'
    and is_secret.value ? '$secret'
    and is_secret.value - '$secret' = '{}'
    and pg_catalog.jsonb_typeof(is_secret.value -> '$secret') = 'string'
    and is_secret.value ->> '$secret' ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$';
$$;

-- Level by level. What is nested deeper than that is refused, for each level copies all below it.
create or replace function _pgwhen.malformed_secret_faults(config jsonb, at_path text)
returns _pgwhen.fault[]
language sql
stable
as $$
with recursive node (path, value, depth) as (
    select malformed_secret_faults.at_path, malformed_secret_faults.config, 1
    union all
    select p.path, p.value, n.depth + 1
    from node as n
    cross join lateral _pgwhen.parts_of(n.value, n.path) as p
    where n.depth < 50 and not n.value ? '$secret'
)

select array(
    select
        row(
            n.path,
            case
                when not n.value ? '$secret' then 'holds a secret deeper than 50 levels'
                when n.value - '$secret' <> '{}' then 'has keys beside "$secret"'
                when jsonb_typeof(n.value -> '$secret') = 'string'
                    then 'names a secret as none can be named'
                else 'names a secret by ' || _pgwhen.type_words(
                    to_jsonb(jsonb_typeof(n.value -> '$secret'))
                )
            end,
            'Write {"$secret": "name"} and nothing beside it; a name has 1 to 200 of the characters '
            'A-Z a-z 0-9 _ - . and begins with none of the last two.',
            'PW003'
        )::_pgwhen.fault
    from node as n
    where
        case
            when jsonb_typeof(n.value) = 'object' and n.value ? '$secret'
                then not _pgwhen.is_secret(n.value)
            else n.depth = 50 and _pgwhen.may_hold_secrets(n.value)
        end
    order by n.path collate "C"
    limit _pgwhen.most_faults()
);
$$;

create or replace function _pgwhen.parts_of(value jsonb, at_path text)
returns table (path text, value jsonb)
language sql
stable
as $$
select _pgwhen.path_to(parts_of.at_path, o.key), o.value
from jsonb_each(case jsonb_typeof(parts_of.value) when 'object' then parts_of.value end) as o
union all
select format('%s[%s]', parts_of.at_path, a.n - 1), a.value
from jsonb_array_elements(
    case jsonb_typeof(parts_of.value) when 'array' then parts_of.value end
) with ordinality as a (value, n);
$$;
