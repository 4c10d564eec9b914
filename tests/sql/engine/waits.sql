-- Waits before an action and after a send: how they begin, end, and what follows.
begin;
\ir ../helpers.psql
select plan(49);

select t.it_is('2030-01-07 12:00+00');

-- Before: the row waits, and nobody can claim it.
select t.a_waiting_rule('before', frequency => 'once') as before \gset
select pgwhen.emit('ordered', 'U1', at => '2030-01-07 11:59+00') as event \gset
select t.process();
select results_eq(
    format(
        $$ select t.state_of(a), a.execute_at, a.expires_at, a.counts_from, a.wait, a.outcome
        from pgwhen.scheduled_action as a where a.trigger_rule_id = %s $$, :before
    ),
    $$ values ('waiting', '2030-01-07 13:00+00'::timestamptz, '2030-01-07 13:00+00'::timestamptz,
        '2030-01-07 11:59+00'::timestamptz, '{"expires": 3600}'::jsonb, null::text) $$,
    'a wait before is a row that waits, for clicks from its event on'
);
select t.it_is('2030-01-07 14:00+00');
select is_empty($$ select * from pgwhen.claim_actions('w-1') $$, 'which nobody claims, ever');
select t.it_is('2030-01-07 12:30+00');

-- Clicked: an ordinary action, due now.
select t.a_click();
select t.process();
select results_eq(
    format(
        $$ select t.state_of(a), a.execute_at, a.expires_at
        from pgwhen.scheduled_action as a where a.trigger_rule_id = %s $$, :before
    ),
    $$ values ('pending clicked', '2030-01-07 12:30+00'::timestamptz, null::timestamptz) $$,
    'a click makes it due'
);
select is(t.log_of(:before), '{}', 'which is not its end');
select c.id, c.token, c.action_config from pgwhen.claim_actions('w-1') as c \gset
select is(:'action_config'::jsonb ->> 'text', 'hello', 'a worker gets it, with its own config');
select pgwhen.complete_actions('w-1', array[:id]::bigint[], array[:'token']::uuid[]);
select is(t.states(:before), '{done clicked}', 'and ends it as any other');
select is(t.log_of(:before), '{success}', 'with one log row');
select t.a_click();
select t.process();
select is(t.log_of(:before), '{success}', 'a second click does nothing');

-- Not clicked, and nothing to do about it.
select pgwhen.emit('ordered', 'U2');
select t.process();
select t.it_is('2030-01-07 13:29:59+00');
select is(pgwhen.expire_actions(), 0, 'a wait does not end before its time');
select t.it_is('2030-01-07 13:30+00');
select is(pgwhen.expire_actions(), 1, 'and ends with it');
select is(pgwhen.expire_actions(), 0, 'once');
select is(
    t.states(:before), '{done clicked,cancelled not_clicked}',
    'as cancelled, where nothing follows'
);
select is(
    t.log_of(:before), array['success', 'expired: no click until 2030-01-07T13:30:00Z'],
    'and expired'
);
select is_empty(
    $$ select from _pgwhen.reservation as r where r.user_id = 'U2' $$, 'its slot is given back'
);
select isnt_empty(
    $$ select from _pgwhen.reservation as r where r.user_id = 'U1' $$, 'a clicked one''s is not'
);

-- Not clicked, and something to do about it.
select
    t.a_waiting_rule(
        'chase',
        '{"onExpire": {"actionType": "log_message", "actionConfig": {"text": "Your quote"}}}',
        'add_to_audience', '{"audience": "hot"}', 'once'
    ) as chase
