-- What each role can do, and that it can do nothing else.
begin;
\ir helpers.psql
select plan(157);

-- What becomes of a statement that somebody makes: 'ok', or its SQLSTATE.
create function t.tried(role name, statement text) returns text language plpgsql as $$
begin
    execute format('set local role %I', tried.role);
    execute tried.statement;
    reset role;
    return 'ok';
exception
    when others then
        return sqlstate || ' ' || sqlerrm;
end;
$$;
create function t.said(role name, verb text, statement text) returns text language sql as $$
select format('%s %s: %s', role, verb, regexp_replace(trim(e'\n ' from statement), '\s+', ' ',
    'g'));
$$;
create function t.can(role name, statements text[]) returns setof text language sql as $$
select is(t.tried(can.role, s.statement), 'ok', t.said(can.role, 'can', s.statement))
from unnest(can.statements) with ordinality as s (statement, n) order by s.n;
$$;
create function t.cannot(role name, statements text[]) returns setof text language sql as $$
select alike(
    t.tried(cannot.role, s.statement), '42501 %', t.said(cannot.role, 'cannot', s.statement)
)
from unnest(cannot.statements) with ordinality as s (statement, n) order by s.n;
$$;

insert into pgwhen.account (line_oa_id, secrets) values ('shop', '{"token": "s3cret"}');
select t.a_user('U1', '{"tier": "gold"}');
select t.a_rule('r') as rule \gset
select t.process();

-- Each does its job ---------------------------------------------------------------------------

