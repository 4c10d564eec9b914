-- pgwhen.run_action_now: a pending action is due, and a listener told.
begin;
\ir ../helpers.psql
select plan(9);

select t.it_is('2030-01-07 12:00+00');
select t.an_action('2030-01-08 12:00+00') as action \gset
select is(pgwhen.run_action_now(:action), :action::bigint, 'returns the id');
select is(
    (select a.execute_at from pgwhen.scheduled_action as a), '2030-01-07 12:00+00'::timestamptz,
    'makes it due'
);
select throws_ok('select pgwhen.run_action_now(0)', 'PW601', null, 'refuses what is not there');
select pgwhen.pause('the gateway is down');
select pgwhen.run_action_now(:action);
select is_empty($$ select pgwhen.claim_actions('w-1') $$, 'does not lift a pause');
select pgwhen.cancel_action(:action);
select throws_ok(
    format('select pgwhen.run_action_now(%s)', :action), 'PW602', null, 'refuses what has ended'
);

-- Waits ---------------------------------------------------------------------------------------

select pgwhen.resume();
select
    t.a_waiting_rule('chase') as chase,
    t.a_waiting_rule('offer', '{"after": "send"}', 'add_to_audience', '{"audience": "x"}') as offer
\gset
select pgwhen.emit('ordered', 'W1');
select t.process();
select is(t.states(:chase) || t.states(:offer), '{waiting,waiting}', 'two wait for clicks');
select pgwhen.run_action_now(a.id)
from pgwhen.scheduled_action as a
where a.trigger_rule_id = :chase;
select is(t.states(:chase), '{pending}', 'ends a wait');
select is(
    (select array_agg(c.rule) from pgwhen.claim_actions('w-1', 10, '{log_message}') as c),
    array[:chase]::bigint[], 'so that the action can be claimed'
);
select throws_like(
    format(
        'select pgwhen.run_action_now(a.id) from pgwhen.scheduled_action as a'
        ' where a.trigger_rule_id = %s', :offer
    ),
    'action % cannot be run now: it waits for a click, until 2030-01-07T13:00:00Z',
    'but does not execute again what has been'
);

select finish();
rollback;
