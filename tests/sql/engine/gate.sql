-- _pgwhen.gate: what an action is asked when its time has come.
begin;
\ir ../helpers.psql
select plan(45);

select t.it_is('2030-01-07 12:00+00');
select pgwhen.register_action('send_sms', options => '{"send": true}');

-- A rule that waits for a minute, an event for each of the users, and what became of it.
create function t.a_timer(
    name text,
    delay jsonb default '{}',
    condition jsonb default '{}',
    action_type text default 'log_message',
    frequency text default 'always',
    user_ids text[] default '{U1}',
    data jsonb default '{}'
)
returns bigint
language plpgsql
as $$
declare
    v_rule constant bigint := t.a_rule(
        a_timer.name, a_timer.name, jsonb_build_object('condition', a_timer.condition),
        a_timer.action_type,
        jsonb_build_object('text', 'hello', 'delay', '{"seconds": 60}'::jsonb || a_timer.delay),
        a_timer.frequency
    );
begin
    perform pgwhen.emit(a_timer.name, u, a_timer.data) from unnest(a_timer.user_ids) as u;
    perform t.process();
    return v_rule;
end;
$$;
create function t.claimed(batch_size integer default 500) returns text[] language sql as $$
select array(
    select c.user_id
    from pgwhen.claim_actions('w-1', batch_size, '{log_message,send_sms,set_attribute}') as c
    order by c.user_id
);
$$;
create function t.state(rule bigint) returns text[] language sql as $$
select array(
    select a.user_id || ' ' || concat_ws(': ', a.status, a.error_message)
    from pgwhen.scheduled_action as a
    where a.trigger_rule_id = state.rule
    order by a.user_id
);
$$;
create procedure t.later() language sql as $$
select t.it_is(_pgwhen.clock() + interval '1 minute');
$$;

-- Still wanted ------------------------------------------------------------------------------

select t.a_timer('kept', '{"onRuleDisabled": "keep"}', user_ids => '{keep}') as kept \gset
select t.a_timer('live', user_ids => '{live}') as live \gset
select t.a_timer('disabled', frequency => 'once', user_ids => '{off}') as disabled \gset
select t.a_timer('parked', user_ids => '{parked}') as parked \gset
update pgwhen.trigger_rule set enabled = false where id in (:kept, :disabled);
update pgwhen.trigger_rule set parked_reason = 'a loop?' where id = :parked;
select is(t.state(:disabled), array['off pending'], 'nothing is asked before the time has come');
call t.later();
select is(
    t.claimed(), array['keep', 'live'],
    'a rule that is disabled or parked does nothing more, unless its delay says keep'
);
select is(t.state(:disabled), array['off cancelled: rule_disabled'], 'the row has the reason');
select is(t.state(:parked), array['parked cancelled: rule_disabled'], 'also of a parked rule');
select is(t.log_of(:disabled), array['cancelled: rule_disabled'], 'and so has the log');
select is_empty(
    format('select from _pgwhen.reservation as r where r.trigger_rule_id = %s', :disabled),
    'the frequency slot is given back'
);

select t.a_timer('gone', '{"onRuleDisabled": "keep"}', user_ids => '{gone}') as gone \gset
-- As a pass leaves it that was open when the rule was deleted.
set local session_replication_role = replica;
delete from pgwhen.trigger_rule where id = :gone;
set local session_replication_role = origin;
delete from _pgwhen.rule where trigger_rule_id = :gone;
call t.later();
select is(t.claimed(), '{}', 'a rule that is gone does nothing more, keep or not');
select is(t.state(:gone), array['gone cancelled: rule_deleted'], 'with the reason');

select t.a_timer('soft', '{"onRuleDisabled": "keep"}', user_ids => '{soft}') as soft \gset
set local session_replication_role = replica;
update pgwhen.trigger_rule set deleted_date = _pgwhen.clock() where id = :soft;
set local session_replication_role = origin;
delete from _pgwhen.rule where trigger_rule_id = :soft;
call t.later();
select is(t.claimed(), '{}', 'nor does one that is soft-deleted');
select is(t.state(:soft), array['soft cancelled: rule_deleted'], 'with the same reason');

select t.an_action() as direct \gset
select is(t.claimed(), array['U1'], 'an action without a rule is not asked for one');

-- Retries -----------------------------------------------------------------------------------

select t.a_timer('again', frequency => 'once', user_ids => '{again}') as again \gset
call t.later();
select c.id as again_id, c.token as again_token
from pgwhen.claim_actions('w-1') as c
\gset
select pgwhen.fail_actions(
    'w-1', array[:again_id], array[:'again_token'::uuid],
    array['{"message": "busy", "nextRetryDelay": 0}'::jsonb]
);
update pgwhen.trigger_rule set enabled = false where id = :again;
select is(t.claimed(), '{}', 'a retry is asked too');
select is(
    (select count(*) from _pgwhen.reservation as r where r.trigger_rule_id = :again), 1::bigint,
    'but keeps its slot: the attempt before may have been delivered'
);