select t.can('pgwhen_viewer', array[
    $$ select from pgwhen.trigger_rule $$,
    $$ select from pgwhen.trigger_log $$,
    $$ select from pgwhen.scheduled_action $$,
    $$ select from pgwhen.line_user $$,
    $$ select from pgwhen.setting $$,
    $$ select line_oa_id, organization_id, time_zone, created_date from pgwhen.account $$,
    $$ select * from pgwhen.queue $$,
    $$ select * from pgwhen.due $$,
    $$ select * from pgwhen.pending $$,
    $$ select * from pgwhen.paused $$,
    $$ select * from pgwhen.failed_actions $$,
    $$ select * from pgwhen.running $$,
    $$ select * from pgwhen.rule_history $$,
    $$ select * from pgwhen.user_history $$,
    $$ select * from pgwhen.rule_counts $$,
    $$ select * from pgwhen.event $$,
    $$ select * from pgwhen.status() $$,
    $$ select * from pgwhen.tail() $$,
    $$ select pgwhen.version() $$,
    $$ select pgwhen.matches('{"user.tier": "gold"}', '{"user": {"tier": "gold"}}') $$,
    $$ select * from pgwhen.validate_rule('{}') $$,
    format($$ select * from pgwhen.explain(%s, 'U1') $$, :rule)
]);
select t.can('pgwhen_editor', array[
    $$
    insert into pgwhen.trigger_rule (name, source_type, source_config, action_type, action_config)
    values ('e', 'attribute_changed', '{"attribute": "tier"}', 'add_to_audience',
        '{"audience": "x"}')
    $$,
    $$ update pgwhen.trigger_rule set enabled = false where name = 'e' $$,
    $$ update pgwhen.trigger_rule set deleted_date = now() where name = 'e' $$,
    $$ insert into pgwhen.audience (name) values ('gold members') $$,
    $$ insert into pgwhen.audience_member (audience_id, user_id) select id, 'U1'
        from pgwhen.audience $$,
    $$ update pgwhen.audience set description = 'the best' $$,
    $$ delete from pgwhen.audience_member $$,
    $$ delete from pgwhen.audience $$,
    $$ select * from pgwhen.validate_rule('{}') $$,
    format($$ select * from pgwhen.explain(%s, 'U1') $$, :rule),
    $$ select * from pgwhen.rule_history $$,
    $$ select * from pgwhen.paused $$,
    $$ select * from pgwhen.pending $$,
    $$ select pgwhen.pause('wrong text', 'log_message') $$,
    $$ select pgwhen.resume(action_type => 'log_message', mode => 'skip') $$,
    $$ select pgwhen.reschedule_action(a.id, now()) from pgwhen.pending as a $$,
    $$ select pgwhen.run_action_now(a.id) from pgwhen.pending as a $$,
    $$ select pgwhen.cancel_action(a.id) from pgwhen.pending as a $$,
    $$ select pgwhen.retry_action(a.id) from pgwhen.scheduled_action as a
        where a.status = 'cancelled' $$,
    $$ select pgwhen.emit('ordered', 'U1') $$
]);
select t.can('pgwhen_application', array[
    $$ insert into pgwhen.line_user (user_id, attributes) values ('U2', '{"tier": "gold"}') $$,
    $$
    insert into pgwhen.line_user (user_id, attributes) values ('U2', '{"tier": "silver"}')
    on conflict (line_oa_id, user_id) do update set attributes = excluded.attributes
    $$,
    $$ update pgwhen.line_user set attributes = '{}' where user_id = 'U2' $$,
    $$ delete from pgwhen.line_user where user_id = 'U2' $$,
    $$ insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote') $$,
    $$ insert into pgwhen.campaign_click (user_id, link) values ('U1', 'offer') $$,
    $$ insert into pgwhen.friend_track_event (user_id, event) values ('U1', 'follow') $$,
    $$ insert into pgwhen.friend_track_event (user_id, event) values ('new', 'unfollow') $$,
    $$ delete from pgwhen.line_user where user_id = 'new' $$,
    $$ insert into pgwhen.booking_event (user_id, status) values ('U1', 'confirmed') $$,
    $$ select pgwhen.emit('ordered', 'U1', '{"total": 5}') $$,
    $$ select pgwhen.schedule_action('log_message', 'U1', '{"text": "x"}') $$,
    $$ select pgwhen.schedule_actions('log_message', '{U1}', array['{"text": "x"}'::jsonb]) $$,
    $$ select pgwhen.event_time('1997-01-18') $$,
    $$ select pgwhen.effect_once('payment 1', 'credit') $$,
    $$ insert into pgwhen.booking_event (user_id, status) values ('U1', 'confirmed') $$,
    $$ select pgwhen.mute() $$,
    $$ insert into pgwhen.booking_event (user_id, status) values ('U1', 'confirmed') $$
]);
select pgwhen.mute(false), pgwhen.event_time(null);
select t.can('pgwhen_worker', array[
    $$ select * from pgwhen.process_events('w-1', '{log_message}') $$,
    $$ select * from pgwhen.process_events('w-1', suspect => true) $$,
    $$ select * from pgwhen.claim_actions('w-1') $$,
    $$ select pgwhen.complete_actions('w-1', '{}', '{}') $$,
    $$ select pgwhen.fail_actions('w-1', '{}', '{}', '{}') $$,
    $$ select pgwhen.heartbeat_actions('w-1', '{}', '{}') $$,
    $$ select pgwhen.keep_body(gen_random_uuid(), sha256('x')) $$,
    $$ select pgwhen.secret_names('shop') $$,
    $$ select pgwhen.release_actions('w-1', '{}', '{}') $$,
    $$ select pgwhen.recover_stale_actions() $$,
    $$ select pgwhen.expire_actions() $$,
    $$ select * from pgwhen.tick() $$,
    $$ select pgwhen.maintain() $$,
    $$ select pgwhen.try_sleep() $$,
    $$ select pgwhen.wake_up() $$,
    $$ select pgwhen.announce_worker('w-1', '{log_message}') $$,
    $$ select pgwhen.register_action('send_sms') $$,
    $$ select pgwhen.effect_once('payment 1', 'credit') $$,
    $$ select * from pgwhen.status() $$,
    $$ select pgwhen.version() $$
]);
select is_empty(
    $$
    select p.oid::regprocedure::text
    from pg_proc as p
    where
        p.pronamespace = 'pgwhen'::regnamespace
        and not has_function_privilege('pgwhen_admin', p.oid, 'execute')
    $$,
    'pgwhen_admin can call every public function'
);
select is_empty(
    $$
    select c.oid::regclass::text
    from pg_class as c
    where
        c.relnamespace = 'pgwhen'::regnamespace
        and c.relkind in ('r', 'p', 'v')
        and not c.relispartition
        and not has_table_privilege('pgwhen_admin', c.oid, 'select')
    $$,
    'pgwhen_admin can read every public table and view'
);
select t.can('pgwhen_admin', array[
    $$ insert into pgwhen.setting (name, value) values ('maxRetries', '5') $$,
    $$ update pgwhen.account set secrets = '{}' $$,
    $$ update pgwhen.scheduled_action set execute_at = now() where status = 'pending' $$,
    $$ select a.id from pgwhen.scheduled_action as a where a.status = 'pending' for update $$,
    $$ update pgwhen.scheduled_action set status = 'cancelled' where status = 'pending' $$,
    $$ delete from pgwhen.trigger_rule where name = 'e' $$,
    $$ select * from pgwhen.tick() $$,
    $$ select pgwhen.emit('ordered', 'U1') $$
]);

