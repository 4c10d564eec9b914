create or replace function pgwhen.event_time(at timestamptz)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not _pgwhen.can_happen_at(event_time.at) then
        raise exception 'an event cannot happen at %', event_time.at
            using errcode = 'PW203',
                hint = 'Give the instant at which it happened, like ''2026-11-30 09:00+07''.';
    end if;
    perform _pgwhen.say('event_time', to_jsonb(event_time.at));
end;
$$;

comment on function pgwhen.event_time(timestamptz) is
$doc$Set the event time of all changes that follow in this transaction; null ends it.

For imports and replays: frequency and the conditions' $now go by the time at which things
happened, not by the time at which they were loaded. Delays still start now.

Raises PW203 for a time outside of the years 1 to 9999.

  begin;
  select pgwhen.event_time('1997-01-18');
  update pgwhen.line_user set attributes = attributes || '{"purchases": 2}' where user_id = 'U1';
  commit;
$doc$;

create or replace function _pgwhen.can_happen_at(at timestamptz)
returns boolean
language sql
immutable
as $$
select coalesce(
    can_happen_at.at >= timestamptz '0001-01-01 00:00:00+00'
    and can_happen_at.at < timestamptz '10000-01-01 00:00:00+00',
    true
);
$$;
