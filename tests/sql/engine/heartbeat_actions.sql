-- pgwhen.heartbeat_actions: who is alive, how far, and who is to stop.
begin;
\ir ../helpers.psql
select plan(24);

select t.it_is('2030-01-07 12:00+00');
select pgwhen.register_action(
    'pay', options => '{"timeouts": {"startToClose": 600, "heartbeat": 10}}'
);
create function t.claim() returns pgwhen.claimed_action language sql as $$
select c from pgwhen.claim_actions('w-1') as c;
$$;
create function t.beat(claim pgwhen.claimed_action, details jsonb default null)
returns text language sql as $$
select concat_ws(' ', r.id = (beat.claim).id, r.held, r.cancel_requested)
from pgwhen.heartbeat_actions(
    'w-1', array[(beat.claim).id], array[(beat.claim).token], array[beat.details]
) as r;
$$;
create function t.state() returns text language sql as $$
select concat_ws(
    ' ', a.status, to_char(a.deadline at time zone 'UTC', 'HH24:MI:SS'),
    split_part(a.error_message, ' ', 1)
)
from pgwhen.scheduled_action as a;
$$;

select t.an_action(action_type => 'pay') as action \gset
select t.claim() as claim \gset
select is(
    (select to_char(c.deadline at time zone 'UTC', 'HH24:MI:SS') || ' ' || c.heartbeat_timeout
     from (select (:'claim'::pgwhen.claimed_action).*) as c),
    '12:10:00 10', 'a claim says until when it may run, and how often it is to beat'
);
select is(
    (select concat_ws(' ', c.heartbeat_details is null, c.maybe_done)
     from (select (:'claim'::pgwhen.claimed_action).*) as c),
    't f', 'and that there was nothing before'
);
select is(t.state(), 'processing 12:00:10', 'its deadline is that of the first heartbeat');

select t.it_is('2030-01-07 12:00:08+00');
select is(t.beat(:'claim', '{"done": 1}'), 't t f', 'a heartbeat of a claim that holds');
select is(t.state(), 'processing 12:00:10', 'which writes nothing into the action''s deadline');
select t.it_is('2030-01-07 12:00:15+00');
select is(t.beat(:'claim'), 't t f', 'another, without details');
select is(pgwhen.recover_stale_actions(), 0, 'is not lost');
select is(t.state(), 'processing 12:00:25', 'and looked at again when its last heartbeat is old');
select t.it_is('2030-01-07 12:00:26+00');
select is(pgwhen.recover_stale_actions(), 1, 'but lost when none has come for so long');
select is(t.state(), 'pending Timeout:Heartbeat:', 'with its own type');
select is(t.beat(:'claim', '{"done": 9}'), 't f f', 'a late heartbeat is told so');

select t.it_is('2030-01-07 12:01+00');
select t.claim() as claim \gset
select is(
    (select concat_ws(' ', c.attempt, c.heartbeat_details, c.maybe_done)
     from (select (:'claim'::pgwhen.claimed_action).*) as c),
    '2 {"done": 1} t', 'the next attempt has the details, which the late one did not change'
);
select is(t.beat(:'claim', 'null'), 't t f', 'null is a value like any other');
select t.it_is('2030-01-07 12:01:05+00');
select pgwhen.fail_actions(
    'w-1',
    array[(:'claim'::pgwhen.claimed_action).id],
    array[(:'claim'::pgwhen.claimed_action).token],
    array['{"message": "busy", "heartbeatDetails": {"done": 7}}']::jsonb[]
);
select t.it_is('2030-01-07 12:02+00');
select t.claim() as claim \gset
select is(
    (:'claim'::pgwhen.claimed_action).heartbeat_details, '{"done": 7}',
    'a failure brings the last details with it'
);

-- Neither heartbeats nor anything else extend startToClose.
create function t.beat_until(claim pgwhen.claimed_action, until timestamptz)
returns bigint language plpgsql as $$
declare
    v_lost bigint := 0;
begin
    while _pgwhen.clock() < beat_until.until loop
        perform t.it_is(_pgwhen.clock() + interval '5 seconds');
        perform t.beat(beat_until.claim);
        v_lost := v_lost + pgwhen.recover_stale_actions();
    end loop;
    return v_lost;
end;
$$;
select is(
    t.beat_until(:'claim', '2030-01-07 12:12+00'), 0::bigint, 'it may go on for as long as that'
);
select is(t.beat_until(:'claim', '2030-01-07 12:12:05+00'), 1::bigint, 'and no longer');
select is(t.state(), 'pending Timeout:StartToClose:', 'however it beats');

-- A cancellation that is asked for.
select t.it_is('2030-01-07 12:20+00');
select t.claim() as claim \gset
select pgwhen.cancel_action(:action, 'stop');
select is(t.beat(:'claim'), 't t t', 'a heartbeat hears that it is to stop');
select pgwhen.complete_actions(
    'w-1',
    array[(:'claim'::pgwhen.claimed_action).id],
    array[(:'claim'::pgwhen.claimed_action).token]
);
select is(t.state(), 'done', 'but may complete');
select is(t.beat(:'claim'), 't f f', 'and then beats no more');

-- Without a heartbeat timeout.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 13:00+00');
select t.an_action() as action \gset
select t.claim() as claim \gset
select is(t.beat(:'claim', '5'), 't t f', 'who need not beat may do so');
select is(
    (select count(*) from pgwhen.heartbeat_actions(
        'w-1', array[:action, :action, -1],
        array[(:'claim'::pgwhen.claimed_action).token, gen_random_uuid(), gen_random_uuid()]
    ) as r where r.held),
    1::bigint, 'each of many is answered for itself'
);
select throws_ok(c.call, c.code, null, c.call || ' is refused')
from (values
    ($$ select pgwhen.heartbeat_actions('w-1', '{1}', '{}') $$, 'PW302'),
    ($$ select pgwhen.heartbeat_actions(' ', '{}', '{}') $$, 'PW301')
) as c (call, code);

select finish();
rollback;
