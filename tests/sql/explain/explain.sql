-- pgwhen.explain: why a rule did, does or would not do something for a user. That it agrees with
-- what happened, on many cases, is tests/edge/test_explain_agrees.py.
begin;
\ir ../helpers.psql
select plan(75);

select t.it_is('2030-01-07 12:00+00');
select t.a_user('U1', '{"tier": "gold", "points": 5}');
select t.process();

-- Every gate that says something, but for the clauses.
create function t.gates(rule bigint, event_id bigint default null, user_id text default 'U1')
returns text[] language sql as $$
select array(
    select e.gate || ': ' || e.verdict
    from pgwhen.explain(rule, user_id, event_id) with ordinality as e (gate, verdict, reason,
        detail, n)
    where e.gate not like '% clause'
    order by e.n
);
$$;
create function t.reason(
    gate text, rule bigint, event_id bigint default null, user_id text default 'U1'
)
returns text language sql as $$
select string_agg(e.reason, ' + ' order by e.n)
from pgwhen.explain(rule, user_id, event_id) with ordinality as e (gate, verdict, reason, detail, n)
where e.gate = reason.gate;
$$;
create procedure t.change(attributes jsonb) language sql as $$
update pgwhen.line_user set attributes = change.attributes where user_id = 'U1';
$$;

-- As if it happened now ---------------------------------------------------------------------

select t.a_rule(
    'gold', 'attribute_changed',
    '{"attribute": "tier", "to": "gold", "condition": {"user.points": {"$gte": 5}}}',
    frequency => 'once_per_day'
) as gold \gset
select is(
    t.gates(:gold),
    array['rule: pass', 'event: note', 'source: note', 'condition: pass', 'frequency: pass'],
    'without an event, supposes that what the rule asks for happens now'
);
select
    is(
        t.reason('rule', :gold), 'live since 2030-01-07T12:00:00Z', 'says since when a rule is live'
    );
select is(t.reason('event', :gold), 'as if it happened now', 'says that it supposes');
select is(
    (select e.detail from pgwhen.explain(:gold, 'U1') as e where e.gate = 'event'),
    jsonb_build_object(
        'user', '{"tier": "gold", "points": 5}'::jsonb,
        'event', '{"type": "attribute_changed", "key": "tier", "new": "gold"}'::jsonb
        || jsonb_build_object('at', timestamptz '2030-01-07 12:00+00')
    ),
    'shows the document that the condition sees'
);
select
    is(
        t.reason('source', :gold),
        'asks for attribute_changed, key tier',
        'says what the rule asks for'
    );
select is(t.reason('frequency', :gold), 'free', 'says that the frequency is free');
select results_eq(
    format(
        $$ select e.reason, e.detail from pgwhen.explain(%s, 'U1') as e
            where e.gate = 'condition clause' $$,
        :gold
    ),
    $$ values ('true: {"user.points": {"$gte": 5}}',
        '{"field": "user.points", "saw": 5}'::jsonb) $$,
    'shows each clause with the value it saw'
);
call t.change('{"tier": "gold", "points": 4}');
select is(
    t.gates(:gold),
    array['rule: pass', 'event: note', 'source: note', 'condition: stop', 'frequency: pass'],
    'stops at a condition that is false'
);
select results_eq(
    format(
        $$ select e.reason, e.detail from pgwhen.explain(%s, 'U1') as e
            where e.gate = 'condition clause' $$,
        :gold
    ),
    $$ values ('false: {"user.points": {"$gte": 5}}',
        '{"field": "user.points", "saw": 4}'::jsonb) $$,
    'and shows why'
);
select is(
    t.gates(:gold, user_id => 'nobody'),
    array['rule: pass', 'event: note', 'source: note', 'condition: stop', 'frequency: pass'],
    'a user that does not exist has no facts'
);

-- What an event did ---------------------------------------------------------------------------

