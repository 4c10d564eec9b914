-- _pgwhen.settle: the one way in which an action ends, and the one writer of trigger_log.
begin;
\ir ../helpers.psql
select plan(16);

select t.it_is('2030-01-07 12:00+00');

-- Nothing else in the two schemas writes trigger_log, or ends an action.
select set_eq(
    $$
    select p.proname::text
    from pg_proc as p
    where
        p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        and p.prosrc ~* 'insert\s+into\s+pgwhen\.trigger_log'
    $$,
    array['settle'], 'is the one writer of trigger_log'
);
select set_eq(
    $$
    select p.proname::text
    from pg_proc as p
    where
        p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        and p.prosrc ~* 'update\s+pgwhen\.scheduled_action'
    $$,
    array[
        'settle', 'alive', 'beat_first', 'bring_back', 'keep_last_details', 'stood_still',
        'claim_actions', 'release_actions', 'try_again', 'put_off', 'click_waits',
        'log_late_clicks', 'recover_later', 'cancel_action', 'retry_action', 'put_at', 'sift',
        'resume', 'put_off_batches'
    ],
    'others only move actions between waiting, pending and processing'
);
select set_eq(
    $$
    select p.proname::text
    from pg_proc as p
    where
        p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        and p.prosrc ~* 'insert\s+into\s+pgwhen\.scheduled_action'
    $$,
    array['write_actions'], 'and dispatch alone makes them'
);

select t.a_rule('r', frequency => 'once') as rule \gset
select pgwhen.emit('ordered', 'U1', key => 'web', at => '2030-01-06 12:00+00') as event \gset
select t.process();
select a.id as action from pgwhen.scheduled_action as a \gset
create function t.settle(status text, token uuid default null) returns bigint[] language sql as $$
select array(
    select s
    from pgwhen.scheduled_action as a
    cross join lateral _pgwhen.settle(array[
        _pgwhen.ending_of_action(
            a.id, settle.token, settle.status, 'why', '{"r": 1}', settle.status = 'cancelled'
        )
    ]) as s
);
$$;

select
    is(t.settle('success', gen_random_uuid()), '{}', 'ends no pending action for who has a token');
select is(t.settle('success'), '{}', 'nor as done where nobody did it');
select is(t.settle('expired'), '{}', 'nor as expired where it does not wait');
select is(t.settle('cancelled'), array[:action]::bigint[], 'ends a pending action, and says which');
select results_eq(
    $$ select a.status, a.executed_at, a.error_message, a.result, a.updated_at, a.retry_count
        from pgwhen.scheduled_action as a $$,
    $$ values ('cancelled', null::timestamptz, 'why', '{"r": 1}'::jsonb,
        '2030-01-07 12:00+00'::timestamptz, 0) $$,
    'a cancelled action was never executed'
);
select results_eq(
    $$
    select l.trigger_rule_id, l.line_oa_id, l.user_id, l.trigger_on, l.event_id, l.event_at,
        l.action_id,
        l.action_type, l.action_config, l.status, l.error_message, l.created_date
    from pgwhen.trigger_log as l
    $$,
    format(
        $$
        values (
            %s::bigint, 'default', 'U1', 'ordered:web', %s::bigint,
                '2030-01-06 12:00+00'::timestamptz,
            %s::bigint, 'log_message', '{"text": "hello"}'::jsonb, 'cancelled', 'why',
                '2030-01-07 12:00+00'::timestamptz
        )
        $$, :rule, :event, :action
    ),
    'logs what the action was, as it was used'
);
select is_empty('table _pgwhen.reservation', 'gives the slot back where it is told to');
select is(t.settle('success'), '{}', 'ends nothing twice');
select is((select count(*) from pgwhen.trigger_log), 1::bigint, 'and logs nothing twice');

-- Success and failure were executed; a failure counts its attempt.
truncate pgwhen.scheduled_action;
select t.an_action();
select c.token from pgwhen.claim_actions('w-1') as c \gset
select t.settle('failed', :'token');
select results_eq(
    'select a.status, a.executed_at, a.retry_count, a.claim_token, a.deadline
    from pgwhen.scheduled_action as a',
    $$ values ('failed', '2030-01-07 12:00+00'::timestamptz, 1, null::uuid, null::timestamptz) $$,
    'a failed action has had its attempt'
);

-- What never was a row is logged as it says.
delete from pgwhen.trigger_log;
select is_empty(
    $$
    select _pgwhen.settle(array[
        row(
            null, null, 7, 8, 'shop', 'U9', 'asked:x', 9, '2030-01-01 00:00+00', 't', '{"a": 1}',
            'suppressed', 'why', null, gen_random_uuid(), false, null, null
        )::_pgwhen.ending
    ])
    $$,
    'ends no action where there is none'
);
select results_eq(
    $$
    select l.trigger_rule_id, l.audience_id, l.line_oa_id, l.user_id, l.trigger_on, l.event_id,
        l.action_id,
        l.action_type, l.action_config, l.status, l.error_message
    from pgwhen.trigger_log as l
    $$,
    $$
    values (
        7::bigint, 8::bigint, 'shop', 'U9', 'asked:x', 9::bigint, null::bigint, 't',
            '{"a": 1}'::jsonb,
        'suppressed', 'why'
    )
    $$,
    'but logs what was decided'
);
select is_empty($$ select _pgwhen.settle('{}') $$, 'settles nothing of nothing');

select finish();
rollback;
