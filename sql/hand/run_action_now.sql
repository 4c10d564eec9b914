create or replace function pgwhen.run_action_now(action_id bigint)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform _pgwhen.require_read_committed('run_action_now');
    perform _pgwhen.put_at(action_id, _pgwhen.clock(), 'run now', ends_wait => true);
    return action_id;
end;
$$;

comment on function pgwhen.run_action_now(bigint) is
$doc$Make a pending action due now and wake a listener; returns its id.

It takes its place behind what is due already. One that waits for a click waits no longer; one that
was executed and waits for what follows is refused. What may have been sent in a batch takes along
what is pending of it. A pause that covers it still holds it, and a warning
says so.

Raises PW601 where there is no such action, PW602 where it is not pending, PW202 outside READ
COMMITTED.

  select pgwhen.run_action_now(7);
$doc$;