-- And nothing else ----------------------------------------------------------------------------

select t.cannot('pgwhen_viewer', array[
    $$ select secrets from pgwhen.account $$,
    $$ select * from pgwhen.account $$,
    $$ update pgwhen.trigger_rule set enabled = false $$,
    $$ delete from pgwhen.trigger_log $$,
    $$ insert into pgwhen.setting (name, value) values ('batchSize', '1') $$,
    $$ select pgwhen.emit('ordered', 'U1') $$,
    $$ select * from pgwhen.process_events('w-1') $$,
    $$ select pgwhen.effect_once('payment 1') $$,
    $$ select * from _pgwhen.outbox $$
]);
select t.cannot('pgwhen_editor', array[
    $$ select secrets from pgwhen.account $$,
    $$ delete from pgwhen.trigger_rule $$,
    $$ truncate pgwhen.trigger_rule $$,
    $$ insert into pgwhen.scheduled_action (user_id, action_type, key) values ('U1', 'x',
        gen_random_uuid()) $$,
    $$ update pgwhen.trigger_log set status = 'success' $$,
    $$ insert into pgwhen.setting (name, value) values ('batchSize', '1') $$,
    $$ select pgwhen.register_sql_action('x', 'pg_catalog.now()') $$,
    $$ insert into _pgwhen.action_type (name, kind) values ('x', 'sql') $$,
    $$ update _pgwhen.rule set action_type = 'x' $$,
    $$ update pgwhen.scheduled_action set execute_at = now() $$,
    $$ insert into _pgwhen.pause (reason) values ('x') $$,
    $$ select pgwhen.retry_event(1) $$,
    $$ select pgwhen.tick() $$
]);
select t.cannot('pgwhen_application', array[
    $$ select from pgwhen.trigger_rule $$,
    $$ select from pgwhen.form_submission $$,
    $$ update pgwhen.form_submission set form_id = 'x' $$,
    $$ truncate pgwhen.line_user $$,
    $$ insert into _pgwhen.outbox (user_id) values ('U1') $$,
    $$ delete from _pgwhen.effect $$,
    $$ select _pgwhen.note_effect('payment 1', 'credit') $$,
    $$ select pgwhen.secret_names('shop') $$,
    $$ select pgwhen.tick() $$,
    $$ select pgwhen.cancel_action(1) $$,
    $$ select pgwhen.pause('x') $$,
    $$ select * from pgwhen.status() $$
]);
select t.cannot('pgwhen_worker', array[
    $$ select from pgwhen.line_user $$,
    $$ select secrets from pgwhen.account $$,
    $$ delete from _pgwhen.request $$,
    $$ update pgwhen.scheduled_action set status = 'done' $$,
    $$ insert into pgwhen.trigger_rule (name, source_type, action_type) values ('x', 'y', 'z') $$,
    $$ select pgwhen.emit('ordered', 'U1') $$,
    $$ select pgwhen.register_sql_action('x', 'pg_catalog.now()') $$,
    $$ select _pgwhen.settle(null) $$,
    $$ select pgwhen.cancel_action(1) $$,
    $$ select pgwhen.retry_action(1) $$,
    $$ select pgwhen.resume() $$,
    $$ select _pgwhen.call_builtin('set_attribute', '{default}', '{U1}', '{"{}"}', null) $$
]);