\gset
delete from pgwhen.trigger_rule where name = 'before';
select pgwhen.emit('ordered', 'U3', key => 'web');
select t.process();
select t.it_is('2030-01-07 14:30+00');
select is(pgwhen.expire_actions(), 1, 'a wait with onExpire ends');
select results_eq(
    format(
        $$ select t.state_of(a), a.action_type, a.action_config, a.execute_at, a.event, a.chain
        from pgwhen.scheduled_action as a where a.trigger_rule_id = %s order by a.id $$, :chase
    ),
    format(
        $$ select s.state, s.action_type, s.config::jsonb, s.at::timestamptz, a.event, a.chain
        from pgwhen.scheduled_action as a
        cross join (values
            ('done not_clicked', 'add_to_audience', '{"audience": "hot"}', '2030-01-07 14:30+00'),
            ('pending', 'log_message', '{"text": "Your quote"}', '2030-01-07 14:30+00')
        ) as s (state, action_type, config, at)
        where a.trigger_rule_id = %s and a.parent_id is null $$, :chase
    ),
    'as done, and a child of the same event has come to be'
);
select results_eq(
    $$
    select c.parent_id, c.origin, c.key
    from pgwhen.scheduled_action as c
    where c.parent_id is not null
    $$,
    $$
    select p.id, p.origin,
        _pgwhen.action_key(p.origin, 'default', 'U3', p.trigger_rule_id, 'not_clicked')
    from pgwhen.scheduled_action as p
    where p.user_id = 'U3' and p.parent_id is null
    $$,
    'its key has the step in it'
);
select isnt_empty(
    $$ select from _pgwhen.reservation as r where r.user_id = 'U3' $$, 'the slot stays taken'
);
select is(t.log_of(:chase), array['expired: no click until 2030-01-07T14:30:00Z'], 'logs the end');
select c.id, c.token from pgwhen.claim_actions('w-1') as c \gset
select pgwhen.complete_actions('w-1', array[:id]::bigint[], array[:'token']::uuid[]);
select is(
    t.log_of(:chase), array['expired: no click until 2030-01-07T14:30:00Z', 'success'],
    'and the child''s, in time'
);

-- After a send.
delete from pgwhen.trigger_rule where name = 'chase';
select
    t.a_waiting_rule(
        'offer',
        '{"after": "send",
          "onClick": {"actionType": "add_to_audience", "actionConfig": {"audience": "warm"}},
          "onExpire": {"actionType": "log_message", "actionConfig": {"text": "Once more"}}}'
    ) as offer
\gset
select pgwhen.emit('ordered', 'U4'), pgwhen.emit('ordered', 'U5');
select t.process();
select is(t.states(:offer), '{pending,pending}', 'a wait after a send begins with the send');
select t.it_is('2030-01-07 15:00+00');
select array_agg(c.id) as ids, array_agg(c.token) as tokens from pgwhen.claim_actions('w-1') as c
\gset
select t.it_is('2030-01-07 15:00:10+00');
select is(
    array(select pgwhen.complete_actions('w-1', :'ids'::bigint[], :'tokens'::uuid[])),
    :'ids'::bigint[], 'a send that succeeds is taken for done'
);
select results_eq(
    format(
        $$ select distinct t.state_of(a), a.executed_at, a.execute_at, a.expires_at, a.counts_from
        from pgwhen.scheduled_action as a where a.trigger_rule_id = %s $$, :offer
    ),
    $$ values ('waiting', '2030-01-07 15:00:10+00'::timestamptz,
        '2030-01-07 16:00:10+00'::timestamptz, '2030-01-07 16:00:10+00'::timestamptz,
        '2030-01-07 15:00+00'::timestamptz) $$,
    'and waits from then on, for clicks since it was begun'
);
select is(t.log_of(:offer), '{}', 'so it has not ended');
select is(
    array(
        select pgwhen.complete_actions('w-1', :'ids'::bigint[], :'tokens'::uuid[])
    ), '{}', 'nor can it be done twice'
);
select results_eq(
    $$ select e.type, e.user_id, e.data - 'action' from pgwhen.event as e
    where e.processed_at is null order by e.id $$,
    $$ values ('pgwhen.wait_opened', 'U4', '{}'::jsonb), ('pgwhen.wait_opened', 'U5', '{}') $$,
    'and an event announces it'
);
select t.process();
select is(t.states(:offer), '{waiting,waiting}', 'which alone does nothing');
select t.a_click('U4');
select t.process();
select is(t.states(:offer), '{done clicked,waiting,pending}', 'a click ends it, onClick follows');
select is(t.log_of(:offer), '{success}', 'as a success');
select is((pgwhen.tick()).actions, 1, 'what follows is done');
select results_eq(
    $$ select m.user_id from pgwhen.audience_member as m $$, array['U4'], 'for the same user'
);
select is(
    (
        select a.executed_at from pgwhen.scheduled_action as a
        where a.outcome = 'clicked' and a.user_id = 'U4'
    ),
    '2030-01-07 15:00:10+00', 'it was executed when it was sent'
);
select t.it_is('2030-01-07 16:00:10+00');
select is((pgwhen.tick()).expired, 1, 'a tick ends the other');
select is(
    t.states(:offer), '{done clicked,done not_clicked,done,pending}', 'onExpire follows'
);
select results_eq(
    $$ select a.action_config from pgwhen.scheduled_action as a
    where a.trigger_rule_id is not null and a.status = 'pending' $$,
    $$ values ('{"text": "Once more"}'::jsonb) $$, 'with its config'
);

