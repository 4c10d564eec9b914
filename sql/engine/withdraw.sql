-- _pgwhen.withdraw: events out of the outbox, if the caller may: with its bucket held, nobody else
-- works on these users. They are kept for settings.eventRetention ("why did this event do
-- nothing?"); those that are parked, with the reason, whatever the setting, and clicks for a day at
-- least, because a wait may begin only after the click that ends it was processed.

create or replace function _pgwhen.withdraw(ids bigint[], parked text default null)
returns _pgwhen.outbox[]
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_retention constant jsonb := _pgwhen.setting('eventRetention');
    v_keep constant boolean := withdraw.parked is not null
        or _pgwhen.span(v_retention) > interval '0';
    v_events _pgwhen.outbox[];
    v_ours boolean;
begin
    with gone as (
        delete from _pgwhen.outbox as o where o.id = any(withdraw.ids) returning o.*
    ),
    kept as (
        insert into _pgwhen.processed_event (
            id, bucket, uuid, line_oa_id, user_id, type, keys, key, old, new, data, facts, at,
            created_at, chain, processed_at, parked
        )
        select g.*, v_now, withdraw.parked
        from gone as g
        where v_keep or g.type = 'campaign_click'
    )
    select
        array_agg(g::_pgwhen.outbox order by g.id),
        bool_and(pg_try_advisory_xact_lock(_pgwhen.bucket_class(), g.bucket))
    into v_events, v_ours
    from gone as g;

    if not v_ours then
        raise exception 'these events are not yours: another session holds their bucket'
            using errcode = 'PW204',
                hint = 'Call pgwhen.process_events(): it takes events before it fires them.';
    end if;
    return coalesce(v_events, '{}');
end;
$$;
