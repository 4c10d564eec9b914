-- _pgwhen.limits and what follows from them: how long an action may wait and run.
begin;
\ir ../helpers.psql
select plan(43);

-- How they go together.
select results_eq(
    format(
        'select _pgwhen.attempt_time(_pgwhen.limits(%L, %L), %L), _pgwhen.time_to_show('
        '_pgwhen.limits(%L, %L), %L)', l.of_type, l.of_action, '5 min', l.of_type, l.of_action,
        '5 min'
    ),
    format('values (%L::interval, %L::interval)', l.runs, l.shows),
    concat_ws(' and ', l.of_type, l.of_action, 'let it run ' || l.runs)
)
from (values
    (null, null, '5 min', '5 min'),
    ('{"startToClose": 30}', null, '30 s', '30 s'),
    ('{"startToClose": 30}', '{"startToClose": 60}', '60 s', '60 s'),
    ('{"startToClose": 30}', '{"heartbeat": 10}', '30 s', '10 s'),
    ('{"startToClose": 30}', '{"heartbeat": 100}', '30 s', '30 s'),
    ('{"startToClose": 30}', '{"scheduleToClose": 20}', '20 s', '20 s'),
    ('{"scheduleToClose": 600}', null, '10 min', '10 min'),
    ('{"scheduleToClose": 600}', '{"scheduleToClose": null}', '5 min', '5 min'),
    ('{"scheduleToClose": 600, "startToClose": 5}', '{"startToClose": null}', '10 min', '10 min')
) as l (of_type, of_action, runs, shows);

-- What is refused.
select results_eq(
    format('select f.path, f.code from unnest(_pgwhen.timeouts_faults(%L, %L, %L, %L)) as f',
        f.timeouts, f.of_type, 'at', 'PW007'),
    format('values (%L, %L)', f.path, 'PW007'),
    'refuses ' || f.timeouts
)
from (values
    ('{"startToClose": -1}', null, 'at.startToClose'),
    ('{"startToClose": 0}', null, 'at.startToClose'),
    ('{"startToClose": "soon"}', null, 'at.startToClose'),
    ('{"startToClose": true}', null, 'at.startToClose'),
    ('{"heartbeat": "infinity"}', null, 'at.heartbeat'),
    ('{"heartbeat": 1e300}', null, 'at.heartbeat'),
    ('{"starttoclose": 5}', null, 'at.starttoclose'),
    ('[]', null, 'at'),
    ('{"startToClose": null}', null, 'at'),
    ('{"startToClose": null}', '{"startToClose": 5}', 'at'),
    ('{"scheduleToClose": null}', '{"scheduleToClose": 5, "startToClose": null}', 'at')
) as f (timeouts, of_type, path);
select is(
    _pgwhen.timeouts_faults('{"startToClose": null}', '{"scheduleToClose": 5}', '', 'PW007'), '{}',
    'where scheduleToClose ends it, startToClose may be taken away'
);
select throws_ok(
    $$ select pgwhen.register_action('x', options => '{"timeouts": {"startToClose": null}}') $$,
    'PW014', null, 'an action type must leave an end too'
);

-- What is written.
select pgwhen.register_action(
    'pay', options => '{"timeouts": {"scheduleToStart": "1 minute", "scheduleToClose": 600}}'
);
create function t.row_of(user_id text) returns text language sql as $$
select concat_ws(
    ' | ', a.status, to_char(a.deadline at time zone 'UTC', 'HH24:MI:SS'),
    to_char(a.close_by at time zone 'UTC', 'HH24:MI:SS'), a.retry_state,
    split_part(a.error_message, ' ', 1)
)
from pgwhen.scheduled_action as a
where a.user_id = row_of.user_id;
$$;
create function t.fails(user_id text, error jsonb default '{"message": "busy"}')
returns void language sql as $$
select pgwhen.fail_actions('w-1', array[c.id], array[c.token], array[fails.error])
from pgwhen.claim_actions('w-1') as c;
$$;
select t.it_is('2030-01-07 12:00+00');
select pgwhen.schedule_action('pay', 'U1');
select pgwhen.schedule_action('pay', 'U2', delay => '{"seconds": 3600}');
select pgwhen.schedule_action('pay', 'U3', '{"timeouts": {"scheduleToStart": null}}');
select is(t.row_of('U1'), 'pending | 12:01:00 | 12:10:00', 'from when it is due');
select is(t.row_of('U2'), 'pending | 13:01:00 | 13:10:00', 'which a delay moves');
select is(t.row_of('U3'), 'pending | 12:10:00', 'null takes away what the type gives');

