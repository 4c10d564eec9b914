-- pgwhen.process_events: a page over the steps take, fire (match, judge, reserve, dispatch) and the
-- caller's own SQL actions.
--
-- SECURITY INVOKER, because a user's function is called from here and must run as whoever called;
-- what touches pgwhen's tables is in SECURITY DEFINER steps that trust nothing they are told. The
-- search_path is pinned all the same: a schema in the caller's own may belong to others.
-- Plans are generic ones: what they are chosen for is bounded by a batch, and planning anew for one
-- event costs more than the event. Nor are they ones for tables that were small when they were
-- made, though a plan is kept until somebody analyzes: see docs/adr/0010-plans.md.
--
-- One EXCEPTION block holds one part of the batch, with constraints made immediate, for a deferred
-- one would escape it. What raises is halved, down to one event, which fire_alone() takes apart. (A
-- failed ASSERT is named, because `others` does not mean it.)
--
-- pgwhen yields to the application: it waits for a row lock no longer than _pgwhen.patience(), and
-- gives up the rest of the batch when half of deadlock_timeout is over, so the application's own
-- wait never runs into the deadlock detector because of us.
--
-- What is due is not claimed here: a claim that hangs, raises or waits would take the events down
-- with it, and they would be the suspects.

create or replace function pgwhen.process_events(
    worker text,
    action_types text[] default '{}',
    batch_size integer default null,
    claim_limit integer default null,
    suspect boolean default false,
    look_ahead boolean default true
)
returns pgwhen.pass
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_lock_timeout constant text := pg_catalog.current_setting('lock_timeout');
    v_until constant timestamptz := _pgwhen.clock() + _pgwhen.yield_after();
    v_waiting text;
    v_batch _pgwhen.batch;
    v_todo bigint[];
    v_size integer;
    v_part bigint[];
    v_turn bigint[];
    v_fired _pgwhen.fired;
    v_claimed jsonb;
    v_pass pgwhen.pass := row(0, true, null, '[]'::jsonb)::pgwhen.pass;
begin
    perform _pgwhen.check_pass(worker, batch_size);
    if suspect then
        perform _pgwhen.mark_suspect(worker, batch_size);
        return v_pass;
    end if;

    v_batch := _pgwhen.take(worker, batch_size);
    v_todo := v_batch.ids;
    if v_batch.alone and v_todo <> '{}' then
        v_pass.events := _pgwhen.fire_alone(worker, v_todo[1])::integer;
        v_todo := '{}';
    end if;
    v_size := pg_catalog.cardinality(v_todo);
    while v_todo <> '{}' and (v_pass.events = 0 or _pgwhen.clock() < v_until) loop
        -- Before the block, which takes back what it has set where it raises.
        v_waiting := pg_catalog.set_config('lock_timeout', _pgwhen.patience(v_size), true);
        begin
            v_part := v_todo[:v_size];
            v_claimed := v_pass.actions;
            loop
                v_turn := case when cardinality(v_part) = 1 then v_part
                    else _pgwhen.next_turn(v_part) end;
                v_fired := _pgwhen.fire(
                    worker, v_turn, action_types,
                    coalesce(claim_limit, 1000000) - pg_catalog.jsonb_array_length(v_claimed)
                );
                if pg_catalog.cardinality(v_fired.sql_actions) > 0 then
                    perform _pgwhen.run_sql_actions(worker, v_fired.sql_actions);
                end if;
                v_claimed := v_claimed || v_fired.claimed;
                exit when v_turn = v_part;
                v_part := array(select p from unnest(v_part) as p where p <> all(v_turn));
            end loop;
            set constraints all immediate;
            v_pass.actions := v_claimed;
        exception
            when assert_failure or others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                if not _pgwhen.fire_alone(worker, v_todo[1]) then
                    v_todo := _pgwhen.other_buckets(v_todo);
                    continue;
                end if;
        end;
        v_pass.events := v_pass.events + pg_catalog.cardinality(v_todo[:v_size]);
        v_todo := v_todo[v_size + 1:];
        v_size := 2 * v_size;
    end loop;
    v_waiting := pg_catalog.set_config('lock_timeout', v_lock_timeout, true);

    v_pass.more := v_batch.more or v_todo <> '{}';
    if look_ahead then
        v_pass.next_due_seconds := _pgwhen.next_due_seconds(action_types);
    end if;
    return v_pass;
end;
$$;

comment on function pgwhen.process_events(text, text[], integer, integer, boolean, boolean) is
$doc$Process one batch of events in one transaction: find the rules, judge, reserve, make actions.

SQL actions that are due now are done in it, exactly once. Actions of the action_types that the
caller serves come back claimed by it (as by claim_actions, claim_limit at most); others wait as
pending rows. The events of one user are processed one at a time, in the order of the outbox,
however many callers there are. `more` says that there is more at once, next_due_seconds in how
many seconds something will be due for this caller (null: nothing within two seconds, or
look_ahead => false, for a caller that has looked a moment ago).

What raises harms only itself: the batch is halved down to the one event and rule, which becomes a
failed row of trigger_log. If a call is lost with its connection or to statement_timeout, call
again with suspect => true, which only marks the batch and commits; then call as before.

Raises PW202 outside READ COMMITTED, PW301 for an empty worker name or a batch_size out of range.

  select * from pgwhen.process_events(worker => 'w-1', action_types => '{log_message}');
$doc$;

create or replace function _pgwhen.check_pass(worker text, batch_size integer)
returns void
language plpgsql
as $$
begin
    perform _pgwhen.require_read_committed('process_events');
    perform _pgwhen.check_worker(check_pass.worker);
    if check_pass.batch_size not between 1 and 10000 then
        raise exception 'batch_size must be 1 to 10000, not %', check_pass.batch_size
            using errcode = 'PW301', hint = 'Leave it out for the setting batchSize.';
    end if;
end;
$$;

-- Which of the ids to fire before the users' own SQL actions are called: where there are such, one
-- event of each user, so that an action sees what was before its event and nothing that came after.
create or replace function _pgwhen.next_turn(ids bigint[])
returns bigint[]
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select from _pgwhen.action_type as t where t.kind = 'sql' and not t.builtin
    ) then
        return next_turn.ids;
    end if;
    return array(
        select min(o.id)
        from _pgwhen.outbox as o
        where o.id = any(next_turn.ids)
        group by o.line_oa_id, o.user_id
        order by 1
    );
end;
$$;

create or replace function _pgwhen.yield_after()
returns interval
language sql
stable
as $$
select pg_catalog.current_setting('deadlock_timeout')::interval / 2;
$$;

-- How long one lock may be waited for by a part of n events: all of them together must stay within
-- yield_after(). No more than 20 ms, for the engine has other users to serve.
create or replace function _pgwhen.patience(n integer)
returns text
language sql
stable
as $$
select greatest(1, least(
    20, (1000 * extract(epoch from _pgwhen.yield_after()) / greatest(1, patience.n))::int4
))::text;
$$;
