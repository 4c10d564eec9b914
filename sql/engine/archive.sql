-- _pgwhen.archive: keep processed events for settings.eventRetention ("why did this event do
-- nothing?").

create or replace function _pgwhen.archive(events _pgwhen.outbox[], parked text default null)
returns void
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    if archive.parked is null
        and _pgwhen.span(_pgwhen.setting('eventRetention')) = interval '0'
    then
        return;
    end if;

    insert into _pgwhen.processed_event (
        id, bucket, uuid, line_oa_id, user_id, type, keys, key, old, new, data, facts, at,
        created_at, chain, processed_at, parked
    )
    select e.*, v_now, archive.parked
    from unnest(archive.events) as e;
end;
$$;