select t.it_is('2030-01-07 12:01:01+00');
select is(pgwhen.recover_stale_actions(), 1, 'what nobody starts in time ends');
select is(
    t.row_of('U1'), 'failed | timeout | Timeout:ScheduleToStart:', 'as failed, and is not retried'
);
select t.fails('U3');
select is(
    t.row_of('U3'), 'pending | 12:10:00 | busy', 'a failed attempt does not move scheduleToClose'
);
select t.it_is('2030-01-07 12:10:01+00');
select is(pgwhen.recover_stale_actions(), 1, 'which ends it while it waits');
select is(t.row_of('U3'), 'failed | timeout | Timeout:ScheduleToClose:', 'as failed');
select matches(
    (select a.error_message from pgwhen.scheduled_action as a where a.user_id = 'U3'),
    'last error: busy', 'with the error before'
);

-- No time for another attempt.
truncate pgwhen.scheduled_action;
select pgwhen.schedule_action('pay', 'U1', '{"timeouts": {"scheduleToClose": 10}}');
select t.fails('U1');
select is(
    t.row_of('U1'), 'failed | timeout | busy',
    'a next attempt that comes too late is not waited for'
);

-- Under a pause.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 14:00+00');
select pgwhen.schedule_action('pay', 'U1');
select t.it_is('2030-01-07 14:00:30+00');
select pgwhen.pause('stop', 'pay');
select t.it_is('2030-01-07 14:05+00');
select is(pgwhen.recover_stale_actions(), 0, 'scheduleToStart stands still under a pause');
select pgwhen.resume(action_type => 'pay');
select t.it_is('2030-01-07 14:05:29+00');
select is(pgwhen.recover_stale_actions(), 0, 'which it has all its time after');
select t.it_is('2030-01-07 14:05:31+00');
select is(pgwhen.recover_stale_actions(), 1, 'and no more');
select t.it_is('2030-01-07 15:00+00');
select pgwhen.schedule_action('pay', 'U2');
select pgwhen.pause('stop', 'pay');
select t.it_is('2030-01-07 15:10:01+00');
select is(pgwhen.recover_stale_actions(), 1, 'scheduleToClose goes on under a pause');


-- What is over is not begun.
truncate pgwhen.scheduled_action;
select pgwhen.resume(action_type => 'pay');
select pgwhen.schedule_action('pay', 'U1', '{"timeouts": {"scheduleToClose": 10}}');
select t.it_is(_pgwhen.clock() + interval '10 seconds');
select is(
    (select count(*) from pgwhen.claim_actions('w-1')), 1::bigint, 'at its last moment it may begin'
);
truncate pgwhen.scheduled_action;
select pgwhen.schedule_action('pay', 'U1', '{"timeouts": {"scheduleToClose": 10}}');
select t.it_is(_pgwhen.clock() + interval '11 seconds');
select is_empty(
    $$ select c.id from pgwhen.claim_actions('w-1') as c $$, 'after it no attempt does'
);

-- What people change of one that has been tried.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 16:00+00');
select pgwhen.schedule_action('pay', 'U1');
select t.fails('U1');
select t.it_is('2030-01-07 16:00:05+00');
select is(
    t.row_of('U1'), 'pending | 16:01:10 | 16:10:00 | busy',
    'its time began with the first attempt'
);
update pgwhen.scheduled_action set timeouts = '{"scheduleToClose": 60}';
select is(t.row_of('U1'), 'pending | 16:01:10 | 16:01:00 | busy', 'and another one from then on');
update pgwhen.scheduled_action set timeouts = '{"scheduleToClose": null, "scheduleToStart": null}';
select is(t.row_of('U1'), 'pending | busy', 'or none at all');
select throws_ok(
    $$ update pgwhen.scheduled_action set deadline = now() $$, 'PW604', null,
    'what a sweep goes by is not theirs'
);

-- A SQL action that is put off, and one that is given back, are to start anew.
truncate pgwhen.scheduled_action;
select pgwhen.schedule_action('pay', 'U1');
select t.it_is('2030-01-07 16:00:30+00');
select _pgwhen.put_off(c) from pgwhen.claim_actions('w-1') as c;
select matches(
    t.row_of('U1'), 'pending \| 16:01:31 \| 16:10:05', 'in time from when it is due again'
);

select finish();
rollback;