call t.change('{"tier": "silver", "points": 5}');
call t.change('{"tier": "gold", "points": 5}');
select max(o.id) as fired from _pgwhen.outbox as o where o.key = 'tier' and o.new = '"gold"' \gset
select is(
    t.reason('event', :gold, :fired), 'waits in the outbox', 'says of an event that it waits'
);
select is(
    t.gates(:gold, :fired),
    array['rule: pass', 'event: note', 'source: pass', 'condition: pass', 'frequency: pass'],
    'and what will become of it'
);
select t.process();
select is(
    t.gates(:gold, :fired),
    array[
        'rule: pass',
        'event: note',
        'source: pass',
        'condition: pass',
        'frequency: pass',
        'pending: note', 'still wanted: pass', 'user: pass'
    ],
    'shows an action that waits'
);
select
    is(
        t.reason('event', :gold, :fired),
        'processed at 2030-01-07T12:00:00Z',
        'says when it was processed'
    );
select
    is(
        t.reason('pending', :gold, :fired),
        'pending, due at 2030-01-07T12:00:00Z',
        'says what waits, until when'
    );
select pgwhen.complete_actions('w-1', array[c.id], array[c.token])
from pgwhen.claim_actions('w-1') as c;
select is(
    t.gates(:gold, :fired),
    array[
        'rule: pass',
        'event: note',
        'source: pass',
        'condition: pass',
        'frequency: pass',
        'log: note'
    ],
    'shows what the log says'
);
select is(t.reason('log', :gold, :fired), 'success at 2030-01-07T12:00:00Z', 'with the outcome');

-- Gate by gate --------------------------------------------------------------------------------

select t.it_is('2030-01-07 13:00+00');
call t.change('{"tier": "silver", "points": 5}');
call t.change('{"tier": "gold", "points": 5}');
select max(o.id) as suppressed from _pgwhen.outbox as o \gset
select is(
    (t.gates(:gold, :suppressed))[5], 'frequency: stop', 'foresees that the frequency will suppress'
);
select t.process();
select is(
    t.gates(:gold, :suppressed),
    array[
        'rule: pass',
        'event: note',
        'source: pass',
        'condition: pass',
        'frequency: stop',
        'log: note'
    ],
    'stops at the frequency that suppressed it'
);
select is(
    t.reason('frequency', :gold, :suppressed),
    'once_per_day: last fired at 2030-01-07T12:00:00Z, free again at 2030-01-08T12:00:00Z',
    'and says until when'
);
select is(
    t.reason('frequency', :gold),
    'once_per_day: last fired at 2030-01-07T12:00:00Z, free again at 2030-01-08T12:00:00Z',
    'also of now'
);
select is(
    (select e.detail from pgwhen.explain(:gold, 'U1') as e where e.gate = 'frequency'),
    jsonb_build_object(
        'frequency',
        'once_per_day',
        'cooldownSeconds',
        0,
        'lastFiredAt',
        timestamptz '2030-01-07 12:00+00'
    ),
    'with what it goes by'
);
select is((t.gates(:gold, :fired))[5], 'frequency: pass', 'an event is told as it was then');

call t.change('{"tier": "iron", "points": 5}');
call t.change('{"tier": "iron", "points": 6}');
select
    max(o.id) filter (where o.key = 'tier') as false_source,
    max(o.id) filter (where o.key = 'points') as other_key
from _pgwhen.outbox as o \gset
select t.process();
select
    is(
        (t.gates(:gold, :false_source))[3],
        'source: stop',
        'stops at a source that asks for another change'
    );
select results_eq(
    format(
        $$ select e.reason, e.detail from pgwhen.explain(%s, 'U1', %s) as e
            where e.gate = 'source clause' $$,
        :gold,
        :false_source
    ),
    $$ values ('false: {"event.new": {"$eq": "gold"}}',
        '{"field": "event.new", "saw": "iron"}'::jsonb) $$,
    'and shows what it saw'
);
select
    is(
        (t.gates(:gold, :other_key))[3],
        'source: stop',
        'stops at a source that asks for another key'
    );
select is(
    t.reason('source', :gold, :other_key),
    'asks for attribute_changed, key tier; the event is attribute_changed, keys *, points',
    'and says what it is'
);
select pgwhen.emit('ordered', 'U1') as other_type \gset
select is(
    t.reason('source', :gold, :other_type),
    'asks for attribute_changed, key tier; the event is ordered, keys *', 'or another type'
);

