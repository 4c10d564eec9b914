-- _pgwhen.retry_verdicts: what follows a failed attempt, by the policy in force.
begin;
\ir ../helpers.psql
select plan(60);

-- The interval ---------------------------------------------------------------------------------

select is(
    array(
        select _pgwhen.backoff(i.initial_interval, i.coefficient, i.maximum, n)
        from unnest(i.attempts) with ordinality as a (n, at)
        order by a.at
    ),
    i.seconds, format('backoff: %s', i.title)
)
from (values
    (10::float8, 2::float8, 1000::float8, '{1,2,3,7,8,9}'::integer[],
        '{10,20,40,640,1000,1000}'::float8[], 'doubles up to the maximum'),
    (3, 1, 100, '{1,2,1000000}', '{3,3,3}', 'stays the same with a coefficient of 1'),
    (1, 1.5, 100, '{1,2,3}', '{1,1.5,2.25}', 'takes fractions'),
    (5, 2, 5, '{1,2,3}', '{5,5,5}', 'goes no further than the maximum'),
    (5, 2, 2, '{1,2,3}', '{2,2,2}', 'not even with a longer first interval'),
    (1, 2, 8, '{3,4,5}', '{4,8,8}', 'reaches a maximum that is a power'),
    (1, 1e10, 315360000, '{1,2,1000000}', '{1,315360000,315360000}', 'does not overflow'),
    (0.001, 1.0000000000000002, 315360000, '{1,2147483647}', '{0.001,0.0010000004768372715}',
        'nor with the least coefficient'),
    (315360000, 1e10, 315360000, '{2147483647}', '{315360000}', 'nor with all at their limits'),
    (0, 2, 0, '{1,2,50}', '{0,0,0}', 'is nothing where the first is nothing')
) as i (initial_interval, coefficient, maximum, attempts, seconds, title);

-- The decision ---------------------------------------------------------------------------------

select is(
    _pgwhen.retry_state(d.policy, d.error, d.attempt), d.state,
    format('after attempt %s with %s and %s: %s', d.attempt, d.policy, d.error, d.state)
)
from (values
    ('{"maximumAttempts": 4}'::jsonb, '{"type": "Busy"}'::jsonb, 1, null),
    ('{"maximumAttempts": 4}', '{"type": "Busy"}', 3, null),
    ('{"maximumAttempts": 4}', '{"type": "Busy"}', 4, 'maximum_attempts_reached'),
    ('{"maximumAttempts": 4}', '{"type": "Busy"}', 5, 'maximum_attempts_reached'),
    ('{"maximumAttempts": 1}', '{}', 1, 'maximum_attempts_reached'),
    ('{"maximumAttempts": 0}', '{}', 2147483647, null),
    ('{"maximumAttempts": 4}', '{"nonRetryable": true}', 1, 'non_retryable'),
    ('{"maximumAttempts": 1}', '{"nonRetryable": true}', 1, 'non_retryable'),
    ('{"maximumAttempts": 4}', '{"nonRetryable": false}', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["A", "B"]}', '{"type": "B"}', 1,
        'non_retryable'),
    ('{"maximumAttempts": 1, "nonRetryableErrorTypes": ["B"]}', '{"type": "B"}', 1,
        'non_retryable'),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', '{"type": "b"}', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', '{"type": "B "}', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', '{"type": "shop.B"}', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', '{"message": "B"}', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', '{"type": ["B"]}', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', '"B"', 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": ["B"]}', null, 1, null),
    ('{"maximumAttempts": 0, "nonRetryableErrorTypes": []}', '{"type": "B"}', 1, null)
) as d (policy, error, attempt, state);

-- What is waited for -----------------------------------------------------------------------------

select is(
    _pgwhen.retry_wait(
        '{"initialInterval": 10, "backoffCoefficient": 2}'::jsonb || w.policy, w.error, w.attempt
    ),
    w.wait::interval, format('waits %s: %s', w.wait, w.title)
)
from (values
    ('{}'::jsonb, '{}'::jsonb, 2, '20 seconds', 'the interval of the policy'),
    ('{}', '{}', 1000, '1000 seconds', 'a hundred times the first, without a maximum'),
    ('{"initialInterval": 315360000}', '{}', 2, '315360000 seconds', 'ten years at most'),
    ('{"maximumInterval": 15}', '{}', 2, '15 seconds', 'its maximum'),
    ('{"maximumInterval": 15}', '{"nextRetryDelay": 90}', 2, '90 seconds',
        'what the error asks for, whatever the maximum'),
    ('{}', '{"nextRetryDelay": 0}', 2, '0', 'not at all, if the error says so'),
    ('{}', '{"nextRetryDelay": 1e-400}', 2, '0', 'nor for less than can be told'),
    ('{}', '{"nextRetryDelay": 1e400}', 2, '315360000 seconds', 'ten years, if it asks for more'),
    ('{}', '{"nextRetryDelay": -1}', 2, '20 seconds', 'the interval, for one that is negative'),
    ('{}', '{"nextRetryDelay": "90"}', 2, '20 seconds', 'the interval, for one that is text')
) as w (policy, error, attempt, wait, title);

