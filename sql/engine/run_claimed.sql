-- _pgwhen.run_claimed: due SQL actions that are already claimed, in one block, halved where it
-- raises, down to the one that did. That one has failed an attempt, unless it only could not have a
-- lock: then it is put off.
create or replace function _pgwhen.run_claimed(worker text, actions pgwhen.claimed_action[])
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_todo pgwhen.claimed_action[] := actions;
    v_lock_timeout constant text := current_setting('lock_timeout');
    v_size integer := cardinality(actions);
    v_why text;
begin
    while cardinality(v_todo) > 0 loop
        -- Before the block, which takes back what it has set where it raises.
        perform set_config('lock_timeout', _pgwhen.patience(v_size), true);
        begin
            perform _pgwhen.run_sql_actions(worker, v_todo[:v_size]);
            set constraints all immediate;
        exception
            when others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                get stacked diagnostics v_why = message_text;
                if sqlstate in ('55P03', '40P01', '40001') then
                    perform _pgwhen.put_off(v_todo[1]);
                else
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
    return cardinality(actions);
end;
$$;

-- Where its own row is what somebody else has locked, it is left to its deadline.
create or replace function _pgwhen.put_off(action pgwhen.claimed_action)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update pgwhen.scheduled_action as a
    set
        status = 'pending',
        execute_at = _pgwhen.clock() + interval '1 second',
        error_message = 'put off: the rows it needs are locked by somebody else',
        claim_token = null,
        deadline = null,
        updated_at = _pgwhen.clock()
    where a.id = (
        select m.id
        from pgwhen.scheduled_action as m
        where
            m.id = (put_off.action).id
            and m.status = 'processing'
            and m.claim_token = (put_off.action).token
        for no key update skip locked
    );
end;
$$;
