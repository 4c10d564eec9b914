-- pgwhen.process_events: a batch of events in one transaction; what raises harms only itself.
begin;
\ir ../helpers.psql
select plan(50);

select t.it_is('2030-01-07 12:00+00');

select results_eq(
    $$ select p.events, p.more, p.next_due_seconds, p.actions
        from pgwhen.process_events('w-1') as p $$,
    $$ values (0, false, null::float8, '[]'::jsonb) $$, 'does nothing where nothing waits'
);
select throws_ok(c.call, 'PW301', c.message, c.call || ' is refused')
from (values
    ($$ select pgwhen.process_events('') $$, 'a worker needs a name'),
    ($$ select pgwhen.process_events(null) $$, 'a worker needs a name'),
    (
        $$ select pgwhen.process_events('w', batch_size => 0) $$,
        'batch_size must be 1 to 10000, not 0'
    ),
    (
        $$ select pgwhen.process_events('w', batch_size => 10001) $$,
        'batch_size must be 1 to 10000, not 10001'
    )
) as c (call, message);

-- How much at once, and whether there is more.
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 5) as n;
select is(
    (
        select array[p.events::text, p.more::text]
        from pgwhen.process_events('w-1', batch_size => 3) as p
    ),
    '{3,true}', 'takes no more than batch_size, and says that there is more'
);
select is(
    (
        select array[p.events::text, p.more::text]
        from pgwhen.process_events('w-1', batch_size => 3) as p
    ),
    '{2,false}', 'takes the rest, and says that there is none'
);

-- When something will be due for this caller.
select t.an_action('2030-01-07 12:00:01.5+00', 'add_to_audience', '{"audience": "x"}');
select t.an_action('2030-01-07 12:00:01+00');
create function t.next_due(action_types text[]) returns float8 language sql as $$
select p.next_due_seconds from pgwhen.process_events('w-1', action_types) as p;
$$;
select
    is(
        t.next_due('{log_message}'),
        1::float8,
        'says when something is due of what the caller serves'
    );
select is(t.next_due('{}'), 1.5::float8, 'or what needs no worker');
select is(
    t.next_due('{other}'), 1.5::float8, 'whatever types the caller serves'
);
select t.it_is('2030-01-07 11:59:58+00');
select is(t.next_due('{log_message}'), null, 'and looks ahead no further than two seconds');
select t.it_is('2030-01-07 12:02+00');
select is(t.next_due('{log_message}'), -119::float8, 'also if it is overdue');
select is(
    (
        select p.next_due_seconds
        from pgwhen.process_events('w-1', '{log_message}', look_ahead => false) as p
    ),
    null, 'but not to who does not ask'
);
truncate pgwhen.scheduled_action;

select count(pgwhen.schedule_action('log_message', 'U' || n, '{"text": "hi"}'))
from generate_series(1, 3) as n;
select is(
    (select p.actions from pgwhen.process_events('w-1', '{log_message}') as p), '[]',
    'claims nothing but what its events have caused'
);
truncate pgwhen.scheduled_action;

-- What raises harms only itself -------------------------------------------------------------