-- A failed send opens no wait; a failed attempt may have sent all the same.
update pgwhen.scheduled_action set status = 'cancelled' where status = 'pending';
select pgwhen.emit('ordered', 'U6');
select t.process();
select c.id, c.token from pgwhen.claim_actions('w-1') as c \gset
select pgwhen.fail_actions(
    'w-1', array[:id]::bigint[], array[:'token']::uuid[], array['{"message": "busy"}']::jsonb[]
);
select t.it_is('2030-01-07 17:00+00');
select c.token from pgwhen.claim_actions('w-1') as c \gset
select pgwhen.complete_actions('w-1', array[:id]::bigint[], array[:'token']::uuid[]);
select is(
    (select a.counts_from from pgwhen.scheduled_action as a where a.id = :id),
    '2030-01-07 16:00:10+00', 'clicks count from the first attempt'
);
select pgwhen.emit('ordered', 'U7');
select t.process();
select c.id, c.token from pgwhen.claim_actions('w-1') as c \gset
select pgwhen.fail_actions(
    'w-1', array[:id]::bigint[], array[:'token']::uuid[],
    array['{"message": "no", "nonRetryable": true}']::jsonb[]
);
select is(
    (select t.state_of(a) from pgwhen.scheduled_action as a where a.id = :id),
    'failed', 'a failed send opens no wait'
);

-- A claim that was taken back opens no wait.
select pgwhen.emit('ordered', 'U8');
select t.process();
select c.id, c.token from pgwhen.claim_actions('w-1') as c \gset
select t.it_is('2030-01-07 17:06+00');
select pgwhen.recover_stale_actions();
select t.it_is('2030-01-07 17:06:10+00');
select c.token as newer from pgwhen.claim_actions('w-2') as c \gset
select is(
    array(select pgwhen.complete_actions('w-1', array[:id]::bigint[], array[:'token']::uuid[])),
    '{}', 'a late report is not taken'
);
select is(
    (select t.state_of(a) from pgwhen.scheduled_action as a where a.id = :id),
    'processing', 'and opens no wait'
);

-- A built-in action sends too, at once.
delete from pgwhen.trigger_rule where name = 'offer';
select
    t.a_waiting_rule('sql', '{"after": "send"}', 'add_to_audience', '{"audience": "told"}') as sql
\gset
select pgwhen.emit('ordered', 'U8');
select t.process();
select results_eq(
    $$ select m.user_id from pgwhen.audience_member as m
    inner join pgwhen.audience as g on m.audience_id = g.id where g.name = 'told' $$,
    array['U8'], 'a built-in action is done at once, and then waits'
);
select is(t.states(:sql), '{waiting}', 'as a row');