-- Privileges as the catalog has them, so that none slips in beside those that were tried.
create view t.table_privilege as
select p.grantee::regrole::text as role, c.oid::regclass::text as relation, p.privilege_type
from pg_class as c
cross join lateral aclexplode(c.relacl) as p
where c.relnamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace);
create view t.call as
select distinct p.grantee::regrole::text as role, f.pronamespace::regnamespace::text as schema,
    f.proname
from pg_proc as f
cross join lateral aclexplode(f.proacl) as p
where
    f.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
    and p.grantee <> f.proowner;

select is_empty(
    $$ select * from t.table_privilege where role = 'pgwhen_worker' $$,
    'pgwhen_worker has no table'
);
select is_empty(
    $$ select * from t.table_privilege where role like 'pgwhen%' and relation like '\_pgwhen.%' $$,
    'nobody has a private table'
);
select is_empty(
    $$
    select * from t.table_privilege
    where
        role in ('pgwhen_viewer', 'pgwhen_editor', 'pgwhen_application')
        and privilege_type not in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
    $$,
    'nobody may truncate, hang on triggers or refer to tables'
);
select bag_eq(
    $$
    select relation || ' ' || lower(privilege_type)
    from t.table_privilege
    where role = 'pgwhen_application'
    $$,
    array[
        'pgwhen.line_user select', 'pgwhen.line_user insert', 'pgwhen.line_user update',
        'pgwhen.line_user delete', 'pgwhen.form_submission insert', 'pgwhen.campaign_click insert',
        'pgwhen.friend_track_event insert', 'pgwhen.booking_event insert'
    ],
    'pgwhen_application has these tables'
);
select bag_eq(
    $$
    select relation || ' ' || lower(privilege_type)
    from t.table_privilege
    where role = 'pgwhen_editor' and privilege_type <> 'SELECT'
    $$,
    array[
        'pgwhen.trigger_rule insert', 'pgwhen.trigger_rule update', 'pgwhen.audience insert',
        'pgwhen.audience update', 'pgwhen.audience delete', 'pgwhen.audience_member insert',
        'pgwhen.audience_member update', 'pgwhen.audience_member delete',
        'pgwhen.line_user insert', 'pgwhen.line_user update', 'pgwhen.line_user delete',
        'pgwhen.form_submission insert', 'pgwhen.campaign_click insert',
        'pgwhen.friend_track_event insert', 'pgwhen.booking_event insert'
    ],
    'pgwhen_editor writes these tables'
);
select is_empty(
    $$ select * from t.table_privilege where role = 'pgwhen_viewer'
        and privilege_type <> 'SELECT' $$,
    'pgwhen_viewer writes nothing'
);
select set_eq(
    $$ select proname::text from t.call where role = 'pgwhen_viewer' and schema = 'pgwhen' $$,
    array[
        'explain', 'matches', 'next_runs', 'status', 'tail', 'validate_rule', 'version'
    ],
    'pgwhen_viewer calls these functions'
);
select set_eq(
    $$ select proname::text from t.call where role = 'pgwhen_application' and schema = 'pgwhen' $$,
    array['effect_once', 'emit', 'event_time', 'mute', 'schedule_action', 'schedule_actions'],
    'pgwhen_application calls these functions'
);
select set_eq(
    $$ select proname::text from t.call where role = 'pgwhen_editor' and schema = 'pgwhen' $$,
    array[
        'cancel_action', 'effect_once', 'emit', 'event_time', 'explain', 'matches', 'mute',
        'next_runs', 'pause', 'reschedule_action', 'resume', 'retry_action', 'run_action_now',
        'schedule_action', 'schedule_actions', 'status', 'tail', 'validate_rule', 'version'
    ],
    'pgwhen_editor calls these functions'
);
select set_eq(
    $$ select proname::text from t.call where role = 'pgwhen_worker' and schema = 'pgwhen' $$,
    array[
        'announce_worker', 'claim_actions', 'complete_actions', 'effect_once', 'exchange_actions',
        'expire_actions', 'fail_actions', 'heartbeat_actions', 'keep_body', 'maintain',
        'process_events', 'recover_stale_actions', 'register_action', 'release_actions',
        'run_ticks', 'secret_names', 'status', 'tick', 'try_sleep', 'version', 'wake_up'
    ],
    'pgwhen_worker calls these functions'
);

