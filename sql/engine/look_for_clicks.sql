-- Which waits there are, and which clicks there are for them: those that were processed, and those
-- that are still to be.

-- Those of the actions that wait now, reached by their ids under any statistics: with what a
-- partial index asks for in the same WHERE, a plan made for few rows would walk that index.
create or replace function _pgwhen.still_waiting(ids bigint[])
returns setof pgwhen.scheduled_action
language plpgsql
stable
as $$
begin
    return query
    select a.*
    from pgwhen.scheduled_action as a
    where a.id = any(still_waiting.ids) and a.waiting
    order by a.id;
end;
$$;

-- Those of the waits for which a click has been processed already. A rule's own event is none.
create or replace function _pgwhen.clicked_early(ids bigint[])
returns bigint[]
language plpgsql
stable
as $$
begin
    if clicked_early.ids = '{}' then
        return clicked_early.ids;
    end if;
    return array(
        select a.id
        from _pgwhen.still_waiting(clicked_early.ids) as a
        cross join lateral (
            select p.id
            from _pgwhen.processed_event as p
            where
                p.user_id = a.user_id
                and p.line_oa_id = a.line_oa_id
                and p.type = 'campaign_click'
                and p.at >= a.counts_from
                and p.created_at <= a.expires_at
                and p.uuid <> a.origin
                and _pgwhen.is_click_for(a.wait, p.data)
            limit 1
        ) as c
        order by a.id
    );
end;
$$;

-- Whether a click that is still to be processed will end the wait.
create or replace function _pgwhen.has_click_coming(action pgwhen.scheduled_action)
returns boolean
language plpgsql
stable
as $$
begin
    return exists (
        select
        from _pgwhen.outbox as o
        where
            o.type = 'campaign_click'
            and o.user_id = has_click_coming.action.user_id
            and o.line_oa_id = has_click_coming.action.line_oa_id
            and o.at >= has_click_coming.action.counts_from
            and o.created_at <= has_click_coming.action.expires_at
            and _pgwhen.is_click_for(has_click_coming.action.wait, o.data)
    );
end;
$$;
