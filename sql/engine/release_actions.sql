create or replace function pgwhen.release_actions(worker text, ids bigint[], tokens uuid[])
returns setof bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_nestloop = off
set jit = off
set "pgwhen.by_engine" = on
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    perform _pgwhen.require_read_committed('release_actions');
    perform _pgwhen.check_worker(release_actions.worker);
    perform _pgwhen.check_claims(ids, tokens, null);

    perform _pgwhen.lock_actions(ids, tokens);
    perform _pgwhen.stop_beating(ids, tokens);

    return query
    update pgwhen.scheduled_action as a
    set
        status = 'pending',
        execute_at = v_now,
        claim_token = null,
        (startable_at, deadline) = (
            select t.startable_at, t.start_by from _pgwhen.term_of(a, v_now) as t
        ),
        attempt_ends = null,
        batch_id = case when a.keeps_batch then a.batch_id end,
        updated_at = v_now
    from unnest(ids, tokens) as i (id, token)
    where a.id = any(ids) and a.id = i.id and a.status = 'processing' and a.claim_token = i.token
    returning a.id;

    perform _pgwhen.cancel_as_asked(ids);
    perform _pgwhen.ring('pgwhen_due');
end;
$$;

comment on function pgwhen.release_actions(text, bigint[], uuid[]) is
$doc$Give back claimed actions that were not started; they are due at once and count no attempt.

For a worker that shuts down. Returns the ids that were still this claim's. Each joins whatever
batch is claimed next, unless an earlier attempt may have sent the one that it is in.

Raises PW302 where the arrays differ in length or hold nulls, PW202 outside READ COMMITTED.

  select pgwhen.release_actions('w-1', '{7}', array[:token]::uuid[]);
$doc$;
