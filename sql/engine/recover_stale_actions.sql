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
    v_now timestamptz;
    v_stale _pgwhen.failure[];
begin
    perform _pgwhen.require_read_committed('recover_stale_actions');
    if recover_stale_actions.batch_size < 1 then
        raise exception 'batch_size must be 1 or more, not %', recover_stale_actions.batch_size
            using errcode = 'PW301', hint = 'Leave it out for the setting batchSize.';
    end if;

    perform _pgwhen.raise_deadline_floor();
    v_now := _pgwhen.clock();
    select array_agg(row(
        s.id, s.claim_token,
        jsonb_build_object(
            'type', 'Timeout',
            'message', format('attempt %s by %s passed its deadline', s.retry_count + 1, s.worker),
            'nextRetryDelay', 0
        )
    )::_pgwhen.failure)
    into v_stale
    from (
        select a.id, a.claim_token, a.retry_count, a.worker
        from _pgwhen.bound('deadline') as b
        cross join pgwhen.scheduled_action as a
        where a.status = 'processing' and a.deadline > b.since and a.deadline < v_now
        order by a.deadline
        limit coalesce(
            recover_stale_actions.batch_size, (_pgwhen.setting('batchSize'))::integer
        )
        for no key update of a skip locked
    ) as s;

    if v_stale is null then
        return 0;
    end if;
    perform _pgwhen.try_again(v_stale, _pgwhen.write_clock());
    perform _pgwhen.ring('pgwhen_due');
    return cardinality(v_stale);
end;
$$;

comment on function pgwhen.recover_stale_actions(integer) is
$doc$Take back up to batch_size actions whose deadline has passed; returns how many.

The attempt counts: the action is due again at once, or failed if that was its last try. The
worker that held it finds its token refused. Harmless to run at any time, by anybody, in parallel.

Raises PW202 outside READ COMMITTED, PW301 for a batch_size below 1.

  select pgwhen.recover_stale_actions();
$doc$;
