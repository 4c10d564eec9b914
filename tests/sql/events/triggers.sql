-- Which table is which event, and under which keys rules can ask for it.
begin;
\ir ../helpers.psql
select plan(12);

select t.it_is('2030-01-07 12:00+00');
create view t.last_event as
select o.type, o.keys, o.key, o.data
from _pgwhen.outbox as o order by o.id desc limit 1;

insert into pgwhen.form_submission (user_id, form_id, data) values (
    'U1', 'quote', '{"city": "Bangkok"}'
);
select results_eq(
    'table t.last_event',
    $$ values ('form_submitted', '{*,quote}'::text[], 'quote', '{"city": "Bangkok"}'::jsonb) $$,
    'a form_submission is form_submitted, by form'
);
insert into pgwhen.friend_track_event (user_id, event) values ('U1', 'follow');
select results_eq(
    'table t.last_event',
    $$ values ('friend_track_event_inserted', '{*,follow}'::text[], 'follow', '{}'::jsonb) $$,
    'a friend_track_event is friend_track_event_inserted, by event'
);
insert into pgwhen.booking_event (user_id, booking_id, status, data)
values ('U1', 'B7', 'confirmed', '{"at": "2030-02-01T10:00:00+07:00"}');
select results_eq(
    'table t.last_event',
    $$
    values (
        'booking_event', '{*,confirmed}'::text[], 'confirmed',
        '{"at": "2030-02-01T10:00:00+07:00", "status": "confirmed", "bookingId": "B7"}'::jsonb
    )
    $$,
    'a booking_event is booking_event, by status'
);
insert into pgwhen.campaign_click (user_id, campaign, link, tracking_id)
values ('U1', 'nov', 'offer', 'T9');
select results_eq(
    'table t.last_event',
    $$
    values (
        'campaign_click', '{*,campaign:nov,link:offer,tracking:T9}'::text[], 'nov',
        '{"campaign": "nov", "link": "offer", "trackingId": "T9"}'::jsonb
    )
    $$,
    'a campaign_click can be asked for by campaign, link or tracking id'
);
insert into pgwhen.campaign_click (user_id, link) values ('U1', 'offer');
select results_eq(
    'table t.last_event',
    $$ values ('campaign_click', '{*,link:offer}'::text[], null::text,
        '{"link": "offer"}'::jsonb) $$,
    'a column that is null is missing from the event'
);
insert into pgwhen.campaign_click (user_id, link, data) values ('U1', 'offer', '{"link": "mine"}');
select results_eq(
    'select e.data from t.last_event as e', $$ values ('{"link": "offer"}'::jsonb) $$,
    'a column is stronger than a key of data'
);

delete from _pgwhen.outbox;
insert into pgwhen.form_submission (user_id, form_id)
select 'U' || n, 'quote' from generate_series(1, 3) as n;
select results_eq(
    'select o.user_id from _pgwhen.outbox as o order by o.id', array['U1', 'U2', 'U3'],
    'the events of one statement stand in the order of its rows'
);
delete from _pgwhen.outbox;
update pgwhen.form_submission set data = '{"late": true}';
delete from pgwhen.form_submission;
select is_empty('table _pgwhen.outbox', 'only an insert is an event');

select throws_ok(
    format('insert into pgwhen.%s values (default, default, %L, %L, default, %L)',
        'form_submission', 'U1', 'quote', i.at),
    '23514', null, format('a row cannot happen at %s', i.at)
)
from unnest(array['infinity', '-infinity']) as i (at);

select throws_ok(
    $$ insert into pgwhen.form_submission (user_id, form_id) values (repeat('x', 201), 'quote') $$,
    'PW203', 'a user_id of 201 characters is no id', 'a user_id that no index could hold is refused'
);
insert into pgwhen.form_submission (user_id, form_id) values ('nobody we know', 'quote');
select is(
    (select o.facts from _pgwhen.outbox as o), '{}', 'a user that does not exist has no facts'
);

select finish();
rollback;
