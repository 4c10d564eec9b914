-- _pgwhen.resolve_clicks: what clicks among the events do to waits, before any rule is asked. It is
-- called with the buckets held, for one event of each user at a time, in outbox order: so the first
-- click wins. A click in time ends its waits; one that comes after its wait has ended is logged,
-- once for each wait. An announced wait is looked up among the clicks before it.
create or replace function _pgwhen.resolve_clicks(events _pgwhen.outbox[])
returns void
language plpgsql
volatile
as $$
declare
    v_in_time bigint[];
    v_overdue bigint[];
begin
    perform _pgwhen.click_waits(_pgwhen.clicked_early(array(
        select (e.data ->> 'action')::bigint
        from unnest(resolve_clicks.events) as e
        where e.type = 'pgwhen.wait_opened'
    )));

    select
        coalesce(array_agg((c.action).id) filter (where c.in_time), '{}'),
        coalesce(
            array_agg((c.action).id)
            filter (where not c.in_time and not _pgwhen.has_click_coming(c.action)),
            '{}'
        )
    into v_in_time, v_overdue
    from _pgwhen.clicked(resolve_clicks.events) as c
    where (c.action).waiting;

    perform _pgwhen.click_waits(v_in_time);
    perform _pgwhen.click_waits(_pgwhen.clicked_early(v_overdue));
    perform _pgwhen.expire_waits(v_overdue);
    perform _pgwhen.log_late_clicks(resolve_clicks.events);
end;
$$;

-- The waits that the clicks are for, those too that have ended without one.
create or replace function _pgwhen.clicked(
    events _pgwhen.outbox[],
    out click _pgwhen.outbox,
    out action pgwhen.scheduled_action,
    out in_time boolean
)
returns setof record
language sql
stable
as $$
select e::_pgwhen.outbox, w.action, e.created_at <= (w.action).expires_at
from unnest(clicked.events) as e
cross join lateral (
    select a as action
    from pgwhen.scheduled_action as a
    where
        a.wait is not null
        and a.user_id = e.user_id
        and a.line_oa_id = e.line_oa_id
        and (a.waiting or a.outcome = 'not_clicked')
        and e.at >= a.counts_from
        and _pgwhen.is_click_for(a.wait, e.data)
    offset 0
) as w
where e.type = 'campaign_click';
$$;

-- No more clicks count for a wait that has had its late one.
create or replace function _pgwhen.log_late_clicks(events _pgwhen.outbox[])
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_late constant bigint[] := array(
        select (c.action).id
        from _pgwhen.clicked(log_late_clicks.events) as c
        where not (c.action).waiting
    );
    v_endings _pgwhen.ending[];
begin
    if v_late = '{}' then
        return;
    end if;
    perform _pgwhen.lock_actions(v_late);
    with late as (
        update pgwhen.scheduled_action as a
        set counts_from = null
        where a.id = any(v_late) and a.counts_from is not null
        returning a.*
    )
    select coalesce(array_agg(
        row(
            l.id, null, l.trigger_rule_id, null, l.line_oa_id, l.user_id,
            l.event ->> 'type' || coalesce(':' || (l.event ->> 'key'), ''),
            (l.event ->> 'id')::bigint, (l.event ->> 'at')::timestamptz,
            l.action_type, l.action_config, 'late_click',
            format(
                'clicked at %s, the wait had ended at %s',
                _pgwhen.stamp(e.at), _pgwhen.stamp(l.updated_at)
            ),
            null, null, false, null, null
        )::_pgwhen.ending
    ), '{}')
    into v_endings
    from late as l
    inner join unnest(log_late_clicks.events) as e
        on e.user_id = l.user_id and e.line_oa_id = l.line_oa_id and e.type = 'campaign_click';
    perform _pgwhen.settle(v_endings);
end;
$$;
