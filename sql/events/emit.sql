create or replace function pgwhen.emit(
    event_type text,
    user_id text,
    data jsonb default '{}',
    key text default null,
    line_oa_id text default 'default',
    at timestamptz default null
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_cause constant jsonb := _pgwhen.said('cause');
    v_at constant timestamptz := coalesce(
        emit.at,
        _pgwhen.caused_at(v_cause, emit.line_oa_id, emit.user_id),
        _pgwhen.event_clock()
    );
    v_id bigint;
begin
    perform _pgwhen.check_emit(emit.event_type, emit.user_id, emit.line_oa_id, emit.data, v_at);
    perform pg_current_xact_id();  -- before an outbox id is drawn: take() relies on that order

    insert into _pgwhen.outbox
        (bucket, line_oa_id, user_id, type, keys, key, data, facts, at, created_at, chain)
    values (
        _pgwhen.bucket(emit.line_oa_id, emit.user_id), emit.line_oa_id, emit.user_id,
        emit.event_type, _pgwhen.event_keys(emit.event_type, emit.key, emit.data),
        emit.key, coalesce(emit.data, '{}'),
        coalesce(
            (
                select u.attributes
                from pgwhen.line_user as u
                where u.line_oa_id = emit.line_oa_id and u.user_id = emit.user_id
            ),
            '{}'
        ),
        v_at, v_now,
        case when v_cause is null then '{}'
            else _pgwhen.caused_chain(v_cause, emit.line_oa_id, emit.user_id) end
    )
    returning id into v_id;

    perform _pgwhen.ring(_pgwhen.channel(emit.event_type));
    return v_id;
end;
$$;

comment on function pgwhen.emit(text, text, jsonb, text, text, timestamptz) is
$doc$Emit an event of any name for one user, in the caller's transaction; returns the event's id.

Rules with that source_type see it as {"event": {"type", "key", "data", "at"}}. `at` is when it
happened (default now); frequency and the conditions' $now go by it. If the transaction rolls
back, the event never was. Changes of attributes are not emitted: write pgwhen.line_user.

Raises PW203 for an empty or reserved event type, a missing user, data that is not an object, or
a time outside of the years 1 to 9999.

  select pgwhen.emit('order_paid', 'U1', '{"total": 990}', at => '2026-11-30 09:00+07');
$doc$;

create or replace function _pgwhen.check_emit(
    event_type text,
    user_id text,
    line_oa_id text,
    data jsonb,
    at timestamptz
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_wrong text;
    v_hint text;
begin
    if btrim(coalesce(check_emit.event_type, '')) = '' or length(check_emit.event_type) > 200 then
        v_wrong := 'an event needs an event_type of 1 to 200 characters';
        v_hint := 'Name what happened, for example ''order_paid''.';
    elsif check_emit.event_type = 'attribute_changed' then
        v_wrong := 'attribute_changed is written by the trigger on pgwhen.line_user';
        v_hint := 'Update pgwhen.line_user.attributes; for a time in the past, '
            'call pgwhen.event_time(…) first.';
    elsif check_emit.event_type = 'schedule' then
        v_wrong := 'schedule is not an event: schedules make their own rounds';
        v_hint := 'Choose another event_type.';
    elsif check_emit.event_type like 'pgwhen.%' then
        v_wrong := 'event types that begin with "pgwhen." are pgwhen''s own';
        v_hint := 'Choose another event_type.';
    elsif check_emit.user_id is null or check_emit.line_oa_id is null then
        v_wrong := 'an event needs a user_id and a line_oa_id';
        v_hint := 'Say to whom it happened; line_oa_id defaults to ''default''.';
    elsif check_emit.data is not null and jsonb_typeof(check_emit.data) <> 'object' then
        v_wrong := format('data must be a JSON object, not %s', jsonb_typeof(check_emit.data));
        v_hint := 'Put the value under a name: {"value": …}.';
    elsif not _pgwhen.can_happen_at(check_emit.at) then
        v_wrong := format('an event cannot happen at %s', check_emit.at);
        v_hint := 'Give the instant at which it happened, or leave `at` out for now.';
    else
        return;
    end if;
    raise exception '%', v_wrong using errcode = 'PW203', hint = v_hint;
end;
$$;
