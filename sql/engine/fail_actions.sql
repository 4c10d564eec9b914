create or replace function pgwhen.fail_actions(
    worker text,
    ids bigint[],
    tokens uuid[],
    errors jsonb[]
)
returns setof bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_nestloop = off
set jit = off
as $$
declare
    v_now constant timestamptz := _pgwhen.write_clock();
begin
    perform _pgwhen.require_read_committed('fail_actions');
    perform _pgwhen.check_worker(fail_actions.worker);
    perform _pgwhen.check_claims(ids, tokens, coalesce(cardinality(errors), 0));

    return query
    select t
    from _pgwhen.try_again(
        array(
            select row(i.id, i.token, i.error)::_pgwhen.failure
            from unnest(ids, tokens, errors) as i (id, token, error)
        ),
        v_now
    ) as t;
end;
$$;

comment on function pgwhen.fail_actions(text, bigint[], uuid[], jsonb[]) is
$doc$Report claimed actions as failed, many at once; returns the ids that were still this claim's.

An error is an object: {"message": text, "type": text, "nonRetryable": boolean,
"nextRetryDelay": seconds, "details": any}. An action whose cancellation was asked for is not tried
again. With nonRetryable, or a type that its policy lists as such, it ends as failed; so it does
when it has been tried as often as the policy says. Else it is tried again after nextRetryDelay, or
the policy's next interval: docs/retries.md. Why the last attempt was the last is kept in
retry_state. A nonRetryable failure gives the frequency slot back: it was certainly not delivered.
After any other the slot is kept.

Raises PW302 where the arrays differ in length or hold nulls, PW202 outside READ COMMITTED.

  select pgwhen.fail_actions(
      'w-1', '{7}', array[:token]::uuid[], array['{"message": "busy"}']::jsonb[]
  );
$doc$;

-- One failed attempt of each: back to pending where another try is due, else settled as failed.
-- Lock order: scheduled_action by id.
create or replace function _pgwhen.try_again(failures _pgwhen.failure[], now timestamptz)
returns setof bigint
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
declare
    v_ids constant bigint[] := array(select f.action_id from unnest(try_again.failures) as f);
    v_verdicts _pgwhen.retry_verdict[];
begin
    perform _pgwhen.lock_actions(
        v_ids, array(select f.token from unnest(try_again.failures) as f)
    );
    v_verdicts := _pgwhen.retry_verdicts(try_again.failures);

    return query
    with again as (
        update pgwhen.scheduled_action as a
        set
            status = 'pending',
            retry_count = a.retry_count + 1,
            execute_at = try_again.now + v.wait,
            -- what has failed may have sent all the same, and been clicked
            counts_from = case when a.wait ? 'after'
                then coalesce(a.counts_from, a.updated_at) end,
            error_message = _pgwhen.error_text(v.error),
            retry_state = v.retry_state,
            claim_token = null,
            deadline = null,
            updated_at = try_again.now
        from unnest(v_verdicts) as v
        where
            a.id = any(v_ids)
            and a.id = v.action_id
            and a.status = 'processing'
            and a.claim_token = v.token
            and not v.ends
        returning a.id
    )
    select g.id from again as g;

    perform _pgwhen.cancel_as_asked(v_ids);

    return query
    select s
    from _pgwhen.settle(array(
        select _pgwhen.ending_of_action(
            v.action_id, v.token, 'failed', _pgwhen.error_text(v.error),
            give_back => _pgwhen.is_final(v.error), retry_state => v.retry_state
        )
        from unnest(v_verdicts) as v
        where v.ends
    )) as s;
end;
$$;

create or replace function _pgwhen.error_text(error jsonb)
returns text
language sql
stable
as $$
select pg_catalog.left(
    pg_catalog.concat_ws(
        ': ',
        error_text.error ->> 'type',
        coalesce(error_text.error ->> 'message', 'failed without a message')
    ),
    4096
);
$$;
