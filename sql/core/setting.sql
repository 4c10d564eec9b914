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
immutable
as $$
select case pg_catalog.jsonb_typeof(span.value)
    when 'number' then pg_catalog.make_interval(secs => (span.value)::float8)
    when 'string' then (span.value #>> '{}')::interval
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
    v_ok boolean;
begin
    if v_default is null then
        raise exception 'there is no setting "%"', new.name
            using errcode = 'PW201',
                hint = 'The settings are: '
                    || (select string_agg(k, ', ' order by k)
                        from jsonb_object_keys(_pgwhen.default_settings()) as k) || '.';
    end if;
    begin
        v_ok := case
            when new.name like '%Retention' then _pgwhen.span(new.value) >= interval '0'
            else jsonb_typeof(new.value) = 'number' and (new.value)::numeric >= 0
                and (new.name <> 'batchSize' or (new.value)::numeric between 1 and 10000)
        end;
    exception
        when data_exception then
            v_ok := false;
    end;
    if v_ok is not true then
        raise exception 'setting "%" cannot be %', new.name, new.value
            using errcode = 'PW201',
                hint = format('Write something like its default, %s.', v_default);
    end if;
    return new;
end;
$$;
