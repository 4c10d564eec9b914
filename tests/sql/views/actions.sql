-- pgwhen.pending, pgwhen.due, pgwhen.running, pgwhen.failed_actions: actions by their state.
begin;
\ir ../helpers.psql
select plan(8);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r') as rule \gset
select t.an_action('2030-01-07 12:00+00', trigger_rule_id => :rule, retry_count => 2) as due \gset
select t.an_action('2030-01-07 12:00:00.001+00');
select results_eq(
    'table pgwhen.due',
    format(
        $$
        values (
            %s::bigint, 'r', 'default', 'U1', 'log_message', '{"text": "hello"}'::jsonb,
            '2030-01-07 12:00+00'::timestamptz, 2, null::text,
            'due, and nobody serves log_message'
        )
        $$, :due
    ),
    'due has what nobody has claimed yet'
);
select c.token from pgwhen.claim_actions('w-1') as c \gset
select is_empty('table pgwhen.due', 'and not what somebody has');
select results_eq(
    'table pgwhen.running',
    format(
        $$
        values (
            %s::bigint, 'r', 'default', 'U1', 'log_message', '{"text": "hello"}'::jsonb, 'w-1', 3,
            '2030-01-07 12:05+00'::timestamptz, null::timestamptz, null::jsonb, null::text,
            null::uuid
        )
        $$, :due
    ),
    'running has it, with its attempt and deadline, before any heartbeat'
);
select pgwhen.heartbeat_actions(
    'w-1', array[:due], array[:'token'::uuid], array['{"done": 7}'::jsonb]
);
select results_eq(
    'select r.beat_at, r.heartbeat_details from pgwhen.running as r',
    $$ values ('2030-01-07 12:00+00'::timestamptz, '{"done": 7}'::jsonb) $$,
    'and how far it is'
);
select is_empty('table pgwhen.failed_actions', 'failed_actions is empty where nothing has failed');
select pgwhen.fail_actions(
    'w-1',
    array[:due],
    array[:'token'::uuid],
    array['{"message": "no", "nonRetryable": true, "details": {"code": 7}}'::jsonb]
);
select results_eq(
    'table pgwhen.failed_actions',
    format(
        $$
        values (
            %1$s::bigint, 'r', 'default', 'U1', 'log_message', '{"text": "hello"}'::jsonb, 3,
            'non_retryable', 'no', '{"code": 7}'::jsonb, '2030-01-07 12:00+00'::timestamptz,
            'select pgwhen.retry_action(%1$s);', null::uuid
        )
        $$, :due
    ),
    'failed_actions has what ended so, with its attempts, its error, why that was the last, and '
    'what tries it again'
);

-- Why something waits.
truncate pgwhen.scheduled_action;
select pgwhen.announce_worker('w-1', '{send_sms}');
select t.an_action('2030-01-07 11:00+00', 'send_sms', user_id => 'next');
select t.an_action('2030-01-07 11:00+00', user_id => 'unserved');
select t.an_action('2030-01-07 13:00+00', user_id => 'delayed');
select t.an_action('2030-01-07 13:00+00', user_id => 'again', retry_count => 1);
select t.an_action(
    '2030-01-07 11:00+00', 'send_sms', user_id => 'paused', trigger_rule_id => :rule
);
select pgwhen.pause('wrong text', rule => :rule);
create view t.why as
select w.user_id, w.why from pgwhen.pending as w;
prepare whys as
values
('next', 'due, and next for a worker'), ('unserved', 'due, and nobody serves log_message'),
('delayed', 'waits for its time'), ('again', 'waits for its next try'),
('paused', 'paused: wrong text');
select bag_eq('table t.why', 'whys', 'waiting says why each action waits');
select c.user_id from pgwhen.claim_actions('w-1', 1, '{send_sms}') as c;
select results_eq(
    $$ select y.why from t.why as y where y.user_id = 'paused' $$,
    $$ values ('paused: wrong text') $$, 'also of one that a claim has met'
);

select finish();
rollback;
