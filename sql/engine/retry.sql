-- What follows a failed attempt, in Temporal's order: who asked to cancel gets no other attempt; an
-- error that is not to be retried ends the action; so do attempts that are used up, and a next one
-- that could not begin before scheduleToClose; else it is tried again, after what the error asks
-- for or the policy's next interval. Where somebody asked to cancel, and the worker says that it
-- gave way, the action ends as cancelled, else as failed.
--
-- The policy is looked up here and nowhere else, so that an action which succeeds pays nothing for
-- it. Key by key: what is frozen with the action goes before what its type says now, and that
-- before the settings.

-- Of actions that are still under the token of their failure; the caller has locked them.
create or replace function _pgwhen.retry_verdicts(failures _pgwhen.failure[], now timestamptz)
returns _pgwhen.retry_verdict[]
language plpgsql
volatile
as $$
declare
    v_ids constant bigint[] := array(select f.action_id from unnest(retry_verdicts.failures) as f);
    v_defaults constant jsonb := _pgwhen.default_retry_policy();
begin
    return array(
        select
            row(
                j.action_id, j.token,
                case
                    when j.cancel_reason is not null and j.error -> 'cancelled' = 'true'
                        then j.error - 'type' || jsonb_build_object('message', j.cancel_reason)
                    when j.is_late and _pgwhen.is_timeout(j.error)
                        then _pgwhen.out_of_time(j.error, j.error_before)
                    else j.error
                end,
                case
                    when j.cancel_reason is not null and j.error -> 'cancelled' = 'true'
                        then 'cancelled'
                    when j.reason is not null or j.is_late then 'failed'
                end,
                coalesce(j.reason, case when j.is_late then 'timeout' end),
                j.wait, j.start_within, j.batch_id
            )::_pgwhen.retry_verdict
        from (
            select
                w.*, w.reason is null and retry_verdicts.now + w.wait >= w.close_by as is_late
            from (
                select
                    f.action_id, f.token, f.error, a.cancel_reason, a.close_by,
                    a.error_message as error_before,
                    case when a.keeps_batch or _pgwhen.is_outcome_unknown(f.error)
                        then a.batch_id end as batch_id,
                    case when a.cancel_reason is not null then 'cancel_requested'
                        else _pgwhen.retry_state(p.policy, f.error, a.retry_count + 1)
                    end as reason,
                    _pgwhen.retry_wait(p.policy, f.error, a.retry_count + 1) as wait,
                    _pgwhen.limit_of(
                        _pgwhen.limits(t.options -> 'timeouts', a.timeouts), 'scheduleToStart'
                    ) as start_within
                from unnest(retry_verdicts.failures) as f
                inner join pgwhen.scheduled_action as a
                    on a.id = f.action_id and a.claim_token = f.token
                left join _pgwhen.action_type as t on t.name = a.action_type
                cross join lateral (
                    select _pgwhen.retry_policy_in_force(
                        v_defaults, t.options -> 'retryPolicy', a.retry_policy
                    )
                    offset 0
                ) as p (policy)
                where a.id = any(v_ids) and a.status = 'processing'
                offset 0
            ) as w
            offset 0
        ) as j
    );
end;
$$;

-- Of one batch all are tried again at one time, when the last of them may be.
create or replace function _pgwhen.at_one_time(verdicts _pgwhen.retry_verdict[])
returns _pgwhen.retry_verdict[]
language plpgsql
immutable
as $$
begin
    return array(
        select
            row(
                v.action_id, v.token, v.error, v.ending, v.retry_state,
                case when v.batch_id is null then v.wait
                    else max(v.wait) filter (where v.ending is null) over (
                        partition by v.batch_id
                    ) end,
                v.start_within, v.batch_id
            )::_pgwhen.retry_verdict
        from unnest(at_one_time.verdicts) as v
    );
end;
$$;

create or replace function _pgwhen.is_timeout(error jsonb)
returns boolean
language sql
immutable
as $$
select coalesce(is_timeout.error ->> 'type' like 'Timeout:%', false);
$$;

-- An attempt that ran out of its time, and no time for another one is left: it is scheduleToClose
-- that ends the action, and the error before is its cause.
create or replace function _pgwhen.out_of_time(error jsonb, error_before text)
returns jsonb
language sql
stable
as $$
select out_of_time.error || pg_catalog.jsonb_build_object(
    'type', 'Timeout:ScheduleToClose',
    'message', pg_catalog.concat_ws(
        '; ',
        'no time for another attempt', 'last error: ' || _pgwhen.error_text(out_of_time.error),
        'error before: ' || out_of_time.error_before
    )
);
$$;

