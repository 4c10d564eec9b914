-- Waits: actions that a click of the user ends, or their expiry. A row with `waiting` waits now;
-- `wait` is the compiled wait (compile_delay.sql) and stays when it has ended, `outcome` says how.
--
-- A wait before its action turns into an ordinary action that is due when it is clicked. A wait
-- after its send, or one that expires, ends there; what follows then is a child, a row of its own.
--
-- Whoever ends waits by clicks or by time holds the bucket of their users, so that looks for clicks
-- and waits that begin never pass each other by: docs/adr/0011-waits.md has each pair. A cancel
-- holds the row alone, so each UPDATE asks again, after the lock, whether the row still waits.
-- Lock order: bucket, scheduled_action by id (siblings too), reservations.

-- The tracking id of what an action sends: its key, without dashes.
create or replace function _pgwhen.tracking_id(key uuid)
returns text
language sql
immutable
as $$
select pg_catalog.replace(tracking_id.key::text, '-', '');
$$;

-- Whether a click ends a wait: everything that the wait asks for is in it, and no machine made it.
create or replace function _pgwhen.is_click_for(wait jsonb, data jsonb)
returns boolean
language sql
immutable
as $$
select
    is_click_for.data @> coalesce(is_click_for.wait -> 'tracking', '{}')
    and not is_click_for.data @> '{"bot": true}';
$$;

create or replace function _pgwhen.expiry_from(wait jsonb, now timestamptz)
returns timestamptz
language sql
stable
as $$
select expiry_from.now
    + pg_catalog.make_interval(secs => (expiry_from.wait -> 'expires')::float8);
$$;

-- Waits that have just been written. With an event's bucket held, only clicks that were processed
-- before can have been missed; who schedules by hand holds none, and leaves the look to a pass.
create or replace function _pgwhen.begin_waits(ids bigint[])
returns void
language plpgsql
volatile
as $$
begin
    perform _pgwhen.announce_waits(array(
        select a.id
        from pgwhen.scheduled_action as a
        where a.id = any(begin_waits.ids) and a.event ->> 'id' is null
    ));
    perform _pgwhen.click_waits(_pgwhen.clicked_early(array(
        select a.id
        from pgwhen.scheduled_action as a
        where a.id = any(begin_waits.ids) and a.event ->> 'id' is not null
    )));
end;
$$;

-- An event by which a pass looks, with the bucket held, for clicks that came before the wait did.
-- The transaction has its id, for it has written the waits: take() relies on that order.
create or replace function _pgwhen.announce_waits(ids bigint[])
returns void
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    if announce_waits.ids = '{}' then
        return;
    end if;
    insert into _pgwhen.outbox
        (bucket, line_oa_id, user_id, type, keys, data, facts, at, created_at)
    select
        _pgwhen.bucket(a.line_oa_id, a.user_id), a.line_oa_id, a.user_id, 'pgwhen.wait_opened',
        '{}', jsonb_build_object('action', a.id), '{}', v_now, v_now
    from pgwhen.scheduled_action as a
    where a.id = any(announce_waits.ids)
    order by a.id;
    perform _pgwhen.ring('pgwhen_due');
end;
$$;

-- Until when a claimed action waits from now on, as its send has succeeded; null where it does not,
-- or a person has cancelled it meanwhile.
create or replace function _pgwhen.opened_until(
    action pgwhen.scheduled_action,
    ending text,
    now timestamptz
)
returns timestamptz
language sql
stable
as $$
select case
    when (opened_until.action).wait is not null
        and (opened_until.action).wait ? 'after'
        and not (opened_until.action).waiting
        and (opened_until.action).cancel_reason is null
        and opened_until.ending = 'success'
        then _pgwhen.expiry_from((opened_until.action).wait, opened_until.now)
end;
$$;
