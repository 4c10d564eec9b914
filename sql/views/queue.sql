create or replace view pgwhen.queue as
select
    a.action_type,
    a.status,
    count(*) as actions,
    count(*) filter (
        where a.status = 'pending' and not a.waiting and a.execute_at <= (select _pgwhen.clock())
    ) as due,
    min(a.execute_at) as oldest_due,
    _pgwhen.is_served(a.action_type) as served
from pgwhen.scheduled_action as a
where a.status in ('pending', 'processing')
group by a.action_type, a.status;

comment on view pgwhen.queue is
$$Actions that wait or run, by type and status: how many, how many due, the oldest, and whether
anybody serves the type.$$;
