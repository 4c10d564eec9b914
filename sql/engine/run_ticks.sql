-- A procedure, so that it can commit: each batch is marked by a committed row before it is tried,
-- each SQL action is claimed by a committed update before it is run. What kills the backend is then
-- found by the next run: the batch is halved, the action's attempt counted. It can carry no SET
-- clause (it commits), so every reference is qualified.

create or replace procedure pgwhen.run_ticks(
    max_seconds numeric default 50,
    events boolean default true,
    inout done bigint default null
)
language plpgsql
as $$
declare
    v_worker constant text := 'run_ticks:' || pg_catalog.pg_backend_pid()::text;
    v_until constant timestamptz :=
        _pgwhen.clock() + pg_catalog.make_interval(secs => max_seconds::float8);
    v_claimed pgwhen.claimed_action[];
    v_events integer;
    v_recovered integer;
    v_expired integer;
    v_ran integer;
    v_did integer;
begin
    done := 0;
    if not _pgwhen.check_home() then
        return;
    end if;
    perform _pgwhen.adopt_suspects(v_worker);
    commit;
    loop
        v_events := 0;
        if events and _pgwhen.mark_batch(v_worker) then
            commit;
            v_events := (pgwhen.process_events(v_worker)).events;
        end if;
        commit;
        v_recovered := pgwhen.recover_stale_actions();
        v_expired := pgwhen.expire_actions();
        commit;
        v_claimed := _pgwhen.claim_sql_actions(v_worker, null);
        commit;
        v_ran := _pgwhen.run_claimed(v_worker, v_claimed);
        commit;
        perform _pgwhen.park_runaways();
        commit;
        perform _pgwhen.lower_floors();
        commit;
        v_did := v_events + v_recovered + v_expired + v_ran;
        done := done + v_did;
        exit when v_did = 0 or _pgwhen.clock() > v_until;
    end loop;
    perform _pgwhen.maintain_if_due();
    commit;
end;
$$;

comment on procedure pgwhen.run_ticks(numeric, boolean, bigint) is  -- noqa: LT01
$doc$Tick until nothing is due, for max_seconds at most, committing in between: what pg_cron calls.

`done` comes back as the number of events and actions that it dealt with; pass nothing for it. With
events => false it leaves the events to somebody else: a listener has its own way to take them.
Several may run at once. Not inside a transaction block: it commits. Work that kills its backend,
or runs out of statement_timeout, is isolated by the runs after it. In a copy of a database it
does nothing and warns so (PW801): pg_cron's jobs travel in a dump. pgwhen.adopt() makes it real.

  call pgwhen.run_ticks();
$doc$;