-- From the rule to the end ---------------------------------------------------------------------

create function t.fail(error jsonb) returns text language plpgsql as $$
declare
    v_claim pgwhen.claimed_action;
begin
    perform t.it_is((select min(a.execute_at) from pgwhen.scheduled_action as a
        where a.status = 'pending' and not a.waiting));
    select * into v_claim from pgwhen.claim_actions('w-1');
    perform pgwhen.fail_actions('w-1', array[v_claim.id], array[v_claim.token], array[fail.error]);
    return (
        select concat_ws(
            ' | ', a.status, a.retry_count, a.execute_at - a.updated_at, a.retry_state
        )
        from pgwhen.scheduled_action as a
        where a.id = v_claim.id
    );
end;
$$;

select t.it_is('2030-01-07 12:00+00');
select pgwhen.register_action(
    'charge', options => '{"retryPolicy": {
        "initialInterval": "1 minute", "maximumAttempts": 2, "nonRetryableErrorTypes": ["Rejected"]
    }}'
);
select t.a_rule('plain', action_type => 'charge', action_config => '{"amount": 1}') as plain \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select results_eq(
    'select a.action_config, a.retry_policy from pgwhen.scheduled_action as a',
    $$ values ('{"amount": 1}'::jsonb, null::jsonb) $$,
    'an action whose rule has no policy of its own keeps none'
);
select is(t.fail('{"type": "Busy"}'), 'pending | 1 | 00:01:00', 'and follows the one of its type');
select is(
    t.fail('{"type": "Busy"}'), 'failed | 2 | 00:00:00 | maximum_attempts_reached',
    'to its end, and says why'
);

update pgwhen.trigger_rule
set action_config = action_config || '{"retryPolicy": {"initialInterval": "5 seconds"}}'
where id = :plain;
truncate pgwhen.scheduled_action;
select pgwhen.emit('ordered', 'U1');
select t.process();
select results_eq(
    'select a.action_config, a.retry_policy from pgwhen.scheduled_action as a',
    $$ values ('{"amount": 1}'::jsonb, '{"initialInterval": 5}'::jsonb) $$,
    'a policy of the rule is frozen with the action, beside its config'
);
update pgwhen.trigger_rule set action_config = '{"amount": 2}' where id = :plain;
select is(
    t.fail('{"type": "Busy"}'), 'pending | 1 | 00:00:05',
    'and holds for it whatever becomes of the rule'
);
select pgwhen.register_action('charge', options => '{"retryPolicy": {"maximumAttempts": 3}}');
select is(
    t.fail('{"type": "Rejected"}'), 'pending | 2 | 00:00:10',
    'what it does not say, its type says when the attempt fails'
);
select is(
    t.fail('{"type": "Busy"}'), 'failed | 3 | 00:00:00 | maximum_attempts_reached', 'key by key'
);
select pgwhen.retry_action(a.id) from pgwhen.scheduled_action as a;
select results_eq(
    'select a.status, a.retry_policy, a.retry_state from pgwhen.scheduled_action as a',
    $$ values ('pending', '{"initialInterval": 5}'::jsonb, null::text) $$,
    'tried again by hand, it has its policy and no end'
);
select is(t.fail('{"type": "Busy"}'), 'pending | 1 | 00:00:05', 'and all its attempts');

-- An action that is scheduled, and what follows a wait.
truncate pgwhen.scheduled_action;
select pgwhen.schedule_action(
    'charge', 'U1',
    '{"amount": 1, "retryPolicy": {"nonRetryableErrorTypes": ["Timeout:StartToClose"]}}'
) as scheduled \gset
select results_eq(
    'select a.action_config, a.retry_policy from pgwhen.scheduled_action as a',
    $$ values (
        '{"amount": 1}'::jsonb, '{"nonRetryableErrorTypes": ["Timeout:StartToClose"]}'::jsonb
    ) $$,
    'an action without a rule may have a policy'
);
select count(*) from pgwhen.claim_actions('w-1');
select t.it_is(_pgwhen.clock() + interval '1 hour');
select pgwhen.recover_stale_actions();
select results_eq(
    'select a.status, a.retry_state, a.error_message from pgwhen.scheduled_action as a',
    $$ values (
        'failed', 'non_retryable',
        'Timeout:StartToClose: attempt 1 by w-1 passed its deadline'
    ) $$,
    'a lost attempt is not retried where its type is listed'
);

