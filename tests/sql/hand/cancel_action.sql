-- pgwhen.cancel_action: at once where it waits; instead of the next try where it runs.
begin;
\ir ../helpers.psql
select plan(20);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r', frequency => 'once') as rule \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select a.id as action from pgwhen.scheduled_action as a \gset
create view t.state as
select a.status, a.retry_count, a.error_message
from pgwhen.scheduled_action as a
where a.trigger_rule_id is not null
order by a.id desc
limit 1;

select is(pgwhen.cancel_action(:action, 'sent by phone'), :action::bigint, 'returns the id');
select is(
    t.log_of(:rule), array['cancelled: cancelled by ' || session_user || ': sent by phone'],
    'logs who and why'
);
select results_eq(
    'table t.state',
    format(
        $$ values ('cancelled', 0, %L) $$, 'cancelled by ' || session_user || ': sent by phone'
    ),
    'leaves the same in the row'
);
select is_empty(
    'table _pgwhen.reservation', 'gives the slot of what was never tried back'
);
select throws_ok(
    format('select pgwhen.cancel_action(%s)', :action), 'PW602',
    format('action %s cannot be cancelled: it was cancelled at 2030-01-07T12:00:00Z', :action),
    'refuses what has ended'
);
select is(
    t.hint_of(format('select pgwhen.cancel_action(%s)', :action)),
    format('Call pgwhen.retry_action(%s): it is due at once, with the same key.', :action),
    'and says what can be done with it'
);
select throws_ok(
    'select pgwhen.cancel_action(0)', 'PW601', 'there is no action 0', 'refuses what is not there'
);
select throws_ok(
    'select pgwhen.cancel_action(null)', 'PW601', 'there is no action null', 'refuses nothing'
);

-- What has been tried may have arrived.
select pgwhen.emit('ordered', 'U1');
select t.process();
create function t.claim() returns setof pgwhen.claimed_action language sql as $$
select c.* from pgwhen.claim_actions('w-1') as c;
$$;
create function t.fails(error jsonb) returns bigint language sql as $$
select pgwhen.fail_actions('w-1', array[a.id], array[a.claim_token], array[fails.error])
from pgwhen.scheduled_action as a
where a.status = 'processing';
$$;
select count(*) from t.claim();
select t.fails('{"message": "busy"}');
select pgwhen.cancel_action(max(a.id)) from pgwhen.scheduled_action as a;
select results_eq(
    'table t.state',
    format($$ values ('cancelled', 1, 'cancelled by %s; last error: busy') $$, session_user),
    'keeps the last error'
);
select is(
    (select count(*) from _pgwhen.reservation), 1::bigint, 'keeps the slot of what was tried'
);

-- What runs.
delete from _pgwhen.reservation;
select pgwhen.emit('ordered', 'U1');
select t.process();
select count(*) from t.claim();
select a.id as running from pgwhen.scheduled_action as a where a.status = 'processing' \gset
select pgwhen.cancel_action(:running, 'stop');
select results_eq(
    'table t.state', $$ values ('processing', 0, null) $$, 'does not interrupt what runs'
);
savepoint s;
select t.fails('{"message": "busy"}');
select results_eq(
    'table t.state', $$ values ('failed', 1, 'busy') $$, 'which is not tried again where it fails'
);
rollback to s;
select t.fails('{"message": "gave way", "type": "Cancelled", "cancelled": true}');
select results_eq(
    'table t.state',
    format($$ values ('cancelled', 1, 'cancelled by %s: stop') $$, session_user),
    'and cancelled where its worker says that it gave way'
);
select is(
    (select count(*) from _pgwhen.reservation), 1::bigint,
    'which keeps the slot: it may have sent before'
);
rollback to s;
select pgwhen.complete_actions('w-1', array[a.id], array[a.claim_token])
from pgwhen.scheduled_action as a
where a.id = :running;
select results_eq('table t.state', $$ values ('done', 0, null) $$, 'but done where it succeeds');
rollback to s;
select t.fails('{"message": "no", "nonRetryable": true}');
select results_eq(
    'table t.state', $$ values ('failed', 1, 'no') $$, 'or failed where it fails for good'
);
rollback to s;
select pgwhen.release_actions('w-1', array[a.id], array[a.claim_token])
from pgwhen.scheduled_action as a
where a.id = :running;
select results_eq(
    'table t.state',
    format($$ values ('cancelled', 0, 'cancelled by %s: stop') $$, session_user),
    'and not given to anybody where it is given back'
);
select is_empty('table _pgwhen.reservation', 'which gives the slot back, for it was not started');
rollback to s;
select _pgwhen.put_off(_pgwhen.as_claimed(a))
from pgwhen.scheduled_action as a
where a.id = :running;
select is((select s.status from t.state as s), 'cancelled', 'nor where it could not have a lock');
rollback to s;
select t.it_is('2030-01-07 13:00+00');
select pgwhen.recover_stale_actions();
select is(
    (select concat_ws(' ', s.status, left(s.error_message, 8)) from t.state as s),
    'failed Timeout:', 'nor where its worker is lost'
);

select finish();
rollback;
