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
again: it ends as failed, or with "cancelled": true, by which a worker says that it gave way, as
cancelled. With nonRetryable, or a type that its policy lists as such, it ends as failed; so it does
when it has been tried as often as the policy says, or when scheduleToClose leaves no time for
another attempt. Else it is tried again after nextRetryDelay, or the policy's next interval:
docs/retries.md. Why the last attempt was the last is kept in retry_state. A nonRetryable failure
gives the frequency slot back, for it was certainly not delivered, but not with "outcomeUnknown":
true. After any other the slot is kept. "heartbeatDetails" are kept as a heartbeat's are; "causes",
a list of {"type", "message"}, are told in error_message; the details of the last attempt are kept
as the result. What was claimed in a batch stays in it
with "outcomeUnknown", or a type Timeout:…, and is claimed again only together with the others that
do: docs/handlers.md. After any other error it joins whatever batch is claimed next.

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
    v_again bigint[];
    v_silent bigint[];
    v_due_at timestamptz;
begin
    perform _pgwhen.lock_actions(
        v_ids, array(select f.token from unnest(try_again.failures) as f)
    );
    v_verdicts := _pgwhen.retry_verdicts(try_again.failures, try_again.now);
    if exists (select from unnest(v_verdicts) as v where v.batch_id is not null) then
        v_verdicts := _pgwhen.at_one_time(v_verdicts);
    end if;
    if exists (select from unnest(v_verdicts) as v where v.error ? 'heartbeatDetails') then
        perform _pgwhen.keep_last_details(v_verdicts, try_again.now);
    end if;

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
            retry_state = null,
            startable_at = case when v.start_within is not null then try_again.now + v.wait end,
            claim_token = null,
            deadline = try_again.now + v.wait + v.start_within,
            attempt_ends = null,
            batch_id = v.batch_id,
            keeps_batch = v.batch_id is not null,
            updated_at = try_again.now
        from unnest(v_verdicts) as v
        where
            a.id = any(v_ids)
            and a.id = v.action_id
            and a.status = 'processing'
            and a.claim_token = v.token
            and v.ending is null
        returning a.id, a.has_heartbeat, a.execute_at
    )
    select array_agg(g.id), array_agg(g.id) filter (where g.has_heartbeat), min(g.execute_at)
    into v_again, v_silent, v_due_at
    from again as g;
    if v_due_at is not null then
        perform _pgwhen.ring_for(v_due_at, try_again.now);
    end if;
    if v_silent is not null then
        perform _pgwhen.stop_beating(v_silent);
    end if;

    return query
    select unnest(v_again)
    union all
    select s
    from _pgwhen.settle(array(
        select _pgwhen.ending_of_action(
            v.action_id, v.token, v.ending, _pgwhen.error_text(v.error),
            nullif(v.error -> 'details', 'null'),
            give_back => _pgwhen.is_undelivered(v.error), retry_state => v.retry_state,
            leaves_batch => v.batch_id is null
        )
        from unnest(v_verdicts) as v
        where v.ending is not null
    )) as s;
end;
$$;

create or replace function _pgwhen.error_text(error jsonb)
returns text
language plpgsql
stable
as $$
begin
    return left(
        concat_ws(
            '; caused by ',
            _pgwhen.one_error(
                error_text.error ->> 'type',
                coalesce(error_text.error ->> 'message', 'failed without a message')
            ),
            (
                select string_agg(
                    _pgwhen.one_error(c.cause ->> 'type', c.cause ->> 'message'),
                    '; caused by ' order by c.n
                )
                from jsonb_path_query(error_text.error, 'lax $.causes[*]')
                    with ordinality as c (cause, n)
            )
        ),
        4096
    );
end;
$$;

create or replace function _pgwhen.one_error(type text, message text)
returns text
language sql
immutable
as $$
select case when one_error.type is null then one_error.message
    else one_error.type || coalesce(': ' || one_error.message, '') end;
$$;