-- A worker that calls the steps itself --------------------------------------------------------

select t.an_action() as action \gset
select t.an_action(
    action_type => 'set_attribute', action_config => '{"attribute": "tier", "value": "silver"}'
) as sql_action \gset
delete from _pgwhen.outbox;

-- A claim that nobody made, for an action that does something.
create function t.forged(id bigint, action_type text, config jsonb) returns pgwhen.claimed_action
language sql as $$
select row(
    forged.id, gen_random_uuid(), 1, null, forged.action_type, forged.config, 'default', 'default',
    'U1', null, null, null, null, null, null, null, null, null, null, null
)::pgwhen.claimed_action;
$$;

select t.tried('pgwhen_worker', format(
    'select pgwhen.complete_actions(''w'', array[%s], array[gen_random_uuid()])', :action
));
select t.tried('pgwhen_worker', format(
    'select pgwhen.fail_actions(''w'', array[%s], array[gen_random_uuid()],
    array[''{"nonRetryable": true}''::jsonb])',
    :action
));
select t.tried('pgwhen_worker', format(
    'select _pgwhen.put_off(%L)', t.forged(:action, 'log_message', '{}')
));
select is(
    (select a.status || a.retry_count from pgwhen.scheduled_action as a where a.id = :action),
    'pending0', 'a worker cannot settle what was not claimed'
);
select is(
    t.tried('pgwhen_worker', format(
        'select _pgwhen.run_builtin_actions(
        ''w'', ''set_attribute'', array[%L::pgwhen.claimed_action])',
        t.forged(:sql_action, 'set_attribute', '{"attribute": "tier", "value": "forged"}')
    )),
    'ok', 'a worker may ask for a built-in action with a token of its own making'
);
select is(
    (select u.attributes ->> 'tier' from pgwhen.line_user as u where u.user_id = 'U1'), 'gold',
    'but it is not done'
);
select id, claim.token
from pgwhen.claim_actions('w', action_types => '{set_attribute}') as claim \gset claimed_
select t.tried('pgwhen_worker', format(
    'select _pgwhen.run_builtin_actions(
        ''w'', ''set_attribute'', array[%L::pgwhen.claimed_action])',
    row(
        :claimed_id, :'claimed_token', 1, null, 'set_attribute',
        '{"attribute": "tier", "value": "forged"}'::jsonb, 'default', 'default', 'U1', null, null,
        null, null, null, null, null, null, null, null, null
    )::pgwhen.claimed_action
));
select is(
    (select u.attributes ->> 'tier' from pgwhen.line_user as u where u.user_id = 'U1'), 'silver',
    'a claimed action is done with its own config, whatever the worker says it is'
);

-- Whose rights a user's function has ----------------------------------------------------------

