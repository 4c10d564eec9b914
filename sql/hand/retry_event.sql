create or replace function pgwhen.retry_event(event_id bigint)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_event _pgwhen.processed_event;
    v_id bigint;
begin
    perform _pgwhen.require_read_committed('retry_event');
    delete from _pgwhen.processed_event as p
    where p.id = retry_event.event_id and p.parked is not null
    returning p.* into v_event;
    if not found then
        raise exception 'event % is not parked', coalesce(retry_event.event_id::text, 'null')
            using errcode = 'PW605',
                hint = 'Parked events are listed by: '
                    'select id, parked from pgwhen.event where parked is not null.';
    end if;

    -- The delete has given this transaction its id before an outbox id is drawn: take() relies on
    -- that order.
    insert into _pgwhen.outbox (
        bucket, uuid, line_oa_id, user_id, type, keys, key, old, new, data, facts, at, created_at,
        chain
    )
    values (
        v_event.bucket, v_event.uuid, v_event.line_oa_id, v_event.user_id, v_event.type,
        v_event.keys, v_event.key, v_event.old, v_event.new, v_event.data, v_event.facts,
        v_event.at, v_event.created_at, v_event.chain
    )
    returning id into v_id;
    perform _pgwhen.ring(_pgwhen.channel(v_event.type));
    return v_id;
end;
$$;

comment on function pgwhen.retry_event(bigint) is
$doc$Put a parked event back among those that wait, after its cause is mended; returns its new id.

Only parked events: of those nothing has been done, so nothing is done twice. It leaves the kept
events and comes last in the outbox, behind newer events of its user; it keeps its uuid, from which
the keys of its actions derive, its time, and the facts as it left them. Rules that have gone live
since it was written, or whose source was changed since, look forward only and do not see it: for
those, emit a new event.

Raises PW605 where the event is not parked (or is parked no longer), PW202 outside READ COMMITTED.

  select pgwhen.retry_event(e.id) from pgwhen.event as e where e.parked is not null;
$doc$;