-- What a pass hands out itself has been judged a moment ago.
select t.a_rule('now', 'now', '{}', 'send_sms') as now_rule \gset
insert into pgwhen.line_user (user_id, is_friend) values ('foe', false);
select pgwhen.emit('now', 'foe');
select is(
    jsonb_array_length(
        (pgwhen.process_events('w-1', action_types => '{send_sms}')).actions
    ),
    1, 'what a pass hands out itself is not asked'
);
select t.force($$
    update pgwhen.scheduled_action set status = 'done', claim_token = null, deadline = null
    where status = 'processing'
$$);

-- The user ----------------------------------------------------------------------------------

select t.a_user('known');
select t.a_user('foe2');
select t.a_timer(
    'sends', action_type => 'send_sms', frequency => 'once', user_ids => '{known,foe,foe2,unknown}'
) as sends \gset
select t.a_timer('logs', user_ids => '{foe,foe2}') as logs \gset
update pgwhen.line_user set is_friend = false where user_id = 'foe2';
call t.later();
select is(
    t.claimed(), array['foe', 'foe2', 'known', 'unknown'],
    'sends reach friends and users who are not known, other actions everybody'
);
select is(
    t.state(:sends),
    array[
        'foe cancelled: not_a_friend', 'foe2 cancelled: not_a_friend', 'known processing',
        'unknown processing'
    ],
    'a send to who is no friend is cancelled'
);
select is(t.state(:logs), array['foe processing', 'foe2 processing'], 'what is no send is not');
select set_eq(
    format(
        'select r.user_id from _pgwhen.reservation as r where r.trigger_rule_id = %s', :sends
    ),
    array['known', 'unknown'], 'and its slot is given back'
);

-- As a pass leaves it that was open when the user was deleted.
select t.a_timer('bye', user_ids => '{known,unknown}') as bye \gset
set local session_replication_role = replica;
delete from pgwhen.line_user where user_id = 'known';
set local session_replication_role = origin;
call t.later();
select is(
    t.claimed(), array['unknown'],
    'a user who is gone gets nothing more; one who never was there does'
);
select is(
    t.state(:bye), array['known cancelled: user_deleted', 'unknown processing'], 'with the reason'
);

select t.a_user('here');
select t.a_timer('elsewhere', user_ids => '{here}') as elsewhere \gset
select t.a_user('here', line_oa_id => 'other');
delete from pgwhen.line_user where user_id = 'here' and line_oa_id = 'other';
call t.later();
select is(t.claimed(), array['here'], 'a user of another account is another user');

-- The condition again -----------------------------------------------------------------------

insert into pgwhen.line_user (user_id, attributes)
select u, '{"points": 5}' from unnest(array['a', 'b', 'c']) as u;
select t.a_timer(
    'points', '{"reEvaluateConditions": true}', '{"user.points": {"$gte": 5}}',
    frequency => 'once', user_ids => '{a,b,c}'
) as points \gset
select t.a_timer('careless', '{}', '{"user.points": {"$gte": 5}}', user_ids => '{a}') as careless
\gset
select is(
    (
        select a.source_config
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :points and a.user_id = 'a'
    ),
    '{"condition": {"user.points": {"$gte": 5}}}', 'the condition is kept in the row'
);
select is(
    (select a.source_config from pgwhen.scheduled_action as a where a.trigger_rule_id = :careless),
    null, 'where it is asked again'
);
update pgwhen.line_user set attributes = '{"points": 4}' where user_id = 'a';
update pgwhen.line_user set attributes = '{}' where user_id = 'b';
call t.later();
select is(t.claimed(), array['a', 'c'], 'sees the facts of that moment');
select is(
    t.state(:points),
    array['a cancelled: condition_false', 'b cancelled: condition_false', 'c processing'],
    'and cancels what has become false'
);
select is(t.state(:careless), array['a processing'], 'but only where the delay asks for it');
select is((t.log_of(:points))[1], 'cancelled: condition_false', 'the log has it');
select set_eq(
    format('select r.user_id from _pgwhen.reservation as r where r.trigger_rule_id = %s', :points),
    array['c'], 'the slot is given back'
);

select t.a_timer(
    'event', '{"reEvaluateConditions": true}',
    '{"event.data.total": 7, "event.type": "event", "event.at": {"$lte": {"$now": "-1 minute"}}}',
    user_ids => '{no}', data => '{"total": 7}'
) as no_event \gset
select is(t.state(:no_event), '{}', 'an event is not older than itself when it fires');
select t.a_timer(
    'event2', '{"reEvaluateConditions": true}',
    '{"event.data.total": 7, "event.type": "event2", "event.at": {"$gt": {"$now": "-1 minute"}}}',
    user_ids => '{a}', data => '{"total": 7}'
) as event2 \gset
select t.a_timer(
    'event3', '{"reEvaluateConditions": true}',
    '{"event.data.total": 7, "event.at": {"$gt": {"$now": "-2 minutes"}}}',
    user_ids => '{b}', data => '{"total": 7}'
) as event3 \gset
call t.later();
select is(t.claimed(), array['b'], 'sees the event as it was, and now as it is');

