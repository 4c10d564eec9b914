create or replace function pgwhen.expire_actions(batch_size integer default null)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_sort = off
set jit = off
as $$
declare
    v_lock_timeout constant text := current_setting('lock_timeout');
    v_until constant timestamptz := _pgwhen.clock() + _pgwhen.yield_after();
    v_batch_size constant integer := _pgwhen.batch_size_of(batch_size);
    v_todo bigint[];
    v_size integer;
    v_waiting text;
    v_why text;
    v_ended integer;
    v_done integer := 0;
begin
    perform _pgwhen.require_read_committed('expire_actions');
    perform _pgwhen.raise_time_floors('{expiry}');
    v_todo := _pgwhen.overdue_waits(v_batch_size);
    v_size := cardinality(v_todo);
    while v_todo <> '{}' and (v_done = 0 or _pgwhen.clock() < v_until) loop
        -- Before the block, which takes back what it has set where it raises.
        v_waiting := set_config('lock_timeout', _pgwhen.patience(v_size), true);
        begin
            v_ended := _pgwhen.click_waits(_pgwhen.clicked_early(v_todo[:v_size]))
                + _pgwhen.expire_waits(v_todo[:v_size]);
            set constraints all immediate;
            v_done := v_done + v_ended;
        exception
            when assert_failure or others then
                if v_size > 1 then
                    v_size := v_size / 2;
                    continue;
                end if;
                get stacked diagnostics v_why = message_text;
                v_waiting := set_config('lock_timeout', v_lock_timeout, true);
                if sqlstate not in ('55P03', '40P01', '40001') then
                    perform _pgwhen.settle(array[
                        _pgwhen.ending_of_action(
                            v_todo[1], null, 'failed', sqlstate || ': ' || v_why
                        )
                    ]);
                    v_done := v_done + 1;
                end if;
        end;
        v_todo := v_todo[v_size + 1:];
        v_size := 2 * v_size;
    end loop;
    v_waiting := set_config('lock_timeout', v_lock_timeout, true);
    return v_done;
end;
$$;

comment on function pgwhen.expire_actions(integer) is
$doc$End up to batch_size waits whose time is over, the oldest first; returns how many ended.

What a wait has for this case (delay.onExpire) is dispatched in the same transaction. A click that
was committed before counts, also if it is still to be processed: such a wait is left to it. So is
one whose user another session is at work on, or whose row somebody has locked. Harmless to run
at any time, by anybody, in parallel; tick() and run_ticks() call it.

Raises PW202 outside READ COMMITTED, PW301 for a batch_size below 1.

  select pgwhen.expire_actions();
$doc$;

-- The waits to end, locked, with the buckets of their users held: both by lock that is tried, never
-- waited for. Read again by a statement that begins after the buckets are held, so that it sees
-- what their last holders did, and every click that was committed until now.
create or replace function _pgwhen.overdue_waits(batch_size integer)
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_ids bigint[];
    v_buckets smallint[];
begin
    v_ids := array(
        select a.id
        from _pgwhen.bound('expiry') as b
        cross join pgwhen.scheduled_action as a
        where
            a.status = 'pending'
            and a.waiting
            and (a.expires_at, a.id) > (b.since, b.since_id)
            and a.expires_at <= v_now
            and not _pgwhen.has_click_coming(a)
        order by a.expires_at, a.id
        limit overdue_waits.batch_size
    );
    if v_ids = '{}' then
        return v_ids;
    end if;

    select array_agg(b.bucket)
    into v_buckets
    from (
        select distinct _pgwhen.bucket(a.line_oa_id, a.user_id) as bucket
        from pgwhen.scheduled_action as a
        where a.id = any(v_ids)
        offset 0
    ) as b
    where pg_try_advisory_xact_lock(_pgwhen.bucket_class(), b.bucket);

    return array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.id = any(v_ids)
            and _pgwhen.bucket(a.line_oa_id, a.user_id) = any(v_buckets)
            and a.waiting
            and a.expires_at <= v_now
            and not _pgwhen.has_click_coming(a)
        order by a.id
        for no key update skip locked
    );
end;
$$;
