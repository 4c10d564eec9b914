-- pgwhen.reschedule_action: a pending action's time is changed, and nothing else.
begin;
\ir ../helpers.psql
select plan(12);

select t.it_is('2030-01-07 12:00+00');
select t.an_action('2030-01-08 12:00+00') as action \gset
create table t.before as select * from pgwhen.scheduled_action;

select is(
    pgwhen.reschedule_action(:action, '2030-01-09 12:00+00'), :action::bigint, 'returns the id'
);
select results_eq(
    $$
    select to_jsonb(a) - '{execute_at,updated_at}'::text[], a.execute_at
    from pgwhen.scheduled_action as a
    $$,
    $$
    select to_jsonb(b) - '{execute_at,updated_at}'::text[], timestamptz '2030-01-09 12:00+00'
    from t.before as b
    $$,
    'changes the time and nothing else'
);
select is_empty($$ select pgwhen.claim_actions('w-1') $$, 'before it nobody gets it');
select throws_ok(
    format('select pgwhen.reschedule_action(%s, %L)', :action, 'infinity'), 'PW603',
    'an action cannot be due at infinity', 'refuses never'
);
select throws_ok(
    format('select pgwhen.reschedule_action(%s, null)', :action), 'PW603',
    'an action cannot be due at null', 'refuses no time'
);
select throws_ok(
    format('select pgwhen.reschedule_action(%s, %L)', :action, '10000-01-01 00:00+00'), 'PW603',
    null, 'refuses a year that JSON cannot show'
);
select throws_ok(
    'select pgwhen.reschedule_action(0, now())', 'PW601', null, 'refuses what is not there'
);
select pgwhen.reschedule_action(:action, '2029-01-01 12:00+00');
select is(
    (select array_agg(c.id) from pgwhen.claim_actions('w-1') as c), array[:action]::bigint[],
    'takes the past for now'
);
select throws_ok(
    format('select pgwhen.reschedule_action(%s, now())', :action), 'PW602',
    format(
        'action %s cannot be rescheduled: it is being run by w-1, until 2030-01-07T12:05:00Z at '
        'most', :action
    ), 'refuses what runs, and says who runs it'
);

-- Waits ---------------------------------------------------------------------------------------

select t.a_waiting_rule('chase') as chase \gset
select pgwhen.emit('ordered', 'W1');
select t.process();
select a.id as waits from pgwhen.scheduled_action as a where a.trigger_rule_id = :chase \gset
select pgwhen.reschedule_action(:waits, '2030-01-07 12:30+00');
select results_eq(
    format(
        'select a.waiting, a.execute_at, a.expires_at from pgwhen.scheduled_action as a'
        ' where a.id = %s', :waits
    ),
    $$ values (true, timestamptz '2030-01-07 12:30+00', timestamptz '2030-01-07 12:30+00') $$,
    'moves the end of a wait'
);
update pgwhen.scheduled_action set expires_at = '2030-01-07 12:45+00' where id = :waits;
select is(
    (select a.execute_at from pgwhen.scheduled_action as a where a.id = :waits),
    '2030-01-07 12:45+00', 'as an UPDATE of either column does'
);
update pgwhen.scheduled_action set execute_at = '2029-01-01 12:45+00' where id = :waits;
select is(pgwhen.expire_actions(), 1, 'a time that has passed ends it now');

select finish();
rollback;