insert into pgwhen.audience (name) values ('gold members');
insert into pgwhen.audience_member (audience_id, user_id)
select a.id, u from pgwhen.audience as a, unnest(array['a', 'b']) as u;
select t.a_timer(
    'member', '{"reEvaluateConditions": true}', '{"$audience": "gold members"}',
    user_ids => '{a,b}'
) as member \gset
delete from pgwhen.audience_member where user_id = 'a';
call t.later();
select is(t.claimed(), array['b'], 'sees the audiences of that moment');

-- The frozen one, whatever the rule has become; rules that differ are each judged by their own.
update pgwhen.line_user set attributes = '{"points": 5}' where user_id in ('a', 'b', 'c');
select t.a_timer(
    'edited', '{"reEvaluateConditions": true, "onRuleDisabled": "keep"}', '{"user.points": 5}',
    user_ids => '{a,b}'
) as edited \gset
select t.a_timer(
    'edited2', '{"reEvaluateConditions": true, "onRuleDisabled": "keep"}',
    '{"user.points": {"$gt": 4}}', user_ids => '{c}'
) as edited2 \gset
update pgwhen.trigger_rule set source_config = '{"condition": {"user.points": 1}}'
where id = :edited;
update pgwhen.trigger_rule set enabled = false where id = :edited2;
update pgwhen.line_user set attributes = '{"points": 4}' where user_id = 'a';
call t.later();
select is(t.claimed(), array['b', 'c'], 'an edited or disabled rule''s is the one it fired with');
select is(
    t.state(:edited), array['a cancelled: condition_false', 'b processing'], 'true or false'
);

-- What raises ends the one that does it.
select t.a_timer(
    'broken', '{"reEvaluateConditions": true}', '{"user.points": {"$gte": 4}}',
    frequency => 'once', user_ids => '{a,b,c}'
) as broken \gset
select t.force(format(
    $$
    update pgwhen.scheduled_action
    set source_config = '{"condition": {"user.points": {"$near": 1}}}'
    where trigger_rule_id = %s and user_id = 'b'
    $$, :broken
));
call t.later();
select is(t.claimed(), array['a', 'c'], 'one that cannot be judged keeps nobody else back');
select alike((t.state(:broken))[2], 'b failed: condition: PW102: %', 'it fails, and says why');
select set_eq(
    format('select r.user_id from _pgwhen.reservation as r where r.trigger_rule_id = %s', :broken),
    array['a', 'c'], 'and gives its slot back'
);

-- Order -------------------------------------------------------------------------------------

select t.a_user('all', '{"points": 5}');
select t.a_timer(
    'order', '{"reEvaluateConditions": true}', '{"user.points": 5}', 'send_sms',
    user_ids => '{all}'
) as in_order \gset
update pgwhen.line_user set attributes = '{}', is_friend = false where user_id = 'all';
update pgwhen.trigger_rule set enabled = false where id = :in_order;
select results_eq(
    format(
        'select g.unwanted, g.unreachable, g.untrue
        from _pgwhen.gates(array(
            select a.id from pgwhen.scheduled_action as a where a.trigger_rule_id = %s
        ), _pgwhen.clock()) as g', :in_order
    ),
    $$ values ('rule_disabled', 'not_a_friend', 'condition_false') $$, 'each gate has its say'
);
call t.later();
select is(t.claimed(), '{}', 'one is enough');
select is(t.state(:in_order), array['all cancelled: rule_disabled'], 'the first counts');

-- Where all of a batch are stopped -------------------------------------------------------------

select t.a_timer('many', user_ids => array(select 'm' || n from generate_series(1, 7) as n)) as many
\gset
update pgwhen.trigger_rule set enabled = false where id = :many;
call t.later();
select t.an_action(user_id => 'last');
select is(
    t.claimed(2), array['last'], 'a batch of which nothing is left is followed by the next one'
);
select is((select count(*) from pgwhen.due), 0::bigint, 'until something is found');

-- SQL actions, by the tick ----------------------------------------------------------------------

select t.a_rule(
    'sql', 'sql', '{}', 'set_attribute',
    '{"attribute": "tier", "value": "gold", "delay": {"seconds": 60}}'
) as sql_rule \gset
select t.a_user('sql1');
select pgwhen.emit('sql', 'sql1');
select t.process();
update pgwhen.trigger_rule set enabled = false where id = :sql_rule;
call t.later();
select is((pgwhen.tick()).actions, 0, 'the tick asks the same of SQL actions');
select is(t.state(:sql_rule), array['sql1 cancelled: rule_disabled'], 'with the same outcome');

-- What needs no gate ---------------------------------------------------------------------------

select is(
    _pgwhen.gate(row('{1,2}', '{}', null, null)::_pgwhen.due, _pgwhen.clock()), '{1,2}',
    'what asks for nothing is not looked at'
);
select is(_pgwhen.sends('{send_sms,log_message}'), '{send_sms}', 'knows which types are sends');

select finish();
rollback;
