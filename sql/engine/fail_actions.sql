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
"nextRetryDelay": seconds, "details": any}. An action is tried again after nextRetryDelay, else
after the setting retrySeconds, twice as long after each further failure and a hundred times as
long at most, until it has been tried 1 + maxRetries times; then, or at once with nonRetryable, it
ends as failed. A non-retryable failure gives the frequency slot back: it was
certainly not delivered. After any other the slot is kept.

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
    v_max_retries constant integer := (_pgwhen.setting('maxRetries'))::integer;
    v_ids constant bigint[] := array(select f.action_id from unnest(try_again.failures) as f);
    v_ended _pgwhen.ending[];
begin
    perform _pgwhen.lock_actions(
        v_ids, array(select f.token from unnest(try_again.failures) as f)
    );

    select coalesce(array_agg(
        _pgwhen.ending_of_action(
            f.action_id, f.token, 'failed', _pgwhen.error_text(f.error), null,
            _pgwhen.is_final(f.error)
        )
    ), '{}')
    into v_ended
    from unnest(try_again.failures) as f
    inner join pgwhen.scheduled_action as a on a.id = f.action_id
    where
        a.id = any(v_ids)
        and (_pgwhen.is_final(f.error) or a.retry_count >= v_max_retries);

    return query
    with again as (
        update pgwhen.scheduled_action as a
        set
            status = 'pending',
            retry_count = a.retry_count + 1,
            execute_at = try_again.now + _pgwhen.retry_delay(f.error, a.retry_count),
            -- what has failed may have sent all the same, and been clicked
            counts_from = case when a.wait ? 'after'
                then coalesce(a.counts_from, a.updated_at) end,
            error_message = _pgwhen.error_text(f.error),
            claim_token = null,
            deadline = null,
            updated_at = try_again.now
        from unnest(try_again.failures) as f
        where
            a.id = any(v_ids)
            and a.id = f.action_id
            and a.status = 'processing'
            and a.claim_token = f.token
            and not (_pgwhen.is_final(f.error) or a.retry_count >= v_max_retries)
        returning a.id
    )
    select g.id from again as g;

    perform _pgwhen.cancel_as_asked(v_ids);

    return query select s from _pgwhen.settle(v_ended) as s;
end;
$$;

create or replace function _pgwhen.is_final(error jsonb)
returns boolean
language sql
immutable
as $$
select coalesce(is_final.error -> 'nonRetryable' = 'true', false);
$$;

-- What the error asks for, else retrySeconds, doubled with each failure before, a hundred times as
-- long at most.
create or replace function _pgwhen.retry_delay(error jsonb, failures integer)
returns interval
language sql
stable
as $$
select pg_catalog.make_interval(secs => least(
    case when pg_catalog.jsonb_typeof(retry_delay.error -> 'nextRetryDelay') = 'number'
        and (retry_delay.error -> 'nextRetryDelay')::numeric >= 0
        then (retry_delay.error -> 'nextRetryDelay')::numeric
        else (_pgwhen.setting('retrySeconds'))::numeric
            * least(100, pg_catalog.power(2::numeric, least(retry_delay.failures, 7))) end,
    315360000
)::float8);
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
