-- The retry policy that a new action of the rule would have, where it is not the settings' alone.
create or replace function _pgwhen.explain_retry(rule pgwhen.trigger_rule)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'retry',
    'note',
    pg_catalog.format(
        '%s attempts; %s seconds until the second, then %s times as long each time%s',
        case p.policy -> 'maximumAttempts' when '0' then 'any number of'
            else p.policy ->> 'maximumAttempts' end,
        p.policy ->> 'initialInterval', p.policy ->> 'backoffCoefficient',
        coalesce(', ' || (p.policy ->> 'maximumInterval') || ' at most', '')
    ),
    p.policy
from (
    select
        t.options -> 'retryPolicy' as of_type,
        _pgwhen.compiled_retry_policy(
            (explain_retry.rule).action_config -> 'retryPolicy'
        ) as of_rule
    from (values (1)) as one
    left join _pgwhen.action_type as t on t.name = (explain_retry.rule).action_type
) as s
cross join lateral (
    select _pgwhen.retry_policy_in_force(
        _pgwhen.default_retry_policy(), s.of_type, s.of_rule
    )
) as p (policy)
where s.of_type is not null or s.of_rule is not null;
$$;