create function t.picky(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language plpgsql as $$
begin
    if user_id = 'bad' then
        raise exception 'not for you' using errcode = 'XX123';
    end if;
    return '{"served": true}';
end;
$$;
select pgwhen.register_sql_action('picky', 't.picky(text, text, jsonb, jsonb)');
select t.a_rule('picky', action_type => 'picky', action_config => '{}') as picky \gset
select
    t.a_rule('audience', action_type => 'add_to_audience', action_config => '{"audience": "all"}')
        as audience
\gset
select pgwhen.emit('ordered', case n when 5 then 'bad' else 'U' || n end)
from generate_series(1, 8) as n;
select is((pgwhen.process_events('w-1')).events, 8, 'goes on where a SQL action raises');
select is(
    (select array_agg(a.user_id) from pgwhen.scheduled_action as a where a.status = 'done'),
    (select array_agg('U' || n order by n) from generate_series(1, 8) as n where n <> 5),
    'does it for the others'
);
select results_eq(
    $$ select a.user_id, a.action_type, a.status, a.retry_count from pgwhen.scheduled_action as a
        where a.status <> 'done' order by 2 $$,
    $$ values ('bad', 'add_to_audience', 'pending', 0), ('bad', 'picky', 'pending', 0) $$,
    'lets all actions of that event wait'
);
create function t.tick_at(at timestamptz) returns pgwhen.tick_report language sql as $$
select t.it_is(tick_at.at);
select pgwhen.tick();
$$;
select is((t.tick_at('2030-01-07 12:02+00')).actions, 2, 'which a tick does');
select is(t.log_of(:audience), array_fill('success'::text, array[8]), 'each once');
select results_eq(
    format(
        $$ select a.status, a.retry_count, a.error_message from pgwhen.scheduled_action as a
            where a.trigger_rule_id = %s and a.user_id = 'bad' $$,
        :picky
    ),
    $$ values ('pending', 1, 'XX123: not for you') $$, 'what raises is tried again'
);
select t.tick_at('2030-01-07 12:02:10+00');
select t.tick_at('2030-01-07 12:02:30+00');
select t.tick_at('2030-01-07 12:03:10+00');
select results_eq(
    format(
        $$ select a.status, a.retry_count from pgwhen.scheduled_action as a
            where a.trigger_rule_id = %s and a.user_id = 'bad' $$,
        :picky
    ),
    $$ values ('failed', 4) $$, 'and fails after one try and three retries'
);
select is(
    (
        select array_agg(l.error_message)
        from pgwhen.trigger_log as l
        where l.trigger_rule_id = :picky and l.status = 'failed'
    ),
    array['XX123: not for you'], 'which is logged once'
);
select is((t.tick_at('2030-01-07 13:00+00')).actions, 0, 'and then no more');

-- A deferred constraint is checked where it can still be caught.
create table t.ledger (
    user_id text, constraint one_each unique (user_id) deferrable initially deferred
);
create function t.enter(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$
insert into t.ledger (user_id) values (enter.user_id);
select '{}'::jsonb;
$$;
select pgwhen.register_sql_action('enter', 't.enter(text, text, jsonb, jsonb)');
select t.a_rule('enter', 'entered', action_type => 'enter', action_config => '{}') as enter \gset
insert into t.ledger values ('U2');
select pgwhen.emit('entered', 'U' || n) from generate_series(1, 3) as n;
select
    is((pgwhen.process_events('w-1')).events, 3, 'goes on where a deferred constraint is violated');
select pgwhen.tick();
select is(
    (
        select a.error_message
        from pgwhen.scheduled_action as a
        where a.user_id = 'U2' and a.action_type = 'enter'
    ),
    '23505: duplicate key value violates unique constraint "one_each"',
    'says so at the action that did it'
);
select
    results_eq(
        'table t.ledger', $$ values ('U2'), ('U1'), ('U3') $$, 'and the others have happened once'
    );

-- Batch functions: each its answer, and not one more.
create function t.shorten(
    line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]
) returns jsonb[]
language sql as $$ select config[2:] $$;
select
    pgwhen.register_sql_action(
        'shorten', 't.shorten(text[], text[], jsonb[], jsonb[])', batch => true
    );
select
    t.a_rule('shorten', 'shortened', action_type => 'shorten', action_config => '{}') as shorten
\gset
select pgwhen.emit('shortened', 'U1');
select pgwhen.process_events('w-1');
select pgwhen.tick();
select is(
    (select a.error_message from pgwhen.scheduled_action as a where a.trigger_rule_id = :shorten),
    'PW205: t.shorten returned 0 results for 1 actions',
    'refuses a batch function that loses an answer'
);

-- A function that is gone, and one that returns nothing.
create function t.mute(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ select null::jsonb $$;
select pgwhen.register_sql_action('mute', 't.mute(text, text, jsonb, jsonb)');
select t.a_rule('mute', 'muted', action_type => 'mute', action_config => '{}') as mute \gset
select pgwhen.emit('muted', 'U1');
select pgwhen.process_events('w-1');
select is(t.log_of(:mute), '{success}', 'a function may return null');
drop function t.mute(text, text, jsonb, jsonb);
select pgwhen.emit('muted', 'U1');
select is((pgwhen.process_events('w-1')).events, 1, 'goes on where a function is gone');
select pgwhen.tick();
select alike(
    (
        select a.error_message
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :mute and a.status = 'pending'
    ),
    '42883: function t.mute(text, text, jsonb, jsonb) does not exist', 'whose actions say so'
);

-- Whom it may not hold up: nothing is left of the locks' timeout, and nothing of the cause.
set local lock_timeout = '7s';
select pgwhen.emit('ordered', 'bad');
select pgwhen.process_events('w-1');
select pgwhen.tick();
select is(current_setting('lock_timeout'), '7s', 'leaves lock_timeout as it was');
reset lock_timeout;
select pgwhen.emit('unrelated', 'U1');
select is(
    (select o.chain from _pgwhen.outbox as o where o.type = 'unrelated'), '{}',
    'leaves no cause behind, not even where an action raised'
);

-- Loops -------------------------------------------------------------------------------------

delete from pgwhen.trigger_rule;
truncate pgwhen.scheduled_action;
delete from _pgwhen.outbox;
select t.a_user('L', '{"n": 0}');
select t.process();

select
    t.a_rule('own', 'echo', action_type => 'emit_event', action_config => '{"type": "echo"}') as own
\gset
select pgwhen.emit('echo', 'L');
select is(t.process(), 2, 'a rule that causes its own event is asked once more');
select is(
    t.log_of(:own),
    array['success', 'suppressed: loop: the rule is in its own chain, or the chain is too long'],
    'and does not fire again'
);

select
    t.a_rule('ping', 'ping', action_type => 'emit_event', action_config => '{"type": "pong"}')
        as ping
\gset
select
    t.a_rule('pong', 'pong', action_type => 'emit_event', action_config => '{"type": "ping"}')
        as pong
\gset
select pgwhen.emit('ping', 'L');
select is(t.process(), 3, 'neither do two that cause each other''s');
select is(
    t.log_of(:ping) || t.log_of(:pong),
    array[
        'success',
        'suppressed: loop: the rule is in its own chain, or the chain is too long',
        'success'
    ],
    'the first of them is in its own chain'
);

select t.a_rule(
    'attribute',
    'attribute_changed',
    '{"attribute": "n"}',
    'set_attribute',
    '{"attribute": "m", "value": 1}'
) as attribute \gset
select t.a_rule(
    'back',
    'attribute_changed',
    '{"attribute": "m"}',
    'set_attribute',
    '{"attribute": "n", "value": 9}'
) as back \gset
update pgwhen.line_user set attributes = '{"n": 1}' where user_id = 'L';
select is(t.process(), 3, 'attributes that set each other end too');
select
    is(
        t.log_of(:attribute),
        array[
            'success', 'suppressed: loop: the rule is in its own chain, or the chain is too long'
        ],
        'and the first is not done twice'
    );

-- Twelve rules in a row are more than a chain may have.
select t.a_rule(
    'link ' || n,
    'link ' || n,
    action_type => 'emit_event',
    action_config => jsonb_build_object('type', 'link ' || n + 1)
) from generate_series(1, 12) as n;
select pgwhen.emit('link 1', 'L');
select is(t.process(), 11, 'a chain ends at maxChainDepth');
select is(
    (
        select array_agg(r.name order by r.id)
        from pgwhen.trigger_rule as r
        where (t.log_of(r.id))[1] like 'suppressed: loop:%'
    ),
    '{link 11}', 'with the rule that would make it longer'
);
insert into pgwhen.setting (name, value) values ('maxChainDepth', '3');
select pgwhen.emit('link 1', 'L');
select is(t.process(), 4, 'which is a setting');

-- A user's function passes the chain on by itself, one by one or in a batch, now or later.
create function t.touch(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$
update pgwhen.line_user set attributes = attributes || jsonb_build_object('touched',
    ctx -> 'actionId')
where user_id = $2
returning attributes;
$$;
create function t.touch_all(
    line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[]
) returns jsonb[]
language sql as $$
select array_agg(to_jsonb(pgwhen.emit('touched', u))) from unnest($2) as u;
$$;
select pgwhen.register_sql_action('touch', 't.touch(text, text, jsonb, jsonb)');
select
    pgwhen.register_sql_action(
        'touch all', 't.touch_all(text[], text[], jsonb[], jsonb[])', batch => true
    );
select
    t.a_rule('touch', 'attribute_changed', '{"attribute": "touched"}', 'touch', '{}') as touch
\gset
update pgwhen.line_user set attributes = attributes || '{"touched": 0}' where user_id = 'L';
select is(t.process(), 2, 'a function that sets off its own rule does so once');
select
    is(
        t.log_of(:touch),
        array[
            'success', 'suppressed: loop: the rule is in its own chain, or the chain is too long'
        ],
        'as its chain shows'
    );
select
    t.a_rule('touch all', 'touched', action_type => 'touch all', action_config => '{}') as touch_all
\gset
select pgwhen.emit('touched', 'L' || n) from generate_series(1, 3) as n;
select is(t.process(), 6, 'and so does one that takes batches');
select t.a_rule(
    'touch later',
    'attribute_changed',
    '{"attribute": "touched"}',
    'touch',
    '{"delay": {"seconds": 60}}'
) as later \gset
update pgwhen.trigger_rule set enabled = false where id = :touch;
update pgwhen.line_user set attributes = attributes || '{"touched": 0}' where user_id = 'L';
select t.process();
select t.tick_at('2030-01-07 13:01+00');
select t.process();
select
    is(
        t.log_of(:later),
        array[
            'success', 'suppressed: loop: the rule is in its own chain, or the chain is too long'
        ],
        'also when it was put off'
    );
select is(
    (
        select array_agg(distinct e.chain)
        from pgwhen.event as e
        where e.type = 'touched' and e.chain <> '{}'
    ),
    array[array[:touch_all]::bigint[]], 'each user''s event has the chain of that user''s action'
);

-- Rules that fire for the same event are not in each other's chain, however many they are.
delete from pgwhen.setting;
select t.a_rule(
    'sibling ' || n, 'family', '{"condition": {"event.key": null}}', 'emit_event',
    jsonb_build_object('type', 'family', 'key', n::text)
) from generate_series(1, 12) as n;
select t.a_rule('child', 'family', '{"key": "7"}') as child \gset
select pgwhen.emit('family', 'L');
select is(t.process(), 13, 'siblings each cause an event');
select is(
    (
        select array_agg(distinct cardinality(e.chain))
        from pgwhen.event as e
        where e.type = 'family'
    ),
    '{0,1}', 'which has that sibling''s chain'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.trigger_rule_id = :child), 1::bigint,
    'and fires what any one of them would'
);
select t.a_rule(
    'both ' || n, 'attribute_changed', '{"attribute": "both"}', 'set_attribute',
    jsonb_build_object('attribute', 'both ' || n, 'value', 1)
) from generate_series(1, 2) as n;
select t.a_rule(
    'later ' || n, 'attribute_changed', '{"attribute": "both"}', 'set_attribute',
    jsonb_build_object('attribute', 'later ' || n, 'value', 1, 'delay', '{"seconds": 60}'::jsonb)
) from generate_series(1, 2) as n;
update pgwhen.line_user set attributes = attributes || '{"both": 0}' where user_id = 'L';
select t.process();
select t.tick_at('2030-01-07 14:00+00');
select set_eq(
    $$
    select e.key, e.chain
    from pgwhen.event as e
    where e.key like 'both _' or e.key like 'later _'
    $$,
    $$
    select r.action_config ->> 'attribute', array[r.id]
    from pgwhen.trigger_rule as r
    where r.name like 'both _' or r.name like 'later _'
    $$,
    'attributes that several rules set have each the chain of its own'
);

select finish();
rollback;
