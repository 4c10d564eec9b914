create or replace function pgwhen.announce_worker(worker text, action_types text[])
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform _pgwhen.check_worker(announce_worker.worker);
    perform _pgwhen.require_home();
    insert into _pgwhen.worker as w (name, action_types, seen_at)
    values (
        announce_worker.worker, coalesce(announce_worker.action_types, '{}'), _pgwhen.clock()
    )
    on conflict on constraint worker_pkey do update
    set action_types = excluded.action_types, seen_at = excluded.seen_at;
end;
$$;

comment on function pgwhen.announce_worker(text, text[]) is
$doc$Say that a worker is there and which action types it serves; the listener does so every 15 s.

Only for people to see: status() and the view queue call a type served while a worker that names it
was seen within the last minute. Claims and recovery do not depend on it. A listener that cannot
announce itself ends: in a copy of another database this raises PW801, see adopt().

  select pgwhen.announce_worker('w-1', '{send_message}');
$doc$;
