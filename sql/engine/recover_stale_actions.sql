create or replace function pgwhen.recover_stale_actions(batch_size integer default null)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_batch_size constant integer := _pgwhen.batch_size_of(batch_size);
    v_todo _pgwhen.failure[];
    v_size integer;
    v_why text;
    v_done integer := 0;
begin
    perform _pgwhen.require_read_committed('recover_stale_actions');
    perform _pgwhen.raise_time_floors('{deadline}');
    v_todo := _pgwhen.stale(v_batch_size);
    v_size := cardinality(v_todo);
    while v_todo <> '{}' loop
        begin
            perform _pgwhen.try_again(v_todo[:v_size], _pgwhen.write_clock());
            set constraints all immediate;
            v_done := v_done + cardinality(v_todo[:v_size]);
        exception
            when assert_failure or others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                get stacked diagnostics v_why = message_text;
                perform _pgwhen.recover_later(v_todo[1], sqlstate || ': ' || v_why);
        end;
        v_todo := v_todo[v_size + 1:];
        v_size := 2 * v_size;
    end loop;

    if v_done > 0 then
        perform _pgwhen.ring('pgwhen_due');
    end if;
    return v_done;
end;
$$;

comment on function pgwhen.recover_stale_actions(integer) is
$doc$Take back up to batch_size actions whose deadline has passed; returns how many.

The attempt counts: the action is due again at once, or failed if that was its last try. The
worker that held it finds its token refused. Harmless to run at any time, by anybody, in parallel.

Raises PW202 outside READ COMMITTED, PW301 for a batch_size below 1.

  select pgwhen.recover_stale_actions();
$doc$;

-- The oldest of what has passed its deadline, locked, as failures. Lock order: scheduled_action,
-- SKIP LOCKED, so never waiting.
create or replace function _pgwhen.stale(batch_size integer)
returns _pgwhen.failure[]
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    return array(
        select row(
            s.id, s.claim_token,
            jsonb_build_object(
                'type', 'Timeout',
                'message',
                format('attempt %s by %s passed its deadline', s.retry_count + 1, s.worker),
                'nextRetryDelay', 0
            )
        )::_pgwhen.failure
        from (
            select a.id, a.claim_token, a.retry_count, a.worker
            from _pgwhen.bound('deadline') as b
            cross join pgwhen.scheduled_action as a
            where a.status = 'processing' and a.deadline >= b.since and a.deadline < v_now
            order by a.deadline
            limit stale.batch_size
            for no key update of a skip locked
        ) as s
    );
end;
$$;

-- What cannot be taken back (a trigger of the application raises, say) gives way to the others.
create or replace function _pgwhen.recover_later(failure _pgwhen.failure, why text)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    update pgwhen.scheduled_action as a
    set
        deadline = v_now + interval '1 minute',
        error_message = 'cannot be recovered: ' || recover_later.why,
        updated_at = v_now
    where a.id = (recover_later.failure).action_id;
end;
$$;
