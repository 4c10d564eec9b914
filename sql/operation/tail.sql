create or replace function pgwhen.tail(after_id bigint default null, max_rows integer default 500)
returns table (
    id bigint,
    created_date timestamptz,
    line_oa_id text,
    user_id text,
    rule text,
    trigger_on text,
    action_type text,
    status text,
    error_message text
)
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
select
    l.id, l.created_date, l.line_oa_id, l.user_id, r.name, l.trigger_on, l.action_type, l.status,
    l.error_message
from (
    (
        select l.*
        from pgwhen.trigger_log as l
        where
            l.id > tail.after_id
            and l.created_date > _pgwhen.clock() - interval '1 hour'
        order by l.id
        limit tail.max_rows
    )
    union all
    (
        select l.*
        from pgwhen.trigger_log as l
        where
            tail.after_id is null
            and l.created_date > _pgwhen.clock() - interval '1 hour'
        order by l.id desc
        limit least(10, tail.max_rows)
    )
) as l
left join pgwhen.trigger_rule as r on r.id = l.trigger_rule_id
order by l.id;
$$;

comment on function pgwhen.tail(bigint, integer) is
$doc$The outcomes of the last hour after after_id, in the order of their ids: for "pgwhen tail".

Without after_id, the last ten. Ids are given out before their transactions commit, so a row may
appear below one that was read already: to miss none, ask again from a little further back.

  select * from pgwhen.tail();
$doc$;
