-- _pgwhen.ring: wake a sleeping listener, if one sleeps.
--
-- NOTIFY takes one cluster-wide lock at commit, so it is sent only when a listener sleeps, that is,
-- holds the doorbell lock exclusively. The try-lock is flag and barrier in one: where it succeeds,
-- the shared lock stays until this transaction ends, and a listener that wants to sleep is refused
-- meanwhile and scans again. Never a blocking lock, on either side.

create or replace function _pgwhen.ring(channel text)
returns void
language plpgsql
as $$
begin
    if current_setting('pgwhen.doorbell', true) = 'off' then
        return;
    end if;
    if not pg_try_advisory_xact_lock_shared(_pgwhen.lock_class(), _pgwhen.doorbell_lock()) then
        perform pg_notify(ring.channel, '');
    end if;
end;
$$;

create or replace function _pgwhen.channel(event_type text)
returns text
language sql
immutable
as $$
select case
    when channel.event_type in (
        'attribute_changed', 'form_submitted', 'campaign_click',
        'friend_track_event_inserted', 'booking_event'
    ) then channel.event_type
    else 'pgwhen_due'
end;
$$;
