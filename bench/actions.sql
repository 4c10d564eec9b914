-- Actions as the engine writes them: an event, and what came of it. Due at times of their own, from
-- now on, by a clock that is read as the engine does: see sql/engine/due.sql.

create schema bench;

create function bench.add_actions(
    action_type text, how_many bigint, due_in interval default '0', status text default 'pending',
    apart interval default '1 microsecond'
)
returns void
language sql
as $$
insert into pgwhen.scheduled_action (
    user_id, action_type, action_config, execute_at, executed_at, status,
    created_date, updated_at, key, event
)
select
    'U' || i, add_actions.action_type, '{"text": "Hello"}',
    c.now + add_actions.due_in + i * add_actions.apart,
    case when add_actions.status = 'done' then now() end, add_actions.status,
    now(), now(), gen_random_uuid(),
    jsonb_build_object(
        'id', i, 'uuid', gen_random_uuid(), 'type', 'form_submitted', 'key', 'bench', 'at', now(),
        'data', '{}'::jsonb
    )
from (select _pgwhen.write_clock() as now offset 0) as c
cross join generate_series(1, add_actions.how_many) as i;
$$;
