-- _pgwhen.when_pending: the firings that are left when a user's pending work of the same rule has
-- been looked at. Only firings with a delay are asked, and only pending actions with a delay count
-- (also those that are tried again): an action that was to be done at once is no timer.
--   skip     the firing is suppressed and gives its frequency slot back, as frequency came first;
--   replace  what is pending is cancelled, so the time starts anew;
--   add      nobody is asked.
--
-- The caller holds the users' buckets, so no other firing for them is under way. What a claim has
-- locked is passed over by replace: it has begun.

create or replace function _pgwhen.when_pending(firings _pgwhen.firing[])
returns _pgwhen.firing[]
language plpgsql
volatile
as $$
declare
    v_firings _pgwhen.firing[];
    v_skipped _pgwhen.ending[];
begin
    if not exists (
        select
        from unnest(when_pending.firings) as f
        where
            f.trigger_rule_id is not null
            and f.delay is not null
            and f.delay ->> 'whenPending' is distinct from 'add'
    ) then
        return when_pending.firings;
    end if;

    perform _pgwhen.settle(_pgwhen.replaced(when_pending.firings));

    select
        coalesce(array_agg(f) filter (where p.id is null), '{}'),
        coalesce(array_agg(
            _pgwhen.ending_of(
                f, 'suppressed', _pgwhen.pending_reason(p.action), give_back => true
            )
        ) filter (where p.id is not null), '{}')
    into v_firings, v_skipped
    from unnest(when_pending.firings) as f
    left join lateral (
        select a.id, a as action
        from _pgwhen.pending_timers(f.line_oa_id, f.user_id, f.trigger_rule_id) as a
        where f.delay is not null and not f.delay ? 'whenPending'
        order by a.execute_at, a.id
        limit 1
    ) as p on true;

    perform _pgwhen.settle(v_skipped);
    return v_firings;
end;
$$;

create or replace function _pgwhen.pending_timers(line_oa_id text, user_id text, rule_id bigint)
returns setof pgwhen.scheduled_action
language sql
stable
as $$
select a.*
from pgwhen.scheduled_action as a
where
    a.status = 'pending'
    and a.user_id = pending_timers.user_id
    and a.line_oa_id = pending_timers.line_oa_id
    and a.trigger_rule_id = pending_timers.rule_id
    and a.delay is not null;
$$;

create or replace function _pgwhen.replaced(firings _pgwhen.firing[])
returns _pgwhen.ending[]
language plpgsql
volatile
as $$
begin
    return array(
        select _pgwhen.ending_of_action(p.id, null, 'cancelled', 'replaced')
        from unnest(replaced.firings) as f
        cross join lateral (
            select a.id
            from pgwhen.scheduled_action as a
            where
                f.delay ->> 'whenPending' = 'replace'
                and a.status = 'pending'
                and a.user_id = f.user_id
                and a.line_oa_id = f.line_oa_id
                and a.trigger_rule_id = f.trigger_rule_id
                and a.delay is not null
            for no key update skip locked
        ) as p
    );
end;
$$;

create or replace function _pgwhen.pending_reason(action pgwhen.scheduled_action)
returns text
language sql
stable
as $$
select pg_catalog.format(
    'pending: action %s is due at %s',
    (pending_reason.action).id, _pgwhen.stamp((pending_reason.action).execute_at)
);
$$;