create function t.who_am_i(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ select jsonb_build_object('role', current_user) $$;
grant usage on schema t to pgwhen_worker;
select pgwhen.register_sql_action('who_am_i', 't.who_am_i(text, text, jsonb, jsonb)');
select t.a_rule('who', 'asked', action_type => 'who_am_i', action_config => '{}') as who \gset
select pgwhen.emit('asked', 'U1');
select t.tried('pgwhen_worker', $$ select pgwhen.process_events('w-1') $$);
select is(
    (select a.result from pgwhen.scheduled_action as a where a.trigger_rule_id = :who),
    '{"role": "pgwhen_worker"}', 'a user''s function runs as the caller of process_events'
);
select pgwhen.emit('asked', 'U2');
revoke usage on schema t from pgwhen_worker;
select t.tried('pgwhen_worker', $$ select pgwhen.process_events('w-1') $$);
select is(
    (
        select a.status from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :who and a.user_id = 'U2'
    ),
    'pending', 'who may not call it cannot get it called'
);
select t.tried('pgwhen_worker', $$ select pgwhen.tick() $$);
select alike(
    (
        select a.error_message from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :who and a.user_id = 'U2'
    ),
    '42501: permission denied for schema t', 'and the action says why'
);

-- Names ---------------------------------------------------------------------------------------

select t.a_rule(
    n.name || ' rule', n.name, jsonb_build_object('key', n.name), 'add_to_audience',
    jsonb_build_object('audience', n.name)
)
from unnest(array[
    '''; drop table pgwhen.trigger_rule; --', '"; drop table pgwhen.line_user; --',
        '$$; select 1; $$',
    '%s%I%L', '{"a": 1}', '\', 'ชื่อ'
]) as n (name);
select pgwhen.emit(r.source_type, 'U1', key => r.source_type)
from pgwhen.trigger_rule as r where r.name like '% rule';
select t.process();
select results_eq(
    $$ select name from pgwhen.audience order by name $$,
    $$ select source_type from pgwhen.trigger_rule where name like '% rule' order by source_type $$,
    'a name is never more than a name'
);

-- The caller's search_path leads to functions of the same name that take what pgwhen hands over.
create schema hostile;
create function hostile.was_called() returns void language plpgsql as
'begin raise exception ''somebody else''''s function was called'' using errcode = ''XX999''; end';
create function hostile.unnest(pgwhen.claimed_action[]) returns setof pgwhen.claimed_action
language plpgsql as 'begin perform hostile.was_called(); end';
create function hostile.cardinality(pgwhen.claimed_action[]) returns integer
language plpgsql as 'begin perform hostile.was_called(); return 0; end';
create function hostile.cardinality(jsonb[]) returns integer
language plpgsql as 'begin perform hostile.was_called(); return 0; end';
create function hostile.format(text, text, text) returns text
language plpgsql as 'begin perform hostile.was_called(); return ''''; end';
create function hostile.jsonb_build_object(text, jsonb) returns jsonb
language plpgsql as 'begin perform hostile.was_called(); return null; end';
create function hostile.jsonb_build_object(text, text, text, text) returns jsonb
language plpgsql as 'begin perform hostile.was_called(); return null; end';
create function hostile.join_arrays(jsonb[], jsonb[]) returns jsonb[]
language plpgsql as 'begin perform hostile.was_called(); return null; end';
create operator hostile.|| (leftarg = jsonb[], rightarg = jsonb[], function = hostile.join_arrays);
create function hostile.differ(bigint[], bigint[]) returns boolean
language plpgsql as 'begin perform hostile.was_called(); return false; end';
create function hostile.no_more(float8, integer) returns boolean
language plpgsql as 'begin perform hostile.was_called(); return false; end';
create operator hostile.<= (leftarg = float8, rightarg = integer, function = hostile.no_more);
create operator hostile.<> (leftarg = bigint[], rightarg = bigint[], function = hostile.differ);

create function t.with_path(statement text) returns text language plpgsql
set search_path = hostile, public as $$
begin
    execute statement;
    return 'ok';
exception
    when others then
        return sqlstate || ' ' || sqlerrm;
end;
$$;

create function t.who_are_we(line_oa_id text[], user_id text[], config jsonb[], ctx jsonb[])
returns jsonb[] language sql as $$ select $3 $$;
select pgwhen.register_sql_action('us', 't.who_are_we(text[], text[], jsonb[], jsonb[])',
    batch => true);
select t.a_rule('us', 'asked', action_type => 'us', action_config => '{}');
select t.a_rule('later', 'asked', action_type => 'who_am_i',
    action_config => '{"delay": {"seconds": 0}}');
update pgwhen.scheduled_action set execute_at = _pgwhen.clock() where status = 'pending';
select pgwhen.emit('asked', 'U3');
select is(t.with_path('select pgwhen.process_events(''w-1'')'), 'ok',
    'process_events meets no strangers');
select is(t.with_path('select pgwhen.tick()'), 'ok', 'tick meets no strangers');
select bag_eq(
    $$
    select a.action_type, a.status
    from pgwhen.scheduled_action as a
    where a.action_type in ('us', 'who_am_i')
    $$,
    $$ values ('who_am_i', 'done'), ('who_am_i', 'done'), ('who_am_i', 'done'), ('who_am_i',
        'done'), ('us', 'done') $$,
    'and they did what was to be done'
);

select finish();
rollback;
