-- Users who were deleted take their pending actions with them. What runs is not stopped, and what
-- somebody else has locked is not waited for: should it ever be tried, the gate finds that the user
-- is gone. So a transaction that deletes users never waits here; nor does it fail here, where it is
-- a REPEATABLE READ one that sees rows which have changed since.
--
-- One account after the other, so that each is one index scan for its users.

create or replace function _pgwhen.users_deleted()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_gone record;
begin
    for v_gone in
        select o.line_oa_id, array_agg(o.user_id) as users
        from old_rows as o
        group by o.line_oa_id
    loop
        perform _pgwhen.cancel_user_actions(v_gone.line_oa_id, v_gone.users);
    end loop;
    return null;
exception
    when serialization_failure then
        return null;
end;
$$;

create or replace function _pgwhen.cancel_user_actions(line_oa_id text, user_ids text[])
returns void
language plpgsql
volatile
as $$
begin
    perform _pgwhen.settle(array(
        select
            _pgwhen.ending_of_action(
                a.id, null, 'cancelled', 'user_deleted', null, a.retry_count = 0
            )
        from pgwhen.scheduled_action as a
        where
            a.status = 'pending'
            and a.user_id = any(cancel_user_actions.user_ids)
            and a.line_oa_id = cancel_user_actions.line_oa_id
        order by a.id
        for no key update skip locked
    ));
end;
$$;

do $$
begin
    perform _pgwhen.ensure_trigger(
        'pgwhen.line_user', 'users_deleted', 'after delete',
        'referencing old table as old_rows '
        'for each statement execute function _pgwhen.users_deleted()'
    );
end;
$$;