-- Siblings.
insert into pgwhen.scheduled_action
    (user_id, action_type, execute_at, expires_at, wait, waiting, counts_from, key, origin,
    workflow_id, workflow_node_path)
select
    'U9', 'log_message', '2030-01-08', '2030-01-08',
    jsonb_build_object('expires', 9, 'tracking', jsonb_build_object('link', l.link)), true,
    '2030-01-07', gen_random_uuid(), gen_random_uuid(), 1, array['step', l.path]
from (values ('a', 'x'), ('b', 'x'), ('a', 'y')) as l (link, path);
select t.a_click('U9', 'b');
select t.process();
select results_eq(
    $$ select t.state_of(a), a.error_message from pgwhen.scheduled_action as a
    where a.user_id = 'U9' order by a.id $$,
    $$ values ('cancelled', 'another wait for the same ended'), ('pending clicked', null),
        ('waiting', null) $$,
    'a wait that ends cancels those for the same, and no others'
);

-- Who schedules by hand holds no bucket, so the look for clicks is left to a pass.
insert into pgwhen.scheduled_action
    (user_id, action_type, execute_at, expires_at, wait, waiting, counts_from, key)
values
    ('V1', 'log_message', '2030-01-08', '2030-01-08', '{"expires": 9}', true, '2030-01-07',
    gen_random_uuid())
returning id \gset
select t.a_click('V1');
select t.process();
select t.force(format(
    $$
    update pgwhen.scheduled_action
    set status = 'pending', waiting = true, outcome = null, expires_at = '2030-01-08'
    where id = %s
    $$, :id
));
select _pgwhen.begin_waits(array[:id]::bigint[]);
select results_eq(
    $$ select o.user_id, o.type, o.keys, o.data from _pgwhen.outbox as o $$,
    format(
        $$ values ('V1', 'pgwhen.wait_opened', '{}'::text[], '{"action": %s}'::jsonb) $$, :id
    ),
    'a wait that no event has made is announced'
);
select t.process();
select is(
    (select t.state_of(a) from pgwhen.scheduled_action as a where a.id = :id),
    'pending clicked', 'and finds its click'
);

-- What is asked when the time has come is asked of what follows.
select t.a_rule(
    'asked', 'left', '{"condition": {"user.points": {"$gte": 5}}}', 'log_message',
    '{"text": "x", "delay": {"waitForTracking": true, "expiresSeconds": 60,
        "reEvaluateConditions": true, "onRuleDisabled": "keep",
        "onExpire": {"actionType": "log_message", "actionConfig": {"text": "y"}}}}'
) as asked \gset
select t.a_user('W1', '{"points": 5}'), t.a_user('W2', '{"points": 5}');
select pgwhen.emit('left', 'W1'), pgwhen.emit('left', 'W2');
select t.process();
select t.it_is(_pgwhen.clock() + interval '61 seconds');
select is(pgwhen.expire_actions(), 2, 'two waits expire');
update pgwhen.line_user set attributes = '{"points": 4}' where user_id = 'W2';
update pgwhen.trigger_rule set enabled = false where id = :asked;
select is(
    (
        select array_agg(c.user_id || ' ' || (c.action_config ->> 'text'))
        from pgwhen.claim_actions('w-1', 100, '{log_message}') as c where c.rule = :asked
    ),
    '{W1 y}', 'what follows is asked what the action would have been asked'
);
select is(
    (
        select array_agg(a.user_id || ' ' || a.error_message)
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :asked and a.status = 'cancelled'
    ),
    '{W2 condition_false}', 'and cancelled where that says so'
);
select is(_pgwhen.tracking_id('0a1b2c3d-0000-8000-8000-00000000000f'),
    '0a1b2c3d00008000800000000000000f', 'a tracking id is the key without dashes'
);

select finish();
rollback;
