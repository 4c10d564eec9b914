-- What a transaction says about the events that it writes: their time, that they are muted, or
-- which rules caused them. Each is a transaction-local setting that also carries the transaction's
-- id, so that a value left behind by a plain SET (a transaction pooler hands sessions on) means
-- nothing in the next one.

create or replace function _pgwhen.say(name text, value jsonb)
returns void
language sql
volatile
as $$
select pg_catalog.set_config(
    'pgwhen.' || say.name,
    pg_catalog.jsonb_build_object(
        'xid', pg_catalog.pg_current_xact_id()::text, 'value', say.value
    )::text,
    true
);
$$;

create or replace function _pgwhen.said(name text)
returns jsonb
language sql
stable
as $$
select case when coalesce(pg_catalog.current_setting('pgwhen.' || said.name, true), '') <> ''
    then _pgwhen.heard(pg_catalog.current_setting('pgwhen.' || said.name)) end;
$$;

create or replace function _pgwhen.heard(setting text)
returns jsonb
language plpgsql
stable
as $$
declare
    v_said jsonb;
begin
    v_said := heard.setting::jsonb;
    if v_said ->> 'xid' = pg_current_xact_id_if_assigned()::text then
        return nullif(v_said -> 'value', 'null');
    end if;
    return null;
exception
    when data_exception then
        return null;  -- set by hand, to something that is not ours
end;
$$;

-- A user as a key among those of all accounts.
create or replace function _pgwhen.who(line_oa_id text, user_id text)
returns text
language sql
immutable
as $$
select length(who.line_oa_id)::text || ' ' || who.line_oa_id || who.user_id;
$$;

-- The time of an event that says none itself. SECURITY DEFINER, as it is the default of columns
-- that people write who may not look into _pgwhen.
create or replace function _pgwhen.event_clock()
returns timestamptz
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('pgwhen.event_time', true), '') = '' then
        return _pgwhen.clock();
    end if;
    return coalesce((_pgwhen.said('event_time') #>> '{}')::timestamptz, _pgwhen.clock());
end;
$$;
