create or replace function pgwhen.status()
returns table (item text, value text, remedy text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select s.item, s.value, s.remedy
from (
    select 1 as n, 'version' as item, pgwhen.version() as value, null as remedy
    union all
    select 2, 'events waiting', count(*)::text,
        case when min(o.created_at) < _pgwhen.clock() - interval '1 minute'
            then 'the oldest has waited since ' || _pgwhen.stamp(min(o.created_at))
                || ': run a listener (pgwhen run), or call pgwhen.run_ticks()' end
    from _pgwhen.outbox as o
    union all
    select 3, 'actions due: ' || q.action_type, q.due::text,
        case when not q.served
            then 'nobody serves ' || q.action_type || ': pgwhen run with its handler' end
    from pgwhen.queue as q
    where q.due > 0
    union all
    select 4, 'actions running past their deadline', count(*)::text,
        'the next tick takes them back: run a listener, or call pgwhen.run_ticks()'
    from pgwhen.scheduled_action as a
    where a.status = 'processing' and a.deadline < _pgwhen.clock()
    having count(*) > 0
    union all
    select 5, 'waits past their time', count(*)::text,
        'the next tick ends them: run a listener, or call pgwhen.run_ticks()'
    from pgwhen.scheduled_action as a
    where
        a.status = 'pending'
        and a.waiting
        and a.expires_at < _pgwhen.clock() - interval '1 minute'
    having count(*) > 0
    union all
    select 6, 'unserved type: ' || t.name, count(*)::text || ' rules',
        'pgwhen run with a handler for it, or pgwhen.register_sql_action()'
    from _pgwhen.action_type as t
    inner join _pgwhen.rule as r on r.action_type = t.name
    where not _pgwhen.is_served(t.name)
    group by t.name
    union all
    select 7, 'parked rule: ' || r.name, r.parked_reason,
        'mend what loops, then: update pgwhen.trigger_rule set enabled = true where id = ' || r.id
    from pgwhen.trigger_rule as r
    where r.parked_reason is not null and r.deleted_date is null
    union all
    select 8, 'parked events', count(*)::text,
        'mend what the column parked of pgwhen.event says, then: select pgwhen.retry_event(id)'
    from _pgwhen.processed_event as p
    where p.parked is not null
    having count(*) > 0
    union all
    select 9, 'paused: ' || _pgwhen.scope_words(p.action_type, p.line_oa_id, p.rule_id),
        pg_catalog.format('%s (%s, %s)', p.reason, p.paused_by, _pgwhen.stamp(p.paused_at)),
        p.remedy
    from pgwhen.paused as p
    union all
    select 10, 'suspect batch of ' || s.worker, cardinality(s.trying)::text || ' events', null
    from _pgwhen.suspect as s
    union all
    select 11, 'worker ' || w.name, pg_catalog.array_to_string(w.action_types, ', '),
        case when w.seen_at < _pgwhen.clock() - interval '1 minute'
            then 'last seen at ' || _pgwhen.stamp(w.seen_at) end
    from _pgwhen.worker as w
    union all
    select 12, 'ticking by itself', c.finding, c.remedy
    from _pgwhen.cron_findings() as c
) as s
order by s.n, s.item;
$$;

comment on function pgwhen.status() is
$doc$What is going on, a row an item; where something wants doing, remedy says what.

Events waiting, due actions by type, what is overdue, unserved types, parked rules and events, pauses, suspect
batches, workers, and what is wrong with ticking by pg_cron.

  select * from pgwhen.status();
$doc$;
