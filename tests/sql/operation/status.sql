-- pgwhen.status: what is going on, and what wants doing.
begin;
\ir ../helpers.psql
select plan(18);

select t.it_is('2030-01-07 12:00+00');
create function t.said(item text) returns text language sql as $$
select concat_ws(' | ', s.value, s.remedy) from pgwhen.status() as s where s.item = said.item;
$$;

select results_eq(
    'select s.item, s.value, s.remedy from pgwhen.status() as s',
    $$ values ('version', pgwhen.version(), null::text), ('events waiting', '0', null) $$,
    'says little where nothing is going on'
);

select pgwhen.emit('ordered', 'U1');
select is(t.said('events waiting'), '1', 'counts events that wait');
select t.it_is('2030-01-07 12:01:01+00');
select is(
    t.said('events waiting'),
    '1 | the oldest has waited since 2030-01-07T12:00:00Z: '
    'run a listener (pgwhen run), or call pgwhen.run_ticks()',
    'says what to do where one has waited for long'
);

select t.a_rule('r', action_type => 'send_sms', action_config => '{}');
select is(
    t.said('unserved type: send_sms'),
    '1 rules | pgwhen run with a handler for it, or pgwhen.register_sql_action()',
    'names types that nobody serves'
);
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 3) as n;
select t.process();
select is(
    t.said('actions due: send_sms'), '3 | nobody serves send_sms: pgwhen run with its handler',
    'counts what is due, of a type that nobody serves'
);
select pgwhen.announce_worker('w-1', '{send_sms}');
select is(t.said('actions due: send_sms'), '3', 'and of one that somebody does');
select is(t.said('unserved type: send_sms'), null, 'which is not unserved then');
select is(t.said('worker w-1'), 'send_sms', 'names workers');
select t.an_action('2030-01-07 13:00+00');
select is(t.said('actions due: log_message'), null, 'does not count what is not due');

select count(*) from pgwhen.claim_actions('w-1', 2, '{send_sms}');
select t.it_is('2030-01-07 12:10+00');
select
    is(
        t.said('worker w-1'),
        'send_sms | last seen at 2030-01-07T12:01:01Z',
        'says when a worker is gone'
    );
select is(
    t.said('actions running past their deadline'),
    '2 | the next tick takes them back: run a listener, or call pgwhen.run_ticks()',
    'counts what runs for too long'
);

update pgwhen.trigger_rule set enabled = false, parked_reason = 'fired 200 times' where name = 'r';
select alike(
    t.said('parked rule: r'),
    'fired 200 times | mend what loops, then: '
    'update pgwhen.trigger_rule set enabled = true where id = %',
    'names parked rules'
);
update pgwhen.trigger_rule set deleted_date = '2030-01-07' where name = 'r';
select is(t.said('parked rule: r'), null, 'unless they are deleted');
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 3) as n;
select pgwhen.process_events('w-9', suspect => true);
select is(t.said('suspect batch of w-9'), '3 events', 'names suspect batches');

select pgwhen.pause('wrong text', 'log_message');
select is(
    t.said('paused: action_type log_message'),
    format(
        'wrong text (%s, 2030-01-07T12:10:00Z) | '
        'select pgwhen.resume(action_type => ''log_message'');', session_user
    ), 'names pauses, and how to end them'
);
select _pgwhen.park_event(min(o.id), 'x') from _pgwhen.outbox as o;
select alike(
    t.said('parked events'), '1 | mend %select pgwhen.retry_event(id)', 'counts parked events'
);

select pgwhen.schedule_action(
    'log_message', 'U1', '{"text": "hi"}', delay => '{"waitForTracking": true, "seconds": 60}'
);
select t.it_is('2030-01-07 12:11:30+00');
select is(t.said('waits past their time'), null, 'gives waits a minute');
select t.it_is('2030-01-07 12:12:30+00');
select is(
    t.said('waits past their time'),
    '1 | the next tick ends them: run a listener, or call pgwhen.run_ticks()', 'then counts them'
);

select finish();
rollback;
