-- _pgwhen.retry_policy_faults: what a retry policy may say, wherever it stands.
begin;
\ir ../helpers.psql
select plan(76);

create function t.faults(policy jsonb) returns text[] language sql as $$
select array(
    select f.code || ' ' || f.path || ': ' || f.message
    from unnest(_pgwhen.retry_policy_faults(faults.policy, 'p', 'PW006')) as f
    where f.hint <> ''
);
$$;

select is(t.faults(good.policy), '{}', 'takes ' || coalesce(good.policy::text, 'none'))
from (values
    (null::jsonb),
    ('{}'),
    ('{"initialInterval": 0.001, "backoffCoefficient": 1, "maximumInterval": 0.001}'),
    ('{"initialInterval": 315360000, "backoffCoefficient": 1e10}'),
    ('{"initialInterval": "1 hour", "maximumInterval": 3600}'),
    ('{"initialInterval": "00:00:01", "maximumInterval": "1 month"}'),
    ('{"maximumInterval": "PT5M"}'),
    ('{"maximumAttempts": 0}'),
    ('{"maximumAttempts": 1}'),
    ('{"maximumAttempts": 5.0}'),
    ('{"maximumAttempts": 1000000}'),
    ('{"nonRetryableErrorTypes": []}'),
    ('{"nonRetryableErrorTypes": ["BankRejected", "23505", "ไม่ได้"]}')
) as good (policy);

select is(
    t.faults(bad.policy), array['PW006 p' || bad.fault], 'refuses ' || bad.policy::text
)
from (values
    ('null'::jsonb, ': must be an object, got null'),
    ('[]', ': must be an object, got []'),
    ('5', ': must be an object, got 5'),
    ('"twice"', ': must be an object, got "twice"'),
    ('{"attempts": 3}', '.attempts: is not a key that is known here'),
    ('{"maximumattempts": 3}', '.maximumattempts: is not a key that is known here'),
    ('{"initialInterval": null}', '.initialInterval: must be a number or a string, got null'),
    ('{"initialInterval": true}', '.initialInterval: must be a number or a string, got true'),
    ('{"initialInterval": {}}', '.initialInterval: must be a number or a string, got {}'),
    ('{"initialInterval": 0}', '.initialInterval: must be at least 0.001, got 0'),
    ('{"initialInterval": -1}', '.initialInterval: must be at least 0.001, got -1'),
    ('{"initialInterval": 1e-400}', '.initialInterval: must be at least 0.001, got 0.'
        || repeat('0', 55) || '...'),
    ('{"initialInterval": 315360001}',
        '.initialInterval: must be at most 315360000, got 315360001'),
    ('{"initialInterval": 1e300}', '.initialInterval: must be at most 315360000, got 1'
        || repeat('0', 56) || '...'),
    ('{"initialInterval": ""}',
        '.initialInterval: is no interval from a millisecond to ten years, got ""'),
    ('{"initialInterval": "soon"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "soon"'),
    ('{"initialInterval": "0 seconds"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "0 seconds"'),
    ('{"initialInterval": "-5 seconds"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "-5 seconds"'),
    ('{"initialInterval": "1 day -2 days"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "1 day -2 days"'),
    ('{"initialInterval": "1 microsecond"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "1 microsecond"'),
    ('{"initialInterval": "11 years"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "11 years"'),
    ('{"initialInterval": "infinity"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "infinity"'),
    ('{"initialInterval": "NaN"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "NaN"'),
    ('{"initialInterval": "1e999 years"}',
        '.initialInterval: is no interval from a millisecond to ten years, got "1e999 years"'),
    ('{"maximumInterval": 0}', '.maximumInterval: must be at least 0.001, got 0'),
    ('{"maximumInterval": null}', '.maximumInterval: must be a number or a string, got null'),
    ('{"maximumInterval": "never"}',
        '.maximumInterval: is no interval from a millisecond to ten years, got "never"'),
    ('{"initialInterval": 10, "maximumInterval": 9.999}',
        '.maximumInterval: is shorter than initialInterval, 10'),
    ('{"initialInterval": "1 hour", "maximumInterval": "59 minutes"}',
        '.maximumInterval: is shorter than initialInterval, "1 hour"'),
    ('{"backoffCoefficient": null}', '.backoffCoefficient: must be a number, got null'),
    ('{"backoffCoefficient": "2"}', '.backoffCoefficient: must be a number, got "2"'),
    ('{"backoffCoefficient": 0.999}', '.backoffCoefficient: must be at least 1, got 0.999'),
    ('{"backoffCoefficient": 0}', '.backoffCoefficient: must be at least 1, got 0'),
    ('{"backoffCoefficient": -2}', '.backoffCoefficient: must be at least 1, got -2'),
    ('{"backoffCoefficient": 1e11}',
        '.backoffCoefficient: must be at most 10000000000, got 100000000000'),
    ('{"maximumAttempts": null}', '.maximumAttempts: must be an integer, got null'),
    ('{"maximumAttempts": "3"}', '.maximumAttempts: must be an integer, got "3"'),
    ('{"maximumAttempts": 2.5}', '.maximumAttempts: must be an integer, got 2.5'),
    ('{"maximumAttempts": -1}', '.maximumAttempts: must be at least 0, got -1'),
    ('{"maximumAttempts": 1000001}', '.maximumAttempts: must be at most 1000000, got 1000001'),
    ('{"nonRetryableErrorTypes": null}',
        '.nonRetryableErrorTypes: must be an array, got null'),
    ('{"nonRetryableErrorTypes": "Busy"}',
        '.nonRetryableErrorTypes: must be an array, got "Busy"'),
    ('{"nonRetryableErrorTypes": ["Busy", null]}',
        '.nonRetryableErrorTypes[1]: must be a string, got null'),
    ('{"nonRetryableErrorTypes": [5]}', '.nonRetryableErrorTypes[0]: must be a string, got 5'),
    ('{"nonRetryableErrorTypes": [""]}', '.nonRetryableErrorTypes[0]: must not be empty')
) as bad (policy, fault);
select is(
    t.faults(jsonb_build_object(
        'nonRetryableErrorTypes', array(select n::text from generate_series(1, 101) as n)
    )),
    array['PW006 p.nonRetryableErrorTypes: must have at most 100 elements, has 101'],
    'refuses more types than anybody reads'
);

