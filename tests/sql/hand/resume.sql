-- pgwhen.resume: the incident switch, off.
begin;
\ir ../helpers.psql
select plan(21);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r', frequency => 'once') as rule \gset
create view t.state as
select a.user_id, a.status from pgwhen.scheduled_action as a order by a.id;

select throws_ok(
    'select pgwhen.resume()', 'PW606', 'everything is not paused', 'refuses where nothing is paused'
);
select is(t.hint_of('select pgwhen.resume()'), 'Nothing is paused.', 'and says so');
select pgwhen.pause('wrong text', 'log_message', 'default', :rule);
select throws_ok(
    format('select pgwhen.resume(rule => %s)', :rule), 'PW606',
    format('rule %s is not paused', :rule), 'refuses another scope than the pause''s'
);
select is(
    t.hint_of(format('select pgwhen.resume(rule => %s)', :rule)),
    format(
        'Pass what the pause was made with. Paused are: action_type log_message, line_oa_id '
        'default, rule %s.', :rule
    ),
    'and says what is paused'
);
select throws_ok(
    $$ select pgwhen.resume(mode => 'later') $$, 'PW606', 'mode cannot be "later"',
    'refuses another mode'
);
select throws_ok(
    $$ select pgwhen.resume(mode => null) $$, 'PW606', 'mode cannot be null', 'and none'
);
select is(
    pgwhen.resume(null, 'log_message', 'default', :rule), 0::bigint, 'skips nothing unless told to'
);

-- Before, meanwhile (met by a claim, and not), and after.
select t.an_action('2030-01-07 11:59+00', user_id => 'before', trigger_rule_id => :rule);
select t.an_action('2030-01-07 12:01+00', user_id => 'held', trigger_rule_id => :rule);
select t.an_action('2030-01-07 14:00+00', user_id => 'after', trigger_rule_id => :rule);
select pgwhen.pause('wrong text', rule => :rule);
select t.it_is('2030-01-07 12:30+00');
select is_empty($$ select pgwhen.claim_actions('w-1') $$, 'what is due is held');
select pgwhen.emit('ordered', 'meanwhile');
select t.process();
select is((select count(*) from _pgwhen.reservation), 1::bigint, 'what an event causes waits');
select t.it_is('2030-01-07 13:00+00');
select t.an_action('2030-01-07 12:59+00', user_id => 'else''s') as elses \gset
select t.an_action('2030-01-07 12:59+00', 'add_to_audience', '{"audience": "a"}', 'other', :rule);
select pgwhen.pause('no audiences', action_type => 'add_to_audience');

savepoint s;
select is(pgwhen.resume(rule => :rule), 0::bigint, 'catch_up skips nothing');
select set_eq(
    $$ select c.user_id from pgwhen.claim_actions('w-1') as c $$,
    array['before', 'held', 'meanwhile', 'else''s'], 'and runs all that is due'
);
rollback to s;

select is(
    pgwhen.resume('too late', rule => :rule, mode => 'skip'), 2::bigint,
    'skip says how many it skipped'
);
select results_eq(
    'table t.state',
    $$
    values
        ('before', 'pending'), ('held', 'cancelled'), ('after', 'pending'),
        ('meanwhile', 'cancelled'), ('else''s', 'pending'), ('other', 'pending')
    $$,
    'skip cancels what became due meanwhile, and not what another pause covers'
);
select is(
    t.log_of(:rule),
    array[
        format('cancelled: skipped by %s: too late', session_user),
        format('cancelled: skipped by %s: too late', session_user)
    ],
    'logs each'
);
select is_empty('table _pgwhen.reservation', 'gives their slots back');
select set_eq(
    $$ select c.user_id from pgwhen.claim_actions('w-1') as c $$, array['before', 'else''s'],
    'what was due before runs'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a
    where a.held_by is not null and a.status = 'pending'), 0::bigint, 'nothing stays held'
);

-- What was cancelled on the shelf does not stay on it when it is retried.
select pgwhen.pause('wrong text', rule => :rule);
select t.an_action(user_id => 'shelved', trigger_rule_id => :rule) as shelved \gset
select is_empty($$ select pgwhen.claim_actions('w-1') $$, 'what is shelved');
select pgwhen.cancel_action(:shelved);
select pgwhen.resume(rule => :rule);
select pgwhen.retry_action(:shelved);
select results_eq(
    $$ select c.user_id from pgwhen.claim_actions('w-1') as c $$, array['shelved'],
    'and cancelled, and retried, is claimed'
);

-- A wait is over when its time is, paused or not; it is not what became due.
truncate pgwhen.scheduled_action;
select t.a_waiting_rule('chase') as chase \gset
select pgwhen.emit('ordered', 'W1');
select t.process();
select t.it_is(_pgwhen.clock() + interval '1 second');
select pgwhen.pause('no messages');
select t.it_is(_pgwhen.clock() + interval '2 hours');
select is(pgwhen.resume(mode => 'skip'), 0::bigint, 'skips no wait');
select is(t.states(:chase), '{waiting}', 'which is left to its expiry');

select finish();
rollback;
