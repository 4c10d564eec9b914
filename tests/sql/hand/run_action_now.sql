-- pgwhen.run_action_now: a pending action is due, and a listener told.
begin;
\ir ../helpers.psql
select plan(5);

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

select finish();
rollback;
