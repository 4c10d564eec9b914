-- _pgwhen.ring, _pgwhen.channel: the doorbell, the writer's side. That it wakes a sleeper and is
-- silent for one who is awake takes two sessions: tests/concurrency.
begin;
\ir ../helpers.psql
select plan(10);

create view t.held as
select l.mode
from pg_locks as l
where
    l.pid = pg_backend_pid()
    and l.locktype = 'advisory'
    and l.classid = _pgwhen.lock_class()::oid
    and l.objid = _pgwhen.doorbell_lock()::oid;

set local pgwhen.doorbell = off;
select pgwhen.emit('ordered', 'U1');
select is_empty('table t.held', 'takes no lock where the doorbell is off');

set local pgwhen.doorbell = on;
update pgwhen.line_user set attributes = '{}' where user_id = 'nobody';
select is_empty('table t.held', 'does not ring where nothing changed');
select pgwhen.emit('ordered', 'U1');
select results_eq(
    'table t.held', $$ values ('ShareLock') $$,
    'holds the lock until the commit, so that nobody falls asleep before it'
);

select is(_pgwhen.channel(c.event_type), c.channel, c.event_type || ' rings ' || c.channel)
from (values
    ('attribute_changed', 'attribute_changed'),
    ('form_submitted', 'form_submitted'),
    ('campaign_click', 'campaign_click'),
    ('friend_track_event_inserted', 'friend_track_event_inserted'),
    ('booking_event', 'booking_event'),
    ('ordered', 'pgwhen_due'),
    ('a "channel" of my own', 'pgwhen_due')
) as c (event_type, channel);

select finish();
rollback;