call t.change('{"tier": "silver", "points": 1}');
call t.change('{"tier": "gold", "points": 1}');
select max(o.id) as false_condition from _pgwhen.outbox as o \gset
select t.process();
call t.change('{"tier": "gold", "points": 9}');
select
    is(
        (t.gates(:gold, :false_condition))[4],
        'condition: stop',
        'a condition is told with the facts of then'
    );

select
    t.a_rule('echo', 'echo', action_type => 'emit_event', action_config => '{"type": "echo"}')
        as echo
\gset
select pgwhen.emit('echo', 'U1');
select t.process();
select max(e.id) as looped from pgwhen.event as e where e.type = 'echo' \gset
select is(
    t.gates(:echo, :looped),
    array[
        'rule: pass', 'event: note', 'source: pass', 'loop: stop', 'frequency: pass', 'log: note'
    ],
    'stops at a loop'
);
select is(t.reason('loop', :echo, :looped), 'caused by rules ' || :echo, 'and says whose');

-- Rules that are not live, or were not ----------------------------------------------------------

select
    t.a_rule('toggled', 'toggled', '{"condition": {"event.data.n": 1}}', frequency => 'once')
        as toggled
\gset
select t.it_is('2030-01-07 14:00+00');
select pgwhen.emit('toggled', 'U1', '{"n": 1}') as hit \gset
select pgwhen.emit('toggled', 'U1', '{"n": 2}') as miss \gset
select t.process();
select t.it_is('2030-01-07 14:01+00');
update pgwhen.trigger_rule set enabled = false where id = :toggled;
select pgwhen.emit('toggled', 'U1', '{"n": 1}') as off \gset
select t.process();
select is((t.gates(:toggled))[1], 'rule: stop', 'stops at a rule that is disabled');
select is(t.reason('rule', :toggled), 'disabled', 'and says so');
select is((t.gates(:toggled, :off))[1], 'rule: stop', 'also for an event that it missed');
select is(
    t.reason('rule', :toggled, :hit),
    'disabled; changed at 2030-01-07T14:01:00Z, after this event was processed',
    'but not for one that it acted on before'
);
select is((t.gates(:toggled, :miss))[1:4],
    array['rule: note', 'event: note', 'source: pass', 'condition: stop'],
    'nor for one that it judged before'
);
select t.it_is('2030-01-07 14:02+00');
update pgwhen.trigger_rule set enabled = true where id = :toggled;
select is(
    t.reason('rule', :toggled, :off),
    'enabled only at 2030-01-07T14:02:00Z, after the event; rules look forward',
    'stops where a rule was enabled too late'
);
select is((t.gates(:toggled, :off))[1], 'rule: stop', 'which is the answer');
select
    is((t.gates(:toggled, :hit))[1], 'rule: note', 'but not where it had been enabled before too');
update pgwhen.trigger_rule set enabled = false, parked_reason = 'fired 200 times'
where id = :toggled;
select is(t.reason('rule', :toggled), 'parked: fired 200 times', 'says why a rule is parked');
update pgwhen.trigger_rule set deleted_date = '2030-01-07 14:03+00' where id = :toggled;
select
    is(
        t.reason('rule', :toggled),
        'deleted at 2030-01-07T14:03:00Z',
        'says when a rule was deleted'
    );
select is(
    (
        select e.reason
        from pgwhen.explain(:gold, 'U1', line_oa_id => 'shop') as e
        where e.gate = 'rule'
    ),
    'belongs to account default, not shop', 'stops at another account'
);

select pgwhen.emit('echo', 'U1') as parked \gset
select _pgwhen.park_event(:parked, 'it ended the connection');
select is((t.gates(:echo, :parked))[2], 'event: stop', 'stops at an event that was parked');