truncate pgwhen.scheduled_action;
select t.a_waiting_rule(
    'wait', '{"onExpire": {"actionType": "charge", "actionConfig": {
        "amount": 1, "retryPolicy": {"initialInterval": "7 seconds"}
    }}}'
) as waits \gset
select pgwhen.emit('ordered', 'U2');
update pgwhen.trigger_rule set enabled = false where id = :plain;
select t.process();
select t.it_is(_pgwhen.clock() + interval '2 hours');
select pgwhen.expire_actions();
select results_eq(
    $$
    select a.action_config, a.retry_policy
    from pgwhen.scheduled_action as a
    where a.parent_id is not null
    $$,
    $$ values ('{"amount": 1}'::jsonb, '{"initialInterval": 7}'::jsonb) $$,
    'what follows a wait has the policy of its own config'
);

-- A cancellation that was asked for comes first.
create function t.cancelled_and_failed(error jsonb) returns text language plpgsql as $$
declare
    v_claim pgwhen.claimed_action;
begin
    truncate pgwhen.scheduled_action;
    perform t.an_action(action_type => 'charge');
    select * into v_claim from pgwhen.claim_actions('w-1');
    perform pgwhen.cancel_action(v_claim.id, 'withdrawn');
    perform pgwhen.fail_actions(
        'w-1', array[v_claim.id], array[v_claim.token], array[cancelled_and_failed.error]
    );
    return (
        select concat_ws(' | ', a.status, a.retry_count, a.retry_state)
        from pgwhen.scheduled_action as a
    );
end;
$$;
select is(
    t.cancelled_and_failed('{"type": "Busy"}'), 'failed | 1 | cancel_requested',
    'who asked to cancel gets no other attempt'
);
select is(
    t.cancelled_and_failed('{"type": "Busy", "nonRetryable": true}'),
    'failed | 1 | cancel_requested', 'which is the first of the reasons'
);

truncate pgwhen.scheduled_action;
select t.an_action(action_type => 'charge');
update pgwhen.scheduled_action set retry_policy = '{"initialInterval": "2 minutes"}';
select is(
    t.fail('{"type": "Cancelled", "cancelled": true}'), 'pending | 1 | 00:02:00',
    'a worker that gives way unasked has failed as any other'
);

-- The slot of the frequency.
create function t.slots_after(error jsonb) returns bigint language plpgsql as $$
declare
    v_rule bigint;
begin
    truncate pgwhen.scheduled_action;
    delete from pgwhen.trigger_rule;
    v_rule := t.a_rule(
        'slot', 'paid', frequency => 'once', action_type => 'charge',
        action_config => '{"retryPolicy": {"nonRetryableErrorTypes": ["Rejected"]}}'
    );
    perform pgwhen.emit('paid', 'U1');
    perform t.process();
    perform t.fail(slots_after.error);
    return (
        select count(*) from _pgwhen.reservation as r where r.trigger_rule_id = v_rule
    );
end;
$$;
select is(
    t.slots_after('{"type": "Rejected", "nonRetryable": true}'), 0::bigint,
    'an error that calls itself non-retryable gives the slot back'
);
select is(
    t.slots_after('{"type": "Rejected"}'), 1::bigint,
    'one whose type is listed does not: it may have been delivered'
);

-- By hand.
truncate pgwhen.scheduled_action;
select t.an_action(action_type => 'charge');
update pgwhen.scheduled_action set retry_policy = '{"initialInterval": "2 minutes"}';
select is(
    t.fail('{"type": "Busy"}'), 'pending | 1 | 00:02:00', 'follows what people write into the row'
);
select throws_ok(u.statement, u.code, u.message, 'refuses ' || u.statement)
from (values
    (
        $$ update pgwhen.scheduled_action set retry_policy = '{"maximumAttempts": -1}' $$, 'PW006',
        'retry_policy.maximumAttempts: must be at least 0, got -1'
    ),
    (
        $$ update pgwhen.scheduled_action set action_config = '{"retryPolicy": {}}' $$, 'PW006',
        'action_config.retryPolicy: cannot stand here'
    ),
    (
        $$ update pgwhen.scheduled_action set retry_state = 'non_retryable' $$, 'PW604', null
    )
) as u (statement, code, message);

select finish();
rollback;
