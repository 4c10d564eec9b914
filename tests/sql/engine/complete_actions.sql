-- pgwhen.complete_actions: report claimed actions as done.
begin;
\ir ../helpers.psql
select plan(19);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r') as rule \gset
select t.an_action(trigger_rule_id => :rule) from generate_series(1, 4);
create table t.claim as select c.id, c.token from pgwhen.claim_actions('w-1') as c;
select array_agg(c.id order by c.id) as ids, array_agg(c.token order by c.id) as tokens
from t.claim as c \gset

select t.it_is('2030-01-07 12:03+00');
select is(
    array(
        select pgwhen.complete_actions(
            'w-1',
            (:'ids'::bigint[])[1:2],
            (:'tokens'::uuid[])[1:2],
            array['{"ok": 1}', null]::jsonb[]
        )
    ),
    (:'ids'::bigint[])[1:2], 'returns the ids that it ended'
);
select results_eq(
    $$
    select a.status, a.result, a.executed_at, a.claim_token, a.deadline, a.retry_count,
        a.error_message
    from pgwhen.scheduled_action as a where a.status <> 'processing' order by a.id
    $$,
    $$
    values
        ('done', '{"ok": 1}'::jsonb, '2030-01-07 12:03+00'::timestamptz, null::uuid,
            null::timestamptz, 0, null::text),
        ('done', null, '2030-01-07 12:03+00', null, null, 0, null)
    $$,
    'ends them, with their results'
);
select results_eq(
    $$
    select l.action_id, l.status, l.user_id, l.action_type, l.action_config, l.created_date
    from pgwhen.trigger_log as l order by l.id
    $$,
    format(
        $$
        select a.id, 'success', 'U1', 'log_message', '{"text": "hello"}'::jsonb,
            '2030-01-07 12:03+00'::timestamptz
        from pgwhen.scheduled_action as a where a.id = any(%L) order by a.id
        $$, (:'ids'::bigint[])[1:2]
    ),
    'writes a log row for each'
);

-- Late, foreign, twice.
select is_empty(
    format(
        'select pgwhen.complete_actions(%L, %L, %L)',
        'w-1',
        (:'ids'::bigint[])[1:2],
        (:'tokens'::uuid[])[1:2]
    ),
    'ends nothing twice'
);
select is_empty(
    format(
        'select pgwhen.complete_actions(%L, %L, %L)',
        'w-1',
        (:'ids'::bigint[])[3:3],
        (:'tokens'::uuid[])[4:4]
    ),
    'ends nothing with the token of another action'
);
select is(
    array(
        select pgwhen.complete_actions(
            'w-1', ((:'ids'::bigint[])[3:3] || (:'ids'::bigint[])[3:3]) || 999999999::bigint,
            ((:'tokens'::uuid[])[3:3] || (:'tokens'::uuid[])[3:3]) || gen_random_uuid()
        )
    ),
    (:'ids'::bigint[])[3:3], 'ends once what is named twice, and ignores what does not exist'
);
select is(
    (select count(*) from pgwhen.trigger_log), 3::bigint, 'and logs each once'
);

-- The deadline passes, somebody else has it, and the first worker comes back.
select t.it_is('2030-01-07 12:05:01+00');
select pgwhen.recover_stale_actions();
select t.it_is('2030-01-07 12:05:11+00');
select is_empty(
    format(
        'select pgwhen.complete_actions(%L, %L, %L)',
        'w-1',
        (:'ids'::bigint[])[4:4],
        (:'tokens'::uuid[])[4:4]
    ),
    'ends nothing whose deadline has passed and that was taken back'
);
select c.token as newer from pgwhen.claim_actions('w-2') as c \gset
select is_empty(
    format(
        'select pgwhen.complete_actions(%L, %L, %L)',
        'w-1',
        (:'ids'::bigint[])[4:4],
        (:'tokens'::uuid[])[4:4]
    ),
    'nor what somebody else has claimed since'
);
select is(
    array(select pgwhen.complete_actions('w-2', (:'ids'::bigint[])[4:4], array[:'newer'::uuid])),
    (:'ids'::bigint[])[4:4], 'who can end it'
);

select throws_ok(c.call, c.code, null, c.call || ' is refused')
from (values
    ($$ select pgwhen.complete_actions('w-1', '{1,2}', array[gen_random_uuid()]) $$, 'PW302'),
    ($$ select pgwhen.complete_actions('w-1', '{1}', array[]::uuid[]) $$, 'PW302'),
    ($$ select pgwhen.complete_actions('w-1', '{1}', null) $$, 'PW302'),
    (
        $$
        select pgwhen.complete_actions('w-1', '{1,null}', array_fill(gen_random_uuid(), '{2}'))
        $$,
        'PW302'
    ),
    ($$ select pgwhen.complete_actions('w-1', '{1,2}', array[gen_random_uuid(), null]) $$, 'PW302'),
    ($$ select pgwhen.complete_actions('w-1', '{1}', array[gen_random_uuid()], '{}') $$, 'PW302'),
    ($$ select pgwhen.complete_actions('', '{}', '{}') $$, 'PW301')
) as c (call, code);
select is(
    t.hint_of($$ select pgwhen.complete_actions('w-1', '{1,2}', array[gen_random_uuid()]) $$),
    'Pass arrays of equal length, as claim_actions() gave them.', 'the hint says what to pass'
);
select is_empty($$ select pgwhen.complete_actions('w-1', '{}', '{}') $$, 'ends nothing of nothing');

select finish();
rollback;
