create or replace view pgwhen.queue as
select
    a.action_type,
    a.status,
    count(*) as actions,
    count(*) filter (
        where a.status = 'pending' and not a.waiting and a.execute_at <= (select _pgwhen.clock())
    ) as due,
    min(a.execute_at) as oldest_due,
    _pgwhen.is_served(a.action_type) as served,
    count(a.held_by) as held,
    (
        select p.reason
        from _pgwhen.pause as p
        where
            coalesce(p.action_type = a.action_type, true)
            and p.line_oa_id is null
            and p.trigger_rule_id is null
        order by p.id
        limit 1
    ) as paused
from (
    -- apart, so that each is read from its own index
    select p.action_type, 'pending' as status, p.execute_at, p.waiting, p.held_by
    from pgwhen.scheduled_action as p
    where p.status = 'pending' and not p.waiting and p.held_by is null
    union all
    select p.action_type, 'pending' as status, p.execute_at, p.waiting, p.held_by
    from pgwhen.scheduled_action as p
    where p.status = 'pending' and p.waiting
    union all
    select p.action_type, 'pending' as status, p.execute_at, p.waiting, p.held_by
    from pgwhen.scheduled_action as p
    where p.status = 'pending' and not p.waiting and p.held_by is not null
    union all
    select p.action_type, 'processing' as status, p.execute_at, p.waiting, null as held_by
    from pgwhen.scheduled_action as p
    where p.status = 'processing'
) as a
group by a.action_type, a.status;

comment on view pgwhen.queue is
$$Actions that wait or run, by type and status: how many, how many due, the oldest, whether anybody
serves the type, how many were met due under the pause of an account or a rule (held), and why the
type is paused as a whole.

Counts every pending action: about a second for 3 million. Not for a dashboard that asks often.$$;
