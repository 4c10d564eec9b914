-- pgwhen.announce_worker, _pgwhen.is_served: who is there, and serves what.
begin;
\ir ../helpers.psql
select plan(10);

select t.it_is('2030-01-07 12:00+00');
select is(_pgwhen.is_served('send_sms'), false, 'nobody serves a type that nobody has named');
select is(_pgwhen.is_served('add_to_audience'), true, 'a SQL function serves its type');
select is(_pgwhen.is_served('log_message'), false, 'a listener''s type needs a listener');

select pgwhen.announce_worker('w-1', '{send_sms,log_message}');
select is(_pgwhen.is_served('send_sms'), true, 'a worker that names a type serves it');
select t.it_is('2030-01-07 12:00:59+00');
select is(_pgwhen.is_served('send_sms'), true, 'for a minute');
select t.it_is('2030-01-07 12:01:00+00');
select is(_pgwhen.is_served('send_sms'), false, 'and no longer');
select pgwhen.announce_worker('w-1', '{log_message}');
select is(_pgwhen.is_served('send_sms'), false, 'what it does not name again, it does not serve');
select results_eq(
    'select w.name, w.action_types, w.seen_at from _pgwhen.worker as w',
    $$ values ('w-1', '{log_message}'::text[], '2030-01-07 12:01+00'::timestamptz) $$,
    'a worker is one row'
);
select pgwhen.announce_worker('w-2', null);
select is(
    (select w.action_types from _pgwhen.worker as w where w.name = 'w-2'),
    '{}',
    'a worker may serve nothing'
);
select throws_ok(
    $$ select pgwhen.announce_worker(' ', '{}') $$,
    'PW301',
    'a worker needs a name',
    'but needs a name'
);

select finish();
rollback;
