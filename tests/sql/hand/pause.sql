-- pgwhen.pause: the incident switch, on.
begin;
\ir ../helpers.psql
select plan(34);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('one') as one \gset
select t.a_rule('two') as two \gset
select t.a_rule('sql', action_type => 'add_to_audience', action_config => '{"audience": "a"}')
    as sql \gset
select t.a_rule('other', line_oa_id => 'shop') as other \gset
-- What a call starts of one event of each account: types, and from which rule.
create function t.event() returns void language sql as $$
select pgwhen.emit('ordered', 'U1');
select pgwhen.emit('ordered', 'U1', line_oa_id => 'shop');
select t.process();
$$;
create function t.claimed() returns setof text language sql as $$
select r.name
from pgwhen.claim_actions('w-1', null, '{log_message,add_to_audience}') as c
inner join pgwhen.trigger_rule as r on r.id = c.rule
order by 1;
$$;
create function t.starts() returns text[] language sql as $$
select array(select t.claimed());
$$;

-- Everything.
select pgwhen.pause('all is wrong');
select t.event();
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.status = 'pending'), 4::bigint,
    'what events cause waits, even what would be done at once'
);
select is_empty('table pgwhen.trigger_log', 'nothing is done');
select is(t.starts(), '{}', 'nothing is claimed');
select results_eq(
    $$
    select jsonb_array_length(p.actions), p.next_due_seconds
    from pgwhen.process_events('w-1', '{log_message}') as p
    $$,
    $$ values (0, null::float8) $$, 'nothing is due, so that nobody asks again and again'
);
select results_eq(
    'select t.actions, t.more from pgwhen.tick() as t', 'values (0, false)', 'nothing ticks'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.held_by is not null), 0::bigint,
    'no row is written for it'
);
select pgwhen.emit('ordered', 'U1');
select is(
    (
        select jsonb_array_length(p.actions)
        from pgwhen.process_events('w-1', '{log_message}') as p
    ), 0, 'nothing is handed out with an event'
);
select pgwhen.resume();
select is(
    t.starts(), '{one,one,other,sql,sql,two,two}', 'and after it nothing is lost'
);
select t.force($$ truncate pgwhen.scheduled_action $$);

-- One type.
select pgwhen.pause('no sending', action_type => 'log_message');
select t.event();
select is(
    (select array_agg(l.trigger_rule_id) from pgwhen.trigger_log as l), array[:sql]::bigint[],
    'a type: others are done'
);
select is(t.starts(), '{}', 'and it is not claimed');
select results_eq(
    $$ select p.next_due_seconds from pgwhen.process_events('w-1', '{log_message}') as p $$,
    $$ values (null::float8) $$, 'nor due'
);
select pgwhen.resume(action_type => 'log_message');
select t.force($$ truncate pgwhen.scheduled_action $$);

-- One rule.
select pgwhen.pause('wrong text', rule => :one);
select t.event();
select is(t.starts(), '{other,two}', 'a rule: others are claimed');
select is(
    (select array_agg(a.trigger_rule_id) from pgwhen.scheduled_action as a
    where a.held_by is not null), array[:one]::bigint[],
    'its action is shelved by the claim that met it'
);
select results_eq(
    $$ select p.next_due_seconds from pgwhen.process_events('w-1', '{log_message}') as p $$,
    $$ values (null::float8) $$, 'so that it is not due'
);
select pgwhen.resume(rule => :one);
select is(t.starts(), '{one}', 'until it is resumed');
select t.force($$ truncate pgwhen.scheduled_action $$);

-- One account, and overlapping ones.
select pgwhen.pause('the shop is closed', line_oa_id => 'shop');
select pgwhen.pause('no sending', action_type => 'log_message', line_oa_id => 'shop');
select t.event();
select is(t.starts(), '{one,two}', 'an account: others are claimed');
select pgwhen.resume(line_oa_id => 'shop');
select is(t.starts(), '{}', 'a pause that another one overlaps is held by that');
select pgwhen.resume(line_oa_id => 'shop', action_type => 'log_message');
select is(t.starts(), '{other}', 'until the last one is resumed');
select t.force($$ truncate pgwhen.scheduled_action $$);