-- The rule asks for something else by now, and the user has left the audience.
select t.a_rule('edited', 'edited', '{"condition": {"$audience": "a"}}') as edited \gset
select _pgwhen.add_to_audience('{default}', '{U1}', '{"{\"audience\": \"a\"}"}');
select pgwhen.emit('edited', 'U1') as event \gset
select t.process();
delete from pgwhen.audience_member;
select is(
    t.gates(:edited, :event),
    array[
        'rule: pass',
        'event: note',
        'source: pass',
        'condition: note',
        'frequency: pass',
        'pending: note', 'still wanted: pass', 'user: pass'
    ],
    'a condition that is false by now did not stop what fired'
);
select t.it_is('2030-01-07 15:00+00');
update pgwhen.trigger_rule set source_config = '{"key": "x"}' where id = :edited;
select is(
    t.gates(:edited, :event),
    array[
        'rule: note', 'event: note', 'source: note', 'frequency: pass', 'pending: note',
        'still wanted: pass', 'user: pass'
    ],
    'nor does a source that has changed'
);

-- What it cannot tell ---------------------------------------------------------------------------

select throws_ok(c.call, c.code, c.message, c.call || ' is refused')
from (values
    ($$ select * from pgwhen.explain(-1, 'U1') $$, 'PW206', 'there is no rule -1'),
    (
        format($$ select * from pgwhen.explain(%s, null) $$, :gold),
        'PW206',
        'explain needs a user_id'
    ),
    (
        format($$ select * from pgwhen.explain(%s, 'U2', %s) $$, :gold, :fired), 'PW207',
        format('event %s is not kept, or not one of user U2', :fired)
    )
) as c (call, code, message);

-- Delays --------------------------------------------------------------------------------------

select t.a_rule('later', 'booked', action_config => '{"text": "x", "delay": {"seconds": 60}}')
    as later \gset
select is(t.reason('retry', :later), null, 'says nothing of retries that are as the settings say');
update pgwhen.trigger_rule
set action_config
    = action_config || '{"retryPolicy": {"maximumAttempts": 0, "maximumInterval": 60}}'
where id = :later;
select is(
    t.reason('retry', :later),
    'any number of attempts; 10 seconds until the second, then 2 times as long each time, '
    '60 at most',
    'says how often it is tried, where its rule says so'
);
select pgwhen.register_action('charge', options => '{"retryPolicy": {"maximumAttempts": 9}}');
select t.a_rule('charge', 'booked', action_type => 'charge') as charge \gset
select is(
    t.reason('retry', :charge),
    '9 attempts; 10 seconds until the second, then 2 times as long each time', 'or its type'
);
select is(t.reason('delay', :later), 'due 60 seconds after it fires', 'says when an action is due');
select t.a_rule(
    'remind', 'booked',
    action_config =>
    '{"text": "x", "delay": {"until": {"field": "event.data.at", "offset": "-1 day"}}}'
) as remind \gset
select pgwhen.emit('booked', 'U1', '{"at": "2030-02-01"}') as good \gset
select pgwhen.emit('booked', 'U1', '{"at": "soon"}') as bad \gset
select t.process();
select
    is(t.reason('delay', :remind, :good), 'due at 2030-01-31T00:00:00Z', 'reads the event for it');
select is(
    t.gates(:remind, :good),
    array[
        'rule: pass', 'event: note', 'source: pass', 'frequency: pass', 'delay: pass',
        'pending: note', 'still wanted: pass', 'user: pass'
    ],
    'passes the delay where there is a time'
);
select is(
    t.gates(:remind, :bad),
    array[
        'rule: pass', 'event: note', 'source: pass', 'frequency: pass', 'delay: stop', 'log: note'
    ],
    'stops at the delay where there is none'
);
select is(
    t.reason('delay', :remind, :bad), 'delay.until: event.data.at is no time, got "soon"',
    'says why'
);
select is(
    (t.gates(:remind))[5:5], array['delay: note'], 'knows no time of an event that is only supposed'
);
update pgwhen.trigger_rule
set action_config = '{"text": "x", "delay": {"until": {"field": "user.none"}}}'
where id = :remind;
select is((t.gates(:remind))[5:5], array['delay: stop'], 'knows the user''s');
select is(
    (t.gates(:remind, :good))[5:5], array['delay: note'],
    'does not take what would stop now for what stopped then'
);

-- What waits, and what it will be asked ---------------------------------------------------------

