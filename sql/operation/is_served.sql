-- Whether anybody serves an action type: a SQL function, or a worker seen within the last minute.

create or replace function _pgwhen.is_served(action_type text)
returns boolean
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select
    exists (
        select
        from _pgwhen.action_type as t
        where t.name = is_served.action_type and t.kind = 'sql'
    )
    or exists (
        select
        from _pgwhen.worker as w
        where
            is_served.action_type = any(w.action_types)
            and w.seen_at > _pgwhen.clock() - interval '1 minute'
    );
$$;
