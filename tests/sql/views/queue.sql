-- pgwhen.queue: what waits and runs, by type and status.
begin;
\ir ../helpers.psql
select plan(5);

select t.it_is('2030-01-07 12:00+00');
select is_empty('table pgwhen.queue', 'is empty where nothing waits');
select t.an_action('2030-01-07 11:00+00');
select t.an_action('2030-01-07 12:00+00');
select t.an_action('2030-01-07 13:00+00');
select t.an_action('2030-01-07 10:00+00', 'add_to_audience', '{"audience": "a"}');
select t.an_action('2030-01-07 09:00+00', 'send_sms', '{}');
select count(*) from pgwhen.claim_actions('w-1', 1, '{log_message}');
select pgwhen.complete_actions('w-1', array[c.id], array[c.token])
from pgwhen.claim_actions('w-1', 1, '{send_sms}') as c;
select bag_eq(
    'table pgwhen.queue',
    $$
    values
        ('add_to_audience', 'pending', 1::bigint, 1::bigint, '2030-01-07 10:00+00'::timestamptz,
            true, 0::bigint, null::text),
        ('log_message', 'pending', 2, 1, '2030-01-07 12:00+00', false, 0, null),
        ('log_message', 'processing', 1, 0, '2030-01-07 11:00+00', false, 0, null)
    $$,
    'counts by type and status, what is due of it, and says whether anybody serves it'
);
select pgwhen.announce_worker('w-1', '{log_message}');
select results_eq(
    $$ select distinct q.served from pgwhen.queue as q where q.action_type = 'log_message' $$,
    $$ values (true) $$, 'also by a worker that is there'
);


select t.a_rule('r') as rule \gset
select t.an_action('2030-01-07 11:00+00', trigger_rule_id => :rule);
select pgwhen.pause('wrong text', rule => :rule);
select count(*) from pgwhen.claim_actions('w-1', 1, '{log_message}');
select results_eq(
    $$
    select q.actions, q.due, q.held, q.paused
    from pgwhen.queue as q
    where q.action_type = 'log_message' and q.status = 'pending'
    $$,
    $$ values (2::bigint, 1::bigint, 1::bigint, null::text) $$,
    'counts what a pause of a part holds with the rest, and apart'
);
select pgwhen.pause('no sending', action_type => 'log_message');
select results_eq(
    $$ select distinct q.paused from pgwhen.queue as q where q.action_type = 'log_message' $$,
    $$ values ('no sending') $$, 'and says why the type is paused'
);

select finish();
rollback;
