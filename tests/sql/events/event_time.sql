-- pgwhen.event_time: when the changes that follow happened.
begin;
\ir ../helpers.psql
select plan(8);

select t.it_is('2030-01-07 12:00+00');
create view t.times as
select o.at from _pgwhen.outbox as o order by o.id desc limit 1;

select pgwhen.event_time('1997-01-18 00:00+00');
select t.a_user('U1', '{"tier": "gold"}');
select results_eq(
    'table t.times', $$ values ('1997-01-18 00:00+00'::timestamptz) $$, 'dates a change'
);
insert into pgwhen.booking_event (user_id, status) values ('U1', 'confirmed');
select results_eq(
    'table t.times', $$ values ('1997-01-18 00:00+00'::timestamptz) $$, 'dates a source row'
);
insert into pgwhen.booking_event (user_id, status, at) values (
    'U1', 'confirmed', '1998-05-05 00:00+00'
);
select results_eq(
    'table t.times', $$ values ('1998-05-05 00:00+00'::timestamptz) $$,
    'gives way to the time that a row says'
);
select pgwhen.emit('ordered', 'U1');
select results_eq(
    'table t.times', $$ values ('1997-01-18 00:00+00'::timestamptz) $$, 'dates what is emitted'
);
select is(
    (select max(o.created_at) from _pgwhen.outbox as o), '2030-01-07 12:00+00',
    'leaves the moment of writing alone'
);
select pgwhen.event_time(null);
select pgwhen.emit('ordered', 'U1');
select
    results_eq('table t.times', $$ values ('2030-01-07 12:00+00'::timestamptz) $$, 'ends by null');
select throws_ok(
    $$ select pgwhen.event_time('infinity') $$, 'PW203', 'an event cannot happen at infinity',
    'refuses a time that never comes'
);
select throws_ok(
    $$ select pgwhen.event_time('-infinity') $$, 'PW203', 'an event cannot happen at -infinity',
    'refuses a time that never was'
);

select finish();
rollback;
