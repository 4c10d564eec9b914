-- _pgwhen.run_claimed: due SQL actions that are already claimed, in one block, halved where it
-- raises, down to the one that did. That one has failed an attempt, unless it only could not have a
-- lock: then it is put off. At `until`, half of deadlock_timeout after this transaction began to
-- lock, what has not been tried is given back, for the application would be the one to die of a
-- deadlock. Returns how many were tried.
create or replace function _pgwhen.run_claimed(
    worker text,
    actions pgwhen.claimed_action[],
    until timestamptz default null
)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_until constant timestamptz := coalesce(until, _pgwhen.clock() + _pgwhen.yield_after());
    v_todo pgwhen.claimed_action[] := actions;
    v_lock_timeout constant text := current_setting('lock_timeout');
    v_size integer := cardinality(actions);
    v_why text;
begin
    while
        v_todo <> '{}'
        and (cardinality(v_todo) = cardinality(actions) or _pgwhen.clock() < v_until)
    loop
        -- Before the block, which takes back what it has set where it raises.
        perform set_config('lock_timeout', _pgwhen.patience(v_size), true);
        begin
            perform _pgwhen.run_sql_actions(worker, v_todo[:v_size]);
            set constraints all immediate;
        exception
            when assert_failure or others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                get stacked diagnostics v_why = message_text;
                -- What is left is short and must not fail: a busy server extends a table slowly.
                perform set_config('lock_timeout', v_lock_timeout, true);
                if sqlstate in ('55P03', '40P01', '40001') then
                    perform _pgwhen.put_off(v_todo[1]);
                elsif _pgwhen.lock_claimed(v_todo[1]) then
                    perform pgwhen.fail_actions(
                        worker, array[(v_todo[1]).id], array[(v_todo[1]).token],
                        array[jsonb_build_object('type', sqlstate, 'message', v_why)]
                    );
                end if;
        end;
        v_todo := v_todo[v_size + 1:];
        v_size := 2 * v_size;
    end loop;
    perform set_config('lock_timeout', v_lock_timeout, true);
    if v_todo <> '{}' then
        perform pgwhen.release_actions(
            worker,
            array(select a.id from unnest(v_todo) as a),
            array(select a.token from unnest(v_todo) as a)
        );
    end if;
    return cardinality(actions) - cardinality(v_todo);
end;
$$;

-- Whether the claim is still held, and nobody else has the row locked: it is then, until the end of
-- the transaction. What somebody else has locked is left to its deadline.
create or replace function _pgwhen.lock_claimed(action pgwhen.claimed_action)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform
    from pgwhen.scheduled_action as a
    where
        a.id = (lock_claimed.action).id
        and a.status = 'processing'
        and a.claim_token = (lock_claimed.action).token
    for no key update skip locked;
    return found;
end;
$$;

create or replace function _pgwhen.put_off(action pgwhen.claimed_action)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    update pgwhen.scheduled_action as a
    set
        status = 'pending',
        execute_at = v_now + interval '1 second',
        error_message = 'put off: the rows it needs are locked by somebody else',
        claim_token = null,
        (startable_at, deadline) = (
            select t.startable_at, t.start_by
            from _pgwhen.term_of(a, v_now + interval '1 second') as t
        ),
        attempt_ends = null,
        updated_at = v_now
    where a.id = (
        select m.id
        from pgwhen.scheduled_action as m
        where
            m.id = (put_off.action).id
            and m.status = 'processing'
            and m.claim_token = (put_off.action).token
        for no key update skip locked
    );
    perform _pgwhen.cancel_as_asked(array[(put_off.action).id]);
end;
$$;