select t.a_user('W1', '{"points": 5}');
select t.a_rule(
    'nag', 'nagged', '{"condition": {"user.points": 5}}', 'log_message',
    '{"text": "x", "delay": {"seconds": 60, "reEvaluateConditions": true}}'
) as nag \gset
select pgwhen.emit('nagged', 'W1') as nagged \gset
select t.process();
select is(
    t.gates(:nag, :nagged, 'W1'),
    array[
        'rule: pass', 'event: note', 'source: pass', 'condition: pass', 'frequency: pass',
        'delay: pass', 'pending: note', 'still wanted: pass', 'user: pass', 'condition again: pass'
    ],
    'shows what an action that waits will be asked'
);
select alike(
    t.reason('whenPending', :nag, user_id => 'W1'), 'pending: action % is due at %',
    'says that it would be in the way of another'
);
update pgwhen.line_user set attributes = '{"points": 4}' where user_id = 'W1';
select is(
    (t.gates(:nag, :nagged, 'W1'))[10], 'condition again: stop', 'and what would stop it now'
);
select is(
    t.reason('condition again', :nag, :nagged, 'W1'), 'condition_false', 'with the reason'
);
select is(
    (t.gates(:nag, user_id => 'W1'))[11], 'condition again: note',
    'which is no answer to what another event would do'
);
update pgwhen.line_user set attributes = '{"points": 5}' where user_id = 'W1';
select pgwhen.emit('nagged', 'W1') as skipped \gset
select t.process();
select is(
    t.gates(:nag, :skipped, 'W1'),
    array[
        'rule: pass', 'event: note', 'source: pass', 'condition: pass', 'frequency: pass',
        'delay: pass', 'whenPending: stop', 'log: note'
    ],
    'says of an event that the action of an earlier one was in the way'
);
update pgwhen.trigger_rule
set action_config = '{"text": "x", "delay": {"seconds": 60, "whenPending": "replace"}}'
where id = :nag;
select is(
    (
        select e.verdict || ' ' || (e.detail ->> 'whenPending')
        from pgwhen.explain(:nag, 'W1') as e
        where e.gate = 'whenPending'
    ),
    'note replace', 'and that it would be replaced'
);

-- Waits ---------------------------------------------------------------------------------------

delete from pgwhen.trigger_rule;
select t.it_is('2030-03-01 12:00+00');
select
    t.a_waiting_rule(
        'chase',
        '{"tracking": {"link": "quote"}, "onExpire": {"actionType": "log_message",
          "actionConfig": {"text": "Your quote"}}}'
    ) as chase,
    t.a_waiting_rule('offer', '{"after": "send"}') as offer
\gset
select is(
    t.reason('delay', :chase),
    'waits 3600 seconds for a click of {"link": "quote"}, then executed; not clicked: log_message',
    'says what an action waits for, and what is done without it'
);
select is(
    t.reason('delay', :offer), 'executed at once, then waits 3600 seconds for any tracked click',
    'says so of a wait after a send'
);
select pgwhen.emit('ordered', 'U1');
select t.process();
select is(
    t.reason('pending', :chase),
    'waits for a click of {"link": "quote"} until 2030-03-01T13:00:00Z',
    'says until when'
);
select t.a_click('U1', 'quote');
select t.process();
select is(
    t.reason('pending', :chase), 'pending, due at 2030-03-01T12:00:00Z, clicked',
    'says that it was clicked'
);

-- What is paused ----------------------------------------------------------------------------

select t.a_rule('held') as held \gset
select pgwhen.emit('ordered', 'U1') as before \gset
select t.process('{log_message}');
select pgwhen.pause('the gateway is down', action_type => 'log_message');
select pgwhen.pause('another account', line_oa_id => 'shop');
select pgwhen.emit('ordered', 'U1') as after \gset
select t.process('{log_message}');
select matches(
    t.reason('pause', :held),
    '^held since 2030-03-01T12:00:00Z by \S+: the gateway is down$', 'says who holds it, and why'
);
select is(
    t.gates(:held) @> '{pause: stop}', true, 'as the answer to what would happen now'
);
select is(
    t.gates(:held, :after) @> '{pause: stop}', true, 'and to why it is not done yet'
);
select is(
    t.gates(:held, :before) @> '{pause: stop}', false, 'but not to what was done before'
);
select pgwhen.resume(action_type => 'log_message');
select is(t.gates(:held) @> '{pause: stop}', false, 'until it is resumed');

select finish();
rollback;
