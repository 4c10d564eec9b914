-- pgwhen.retry_action: what has failed or was cancelled is due again, under the same key.
begin;
\ir ../helpers.psql
select plan(14);

select t.it_is('2030-01-07 12:00+00');
insert into pgwhen.setting (name, value) values ('maxRetries', '0');
select t.a_rule('r', frequency => 'once') as rule \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select a.id as action, a.key from pgwhen.scheduled_action as a \gset
create function t.fails() returns bigint language sql as $$
select pgwhen.fail_actions('w-1', array[c.id], array[c.token], array['{"message": "busy"}'::jsonb])
from pgwhen.claim_actions('w-1') as c;
$$;

select throws_ok(
    format('select pgwhen.retry_action(%s)', :action), 'PW602',
    format('action %s cannot be retried: it is pending, due at 2030-01-07T12:00:00Z', :action),
    'refuses what waits'
);
select t.fails();
select t.it_is('2030-01-07 13:00+00');
select is(pgwhen.retry_action(:action, 'it is back'), :action::bigint, 'returns the id');
select results_eq(
    'select a.status, a.execute_at, a.retry_count, a.key from pgwhen.scheduled_action as a',
    format($$ values ('pending', '2030-01-07 13:00+00'::timestamptz, 0, %L::uuid) $$, :'key'),
    'makes it due at once, with its key and all its attempts'
);
select is(
    (select a.error_message from pgwhen.scheduled_action as a),
    format('retried by %s: it is back; before: busy', session_user),
    'notes who did it and why, and the error'
);
select is(
    (select a.executed_at from pgwhen.scheduled_action as a), '2030-01-07 12:00+00'::timestamptz,
    'keeps that it has been tried'
);
select throws_ok(
    format('select pgwhen.retry_action(%s)', :action), 'PW602', null, 'happens once'
);
select is(
    (select array_agg(c.attempt) from pgwhen.claim_actions('w-1') as c), array[1],
    'and a worker gets it'
);
select alike(
    t.hint_of(format('select pgwhen.retry_action(%s)', :action)), 'Wait until it has ended%',
    'refuses what runs'
);
select pgwhen.complete_actions('w-1', array[a.id], array[a.claim_token])
from pgwhen.scheduled_action as a;
select is(
    t.hint_of(format('select pgwhen.retry_action(%s)', :action)),
    'What is done stays done: make a new action.', 'refuses what is done'
);
select throws_ok('select pgwhen.retry_action(0)', 'PW601', null, 'refuses what is not there');

-- A slot that was given back is taken again.
delete from _pgwhen.reservation;
select pgwhen.emit('ordered', 'U2') as event \gset
select t.process();
select a.id as cancelled from pgwhen.scheduled_action as a where a.user_id = 'U2' \gset
select pgwhen.cancel_action(:cancelled);
select is_empty('table _pgwhen.reservation', 'of what was cancelled, the slot is free');
select pgwhen.retry_action(:cancelled);
select results_eq(
    'select r.user_id, r.holder from _pgwhen.reservation as r',
    $$ select 'U2', (a.event ->> 'uuid')::uuid from pgwhen.scheduled_action as a
        where a.user_id = 'U2' $$,
    'and taken again'
);
select pgwhen.cancel_action(:cancelled);
select pgwhen.emit('ordered', 'U2');
select t.process();
select pgwhen.retry_action(:cancelled);
select isnt(
    (select r.holder from _pgwhen.reservation as r),
    (select (a.event ->> 'uuid')::uuid from pgwhen.scheduled_action as a where a.id = :cancelled),
    'but not from who has it meanwhile'
);
select is(
    (
        select count(*)
        from pgwhen.scheduled_action as a where a.user_id = 'U2' and a.status = 'pending'
    ), 2::bigint, 'which makes it one firing more'
);

select finish();
rollback;
