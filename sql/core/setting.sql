-- Settings: rows of pgwhen.setting, each with a default that stands here and nowhere else.
--
-- A row that is missing, or was deleted, means the default; so an upgrade that changes a default
-- reaches everybody who did not choose otherwise.
--
-- Here and in the engine: a SQL function that cannot be inlined is planned anew by every call, a
-- PL/pgSQL one keeps its plans. What runs once for each pass is PL/pgSQL for that reason alone.

create or replace function _pgwhen.default_settings()
returns jsonb
language sql
immutable
as $$
select '{
    "batchSize": 500,
    "maxRetries": 3,
    "retrySeconds": 10,
    "staleProcessingMinute": 5,
    "eventRetention": "7 days",
    "logRetention": "400 days",
    "actionRetention": "30 days",
    "cronRetention": "1 day",
    "effectRetention": null,
    "resultLimit": 65536,
    "loopGuardPerMinute": 100,
    "maxChainDepth": 10
}'::pg_catalog.jsonb;
$$;

create or replace function _pgwhen.setting(name text)
returns jsonb
language plpgsql
stable
as $$
begin
    return coalesce(
        (select s.value from pgwhen.setting as s where s.name = setting.name),
        _pgwhen.default_settings() -> setting.name
    );
end;
$$;

-- A span of time as settings and configs give it: a number of seconds, or interval text.
create or replace function _pgwhen.span(value jsonb)
returns interval
language sql
stable
as $$
select case pg_catalog.jsonb_typeof(span.value)
    when 'number' then pg_catalog.make_interval(secs => (span.value)::float8)
    when 'string' then (span.value #>> '{}')::interval
end;
$$;

-- What a setting may hold: a whole number or a fraction between two bounds, or a span of time up to
-- one. Effects alone may be kept for ever, and never for less than a day: what is forgotten can
-- happen again.
create or replace function _pgwhen.setting_fits(name text, value jsonb)
returns boolean
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_number numeric;
begin
    if setting_fits.name = 'effectRetention' then
        return setting_fits.value = 'null'
            or _pgwhen.span(setting_fits.value) between interval '1 day' and interval '100 years';
    end if;
    if setting_fits.name like '%Retention' then
        return _pgwhen.span(setting_fits.value) between interval '0' and interval '100 years';
    end if;
    if jsonb_typeof(setting_fits.value) <> 'number' then
        return false;
    end if;
    v_number := setting_fits.value;
    return case setting_fits.name
        when 'batchSize' then v_number between 1 and 10000 and v_number = trunc(v_number)
        when 'maxRetries' then v_number between 0 and 1000000 and v_number = trunc(v_number)
        when 'resultLimit' then v_number between 1 and 2097152 and v_number = trunc(v_number)
        when 'retrySeconds' then v_number between 0 and 31536000
        when 'staleProcessingMinute' then v_number > 0 and v_number <= 525600
        when 'loopGuardPerMinute' then v_number between 1 and 1000000 and v_number = trunc(v_number)
        when 'maxChainDepth' then v_number between 1 and 1000 and v_number = trunc(v_number)
    end;
exception
    when data_exception then
        return false;
end;
$$;

-- Refuses a setting that no function reads, or a value that none could use.
create or replace function _pgwhen.check_setting()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_default constant jsonb := _pgwhen.default_settings() -> new.name;
begin
    if v_default is null then
        raise exception 'there is no setting "%"', new.name
            using errcode = 'PW201',
                hint = 'The settings are: '
                    || (select string_agg(k, ', ' order by k)
                        from jsonb_object_keys(_pgwhen.default_settings()) as k) || '.';
    end if;
    if _pgwhen.setting_fits(new.name, new.value) is not true then
        raise exception 'setting "%" cannot be %', new.name, new.value
            using errcode = 'PW201',
                hint = case new.name
                    when 'effectRetention' then 'Write a day at least, "400 days", or null for ever.'
                    else format('Write something like its default, %s.', v_default)
                end;
    end if;
    return new;
end;
$$;