-- What it says.
select throws_ok(
    'select pgwhen.pause(null)', 'PW606', 'a pause needs a reason', 'refuses no reason'
);
select throws_ok($$ select pgwhen.pause(' ') $$, 'PW606', null, 'nor a blank one');
select throws_ok(
    $$ select pgwhen.pause('x', action_type => 'send_mesage') $$, 'PW606',
    'there is no action type "send_mesage"', 'refuses a type that is none'
);
select alike(
    t.hint_of($$ select pgwhen.pause('x', action_type => 'send_mesage') $$),
    '%add_to_audience, %log_message%', 'and says which there are'
);
select throws_ok(
    $$ select pgwhen.pause('x', rule => 0) $$, 'PW606', 'there is no rule 0',
    'refuses a rule that is none'
);
select lives_ok(
    $$ select pgwhen.pause('x', line_oa_id => 'unheard of') $$,
    'an account need not be registered'
);
select pgwhen.pause('y', line_oa_id => 'unheard of');
select results_eq(
    'select p.line_oa_id, p.reason, p.paused_by from pgwhen.paused as p',
    format($$ values ('unheard of', 'y', %L) $$, session_user), 'said again, changes the reason'
);

-- A claim does not walk what is paused again and again.
select pgwhen.pause('wrong text', rule => :one);
insert into pgwhen.scheduled_action (trigger_rule_id, user_id, action_type, execute_at, key)
select
    case when n > 3000 then :two else :one end, 'U' || n, 'log_message',
    timestamptz '2030-01-07 11:00+00' + n * interval '1 millisecond', gen_random_uuid()
from generate_series(1, 3003) as n;
select is(
    (select array_agg(c.user_id order by c.user_id) from pgwhen.claim_actions('w-1', 2) as c),
    '{U3001,U3002}', 'a claim finds what lies behind thousands of paused ones'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.held_by is not null), 3000::bigint,
    'each of which it has met once'
);
select is(
    (select array_agg(c.user_id) from pgwhen.claim_actions('w-1', 2) as c), '{U3003}',
    'the next claim goes on behind them'
);
select is(
    (select array_agg(c.user_id) from pgwhen.claim_actions('w-1', 2) as c), null,
    'and then there is nothing'
);
select pgwhen.resume(rule => :one);
select is(
    (select array_agg(c.user_id) from pgwhen.claim_actions('w-1', 2) as c), '{U1,U2}',
    'after it the oldest come first'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.held_by is not null), 0::bigint,
    'and nothing is held any more'
);

-- A paused action that has failed does not make ticks careful with what is not paused.
truncate pgwhen.scheduled_action;
select pgwhen.pause('no sending', action_type => 'set_attribute');
select t.an_action(
    '2030-01-07 11:00+00', 'set_attribute', '{"attribute": "a", "value": 1}', retry_count => 1
);
select t.an_action(action_type => 'add_to_audience', action_config => '{"audience": "a"}')
from generate_series(1, 3);
select is((select t.actions from pgwhen.tick() as t), 3, 'a tick does all that is not paused');

-- Who asks for actions gets their ids, paused or not.
truncate pgwhen.scheduled_action;
select isnt(
    pgwhen.schedule_action('set_attribute', 'U1', '{"attribute": "a", "value": 1}'), null,
    'an action that is held at once has an id'
);
select pgwhen.pause('not there', line_oa_id => 'shop');
create table t.made as
select s.id, s.n
from pgwhen.schedule_actions('set_attribute', '{U1,U2}', array_fill(
    '{"attribute": "a", "value": 1}'::jsonb, '{2}'
)) with ordinality as s (id, n);
select results_eq(
    $$
    select a.user_id
    from t.made as m
    inner join pgwhen.scheduled_action as a on a.id = m.id
    order by m.n
    $$,
    $$ values ('U1'), ('U2') $$, 'and those of many come in their order'
);

select finish();
rollback;
