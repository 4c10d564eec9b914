-- pgwhen.queue: what waits and runs, by type and status.
begin;
\ir ../helpers.psql
select plan(3);

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
            true),
        ('log_message', 'pending', 2, 1, '2030-01-07 12:00+00', false),
        ('log_message', 'processing', 1, 0, '2030-01-07 11:00+00', false)
    $$,
    'counts by type and status, what is due of it, and says whether anybody serves it'
);
select pgwhen.announce_worker('w-1', '{log_message}');
select results_eq(
    $$ select distinct q.served from pgwhen.queue as q where q.action_type = 'log_message' $$,
    $$ values (true) $$, 'also by a worker that is there'
);

select finish();
rollback;