-- Any value in any place: a fault or a policy, never an error.
select lives_ok(
    $q$
    select count(_pgwhen.compiled_retry_policy(p.policy))
    from (
        select jsonb_build_object(k.key, v.value) as policy
        from unnest(array['initialInterval', 'backoffCoefficient', 'maximumInterval',
            'maximumAttempts', 'nonRetryableErrorTypes']) as k (key)
        cross join unnest(array['null', 'true', '{}', '[]', '[[]]', '1e400', '-1e400', '1e-400',
            '""', '"1 year 2"', '"P"', '"9223372036854775807"', '"\u0001"']::jsonb[]) as v (value)
    ) as p
    where _pgwhen.retry_policy_faults(p.policy, 'p', 'PW006') = '{}'
    $q$,
    'has a fault for whatever it cannot take'
);

-- As the engine keeps it ---------------------------------------------------------------------

select is(
    _pgwhen.compiled_retry_policy(c.policy), c.compiled,
    'compiles ' || coalesce(c.policy::text, 'none')
)
from (values
    (null::jsonb, null::jsonb),
    ('{}', null),
    ('{"maximumAttempts": 0}', '{"maximumAttempts": 0}'),
    ('{"initialInterval": "1 minute", "maximumInterval": "1 day 00:00:00.5"}',
        '{"initialInterval": 60, "maximumInterval": 86400.5}'),
    ('{"initialInterval": 2.0000004, "backoffCoefficient": 1.5, "nonRetryableErrorTypes": ["A"]}',
        '{"initialInterval": 2, "backoffCoefficient": 1.5, "nonRetryableErrorTypes": ["A"]}')
) as c (policy, compiled);
set local intervalstyle = 'sql_standard';
select is(
    _pgwhen.span_seconds('"-1 day 26 hours"'), 7200::numeric,
    'reads an interval alike in every style'
);
reset intervalstyle;

-- Where it stands ----------------------------------------------------------------------------

create function t.paths(action_config jsonb) returns text[] language sql as $$
select array(
    select f.code || ' ' || f.path
    from pgwhen.validate_rule(jsonb_build_object(
        'name', 'r', 'source_type', 'ordered', 'action_type', 'log_message',
        'action_config', paths.action_config
    )) as f
);
$$;
select is(t.paths(r.config), r.paths, 'a rule with ' || r.config::text)
from (values
    ('{"text": "x", "retryPolicy": {"maximumAttempts": 3}}'::jsonb, '{}'::text[]),
    ('{"text": "x", "retryPolicy": {"maximumAttempts": -3}}',
        '{PW006 action_config.retryPolicy.maximumAttempts}'),
    ('{"text": "x", "retryPolicy": null}', '{PW006 action_config.retryPolicy}'),
    ('{"retryPolicy": {"maximumAttempts": -3}}',
        '{PW006 action_config.retryPolicy.maximumAttempts,PW003 action_config.text}'),
    ('{"text": "x", "delay": {"waitForTracking": true, "expiresSeconds": 5, "onExpire":
        {"actionType": "log_message", "actionConfig": {"text": "y", "retryPolicy": {"a": 1}}}}}',
        '{PW006 action_config.delay.onExpire.actionConfig.retryPolicy.a}')
) as r (config, paths);
select throws_ok(
    $$
    select t.a_rule(
        'r', action_config => '{"text": "x", "retryPolicy": {"maximumAttempts": 0.5}}'
    )
    $$,
    'PW006', 'action_config.retryPolicy.maximumAttempts: must be an integer, got 0.5',
    'a rule with a bad one is not saved'
);
select throws_ok(
    $$ select pgwhen.schedule_action('log_message', 'U1', '{"text": "x", "retryPolicy": []}') $$,
    'PW006', 'action_config.retryPolicy: must be an object, got []', 'nor an action scheduled'
);
select throws_ok(
    $$
    select pgwhen.register_action('x', options => '{"retryPolicy": {"initialInterval": "x"}}')
    $$,
    'PW014',
    'options.retryPolicy.initialInterval: is no interval from a millisecond to ten years, got "x"',
    'nor a type registered'
);
select lives_ok(
    $$
    select pgwhen.register_action(
        'x', options => '{"retryPolicy": {"initialInterval": "1 hour"}}'
    )
    $$,
    'a type with a good one is'
);
select results_eq(
    $$ select t.options from _pgwhen.action_type as t where t.name = 'x' $$,
    $$ values ('{"retryPolicy": {"initialInterval": 3600}}'::jsonb) $$, 'and keeps it in seconds'
);

select finish();
rollback;
