-- _pgwhen.to_instant: the moment that a text of a document means, or NULL; never an error.
--
-- A document's values are anybody's: a cast would raise on garbage, read '2024-02-01 10:00' in
-- the session's time zone and take 'yesterday' for a time. So only RFC 3339 and plain ISO 8601
-- are let through to the cast, whole and in range, and what names no offset is UTC.

create or replace function _pgwhen.to_instant(value text)
returns timestamptz
language sql
stable
as $$
select case
    when to_instant.value !~ (
        '^[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])'
        || '|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))'
        || '(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::(?:[0-5][0-9]|60)(?:\.[0-9]{1,9})?)?'
        || '(?:[Zz]|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9])?)?)?$'
    ) or to_instant.value like '0000%' then null
    when substr(to_instant.value, 6, 5) = '02-29' and not (
        substr(to_instant.value, 1, 4)::integer % 4 = 0
        and (
            substr(to_instant.value, 3, 2) <> '00'
            or substr(to_instant.value, 1, 4)::integer % 400 = 0
        )
    ) then null
    when length(to_instant.value) = 10 then (to_instant.value || ' 00:00Z')::timestamptz
    when to_instant.value ~ '([Zz]|[+-][0-9:]+)$' then to_instant.value::timestamptz
    else (to_instant.value || 'Z')::timestamptz
end;
$$;

-- The offset of a {"$now": …} as ISO 8601 text, which every session reads alike; NULL where it
-- is none or lies beyond a thousand years.
create or replace function _pgwhen.offset_text(value jsonb)
returns text
language plpgsql
stable
set intervalstyle = 'iso_8601'
as $$
declare
    v_offset interval;
begin
    v_offset := case jsonb_typeof(offset_text.value)
        when 'number' then make_interval(secs => offset_text.value::double precision)
        when 'string' then (offset_text.value #>> '{}')::interval
    end;
    return case
        when abs(extract(year from v_offset)) <= 1000
            and abs(extract(day from v_offset)) <= 366000
            and abs(extract(hour from v_offset)) <= 8784000
            then v_offset::text
    end;
exception
    when data_exception then
        return null;
end;
$$;

-- as_of moved by an offset, by the calendar in UTC. as_of is held within years in which that
-- cannot overflow; a document's instants all lie between 1 and 9999, so no comparison changes.
create or replace function _pgwhen.moved(as_of timestamptz, iso_offset text)
returns timestamptz
language sql
stable
as $$
select (
    case
        when moved.as_of < timestamptz '2000-01-01 00:00Z BC'
            then timestamptz '2000-01-01 00:00Z BC'
        when moved.as_of > timestamptz '20000-01-01 00:00Z' then timestamptz '20000-01-01 00:00Z'
        else moved.as_of
    end at time zone 'UTC' + moved.iso_offset::interval
) at time zone 'UTC';
$$;
