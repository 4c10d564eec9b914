-- pgwhen.due, pgwhen.failed_actions: actions by their state.
begin;
\ir ../helpers.psql
select plan(4);

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
            '2030-01-07 12:00+00'::timestamptz, 2, null::text
        )
        $$, :due
    ),
    'due has what nobody has claimed yet'
);
select c.token from pgwhen.claim_actions('w-1') as c \gset
select is_empty('table pgwhen.due', 'and not what somebody has');
select is_empty('table pgwhen.failed_actions', 'failed_actions is empty where nothing has failed');
select pgwhen.fail_actions(
    'w-1',
    array[:due],
    array[:'token'::uuid],
    array['{"message": "no", "nonRetryable": true}'::jsonb]
);
select results_eq(
    'table pgwhen.failed_actions',
    format(
        $$
        values (
            %s::bigint, 'r', 'default', 'U1', 'log_message', '{"text": "hello"}'::jsonb, 3, 'no',
            '2030-01-07 12:00+00'::timestamptz
        )
        $$, :due
    ),
    'failed_actions has what ended so, with its attempts and its last error'
);

select finish();
rollback;