create or replace function _pgwhen.retry_policy_in_force(
    defaults jsonb,
    of_type jsonb,
    of_action jsonb
)
returns jsonb
language sql
immutable
as $$
select
    retry_policy_in_force.defaults
    || coalesce(retry_policy_in_force.of_type, '{}')
    || coalesce(retry_policy_in_force.of_action, '{}');
$$;

create or replace function _pgwhen.default_retry_policy()
returns jsonb
language sql
stable
as $$
select pg_catalog.jsonb_build_object(
    'initialInterval',
    pg_catalog.trim_scale(pg_catalog.round((_pgwhen.setting('retrySeconds'))::numeric, 6)),
    'backoffCoefficient', 2,
    'maximumAttempts', (_pgwhen.setting('maxRetries'))::integer + 1
);
$$;

-- Why there is no other attempt after this one; null where there is. Attempts count from 1.
create or replace function _pgwhen.retry_state(policy jsonb, error jsonb, attempt integer)
returns text
language sql
immutable
as $$
select case
    when retry_state.error ->> 'type' in ('Timeout:ScheduleToStart', 'Timeout:ScheduleToClose')
        then 'timeout'
    when _pgwhen.is_final(retry_state.error) then 'non_retryable'
    when coalesce(
        retry_state.policy -> 'nonRetryableErrorTypes' ? (retry_state.error ->> 'type'), false
    ) then 'non_retryable'
    when (retry_state.policy -> 'maximumAttempts')::integer between 1 and retry_state.attempt
        then 'maximum_attempts_reached'
end;
$$;

-- The failure's own word: never to be tried again; and certainly not delivered, unless it says that
-- nobody can know.
create or replace function _pgwhen.is_final(error jsonb)
returns boolean
language sql
immutable
as $$
select coalesce(is_final.error -> 'nonRetryable' = 'true', false);
$$;

create or replace function _pgwhen.is_undelivered(error jsonb)
returns boolean
language sql
immutable
as $$
select _pgwhen.is_final(is_undelivered.error)
    and is_undelivered.error -> 'outcomeUnknown' is distinct from 'true';
$$;

-- Whether the attempt may have carried it out: so says the failure, or it ran out of its time.
create or replace function _pgwhen.is_outcome_unknown(error jsonb)
returns boolean
language sql
immutable
as $$
select case is_outcome_unknown.error -> 'outcomeUnknown'
    when 'true' then true
    when 'false' then false
    else _pgwhen.is_timeout(is_outcome_unknown.error)
end;
$$;

-- Until the next attempt: what the error asks for, which maximumInterval does not shorten, or the
-- policy's interval.
create or replace function _pgwhen.retry_wait(policy jsonb, error jsonb, attempt integer)
returns interval
language sql
immutable
as $$
select pg_catalog.make_interval(secs => case
    when pg_catalog.jsonb_typeof(retry_wait.error -> 'nextRetryDelay') = 'number'
        and (retry_wait.error -> 'nextRetryDelay')::numeric >= 0
        then pg_catalog.round(
            least((retry_wait.error -> 'nextRetryDelay')::numeric, 315360000), 6
        )::float8
    else _pgwhen.backoff(
        (retry_wait.policy -> 'initialInterval')::float8,
        (retry_wait.policy -> 'backoffCoefficient')::float8,
        coalesce(
            (retry_wait.policy -> 'maximumInterval')::float8,
            least(100 * (retry_wait.policy -> 'initialInterval')::float8, 315360000)
        ),
        retry_wait.attempt
    )
end);
$$;

-- Seconds between the failed attempt of this number and the next one: initial_interval *
-- backoff_coefficient ^ (failed_attempts - 1), maximum_interval at most; no jitter. The power is
-- taken no further than maximum_interval asks for, so that it cannot overflow.
create or replace function _pgwhen.backoff(
    initial_interval float8,
    backoff_coefficient float8,
    maximum_interval float8,
    failed_attempts integer
)
returns float8
language sql
immutable
as $$
select case
    when backoff.initial_interval = 0 then 0
    else least(
        backoff.maximum_interval,
        backoff.initial_interval * pg_catalog.power(
            backoff.backoff_coefficient,
            least(
                backoff.failed_attempts - 1,
                case when backoff.backoff_coefficient > 1 then 1 + greatest(
                    0,
                    pg_catalog.ceil(
                        pg_catalog.ln(backoff.maximum_interval / backoff.initial_interval)
                        / pg_catalog.ln(backoff.backoff_coefficient)
                    )
                ) else 0 end
            )
        )
    )
end;
$$;
