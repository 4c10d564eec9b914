-- _pgwhen.guard_content, guard_state, guard_delete: what people may do with plain SQL.
begin;
\ir ../helpers.psql
select plan(51);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r', frequency => 'once') as rule \gset
-- What becomes of an UPDATE of the action: 'ok', or how it is refused.
create function t.set_to(assignments text) returns text language plpgsql as $$
begin
    execute 'update pgwhen.scheduled_action set ' || set_to.assignments;
    return 'ok';
exception
    when others then
        return sqlstate || ' ' || sqlerrm;
end;
$$;
create function t.hint_of_set(assignments text) returns text language sql as $$
select t.hint_of('update pgwhen.scheduled_action set ' || hint_of_set.assignments);
$$;
create function t.the() returns pgwhen.scheduled_action language sql as $$
select a.* from pgwhen.scheduled_action as a;
$$;
create function t.claim() returns setof uuid language sql as $$
select c.token from pgwhen.claim_actions('w-1') as c;
$$;
create function t.fails(error jsonb) returns bigint language sql as $$
select pgwhen.fail_actions('w-1', array[a.id], array[a.claim_token], array[fails.error])
from pgwhen.scheduled_action as a
where a.status = 'processing';
$$;

select pgwhen.emit('ordered', 'U1');
select t.process();
select (t.the()).id as id, (t.the()).key as key \gset

-- What is theirs to change in a pending row.
select t.it_is('2030-01-07 12:00:01+00');
select is(t.set_to($$ execute_at = '2030-02-01' $$), 'ok', 'execute_at');
select is(t.set_to($$ expires_at = '2030-02-01' $$), 'ok', 'expires_at');
select is(t.set_to($$ action_config = '{"text": "good bye"}' $$), 'ok', 'action_config');
select is(t.set_to($$ error_message = 'a note' $$), 'ok', 'error_message, as a note');
select is((t.the()).updated_at, '2030-01-07 12:00:01+00'::timestamptz, 'which dates it');
select is((t.the()).key, :'key'::uuid, 'nobody has seen the key: it stays');

-- What would break a promise.
select is(
    t.set_to($$ execute_at = 'infinity' $$), 'PW603 an action cannot be due at infinity',
    'a time that never comes'
);
select is(
    t.set_to($$ expires_at = '-infinity' $$), 'PW603 an action cannot be due at -infinity',
    'nor one that never was'
);
select alike(
    t.set_to($$ action_config = '{"texts": "x"}' $$), 'PW003 action_config.text%',
    'a config that its type refuses'
);
select alike(
    t.set_to($$ action_type = 'send_mesage' $$), 'PW604 there is no action type%',
    'a type that is none'
);
select is(
    array(
        select t.set_to(s)
        from unnest(array[
            'key = gen_random_uuid()', $$ user_id = 'U2' $$, $$ line_oa_id = 'shop' $$,
            'trigger_rule_id = null', $$ event = '{}' $$, $$ chain = '{1}' $$, 'held_by = 1',
            $$ cancel_reason = 'no' $$, 'workflow_id = 1', $$ created_date = '2029-01-01' $$,
            'id = default'
        ]) as s
    ),
    array(
        select format('PW604 %s of action %s cannot be changed', c, :id)
        from unnest(array[
            'key', 'user_id', 'line_oa_id', 'trigger_rule_id', 'event', 'chain', 'held_by',
            'cancel_reason', 'workflow_id', 'created_date', 'id'
        ]) as c
    ),
    'what makes it the one it is'
);
select alike(
    t.hint_of_set($$ user_id = 'U2' $$), '%pgwhen.cancel_action(%', 'and says what to do instead'
);
select is(
    array(
        select t.set_to('status = ' || quote_literal(s))
        from unnest(array['processing', 'done', 'failed']) as s
    ),
    array(
        select format(
            'PW602 action %s cannot be made %s by hand: it is pending, due at 2030-02-01T00:00:00Z',
            :id, s
        )
        from unnest(array['processing', 'done', 'failed']) as s
    ),
    'its status'
);
select is(
    t.set_to('worker = $$me$$'), format('PW604 what was done to action %s cannot be changed', :id),
    'what was done to it'
);
select is(
    t.set_to('retry_count = -1'), format('PW604 retry_count of action %s cannot be -1', :id),
    'a count that is none'
);
select throws_ok(
    'delete from pgwhen.scheduled_action', 'PW602', null, 'deletion, which would leave no outcome'
);

-- Cancelling by UPDATE is cancelling.
savepoint s;
select is(t.set_to($$ status = 'cancelled', error_message = 'withdrawn' $$), 'ok', 'cancelling');
select results_eq(
    'select (t.the()).status, (t.the()).error_message',
    format($$ values ('cancelled', 'cancelled by %s: withdrawn') $$, session_user),
    'which ends it as any other'
);
select is(
    t.log_of(:rule), array[format('cancelled: cancelled by %s: withdrawn', session_user)],
    'with a row in the log'
);
select is_empty('table _pgwhen.reservation', 'and its slot given back');
select is(t.set_to($$ status = 'pending' $$),
    format(
        'PW602 action %s cannot be made pending by hand: it was cancelled at 2030-01-07T12:00:01Z',
        :id
    ), 'from where it does not come back by UPDATE'
);
select lives_ok('delete from pgwhen.scheduled_action', 'what has ended may be deleted');
rollback to s;

-- After an attempt.
select t.set_to($$ execute_at = '2030-01-01' $$);
select t.claim();
select alike(
    t.set_to($$ action_config = '{"text": "x"}' $$), 'PW602 %it is being run by w-1%',
    'what runs is not touched'
);
select alike(
    t.set_to($$ status = 'pending', claim_token = null, deadline = null $$),
    'PW602 %cannot be made pending by hand%', 'not even to take it back'
);
select alike(
    t.set_to($$ status = 'done', claim_token = null, deadline = null $$),
    'PW602 %cannot be made done by hand%', 'or to end it'
);
select alike(t.set_to($$ deadline = 'infinity' $$), 'PW602 %cannot be changed%', 'or to keep it');
select alike(
    t.set_to($$ status = 'cancelled' $$), 'PW602 %cannot be made cancelled by hand%',
    'or to cancel it'
);
select throws_ok('delete from pgwhen.scheduled_action', 'PW602', null, 'or deleted');
select t.fails('{"message": "busy"}');
select is(t.set_to('execute_at = execute_at + interval $$1 hour$$'), 'ok', 'when it waits again');
select is((t.the()).key, :'key'::uuid, 'a new time needs no new key');
select is(t.set_to($$ action_config = '{"text": "once more"}' $$), 'ok', 'a new config does');
select is(
    (t.the()).key,
    _pgwhen.action_key(
        :'key', 'default', 'U1', :rule, 'changed:log_message:{"text": "once more"}'
    ),
    'which derives from the old one and the new config'
);
savepoint s;
select is(t.set_to('retry_count = 0'), 'ok', 'attempts may be counted anew');
select t.set_to($$ action_config = '{"text": "x"}' $$);
select is(
    (t.the()).key,
    _pgwhen.action_key(
        _pgwhen.action_key(
            :'key', 'default', 'U1', :rule, 'changed:log_message:{"text": "once more"}'
        ),
        'default', 'U1', :rule, 'changed:log_message:{"text": "x"}'
    ),
    'it has been tried all the same'
);
rollback to s;

-- What has ended.
select t.set_to($$ execute_at = '2030-01-01' $$);
select t.claim();
select t.fails('{"message": "no", "nonRetryable": true}');
select is(
    t.set_to($$ action_config = '{}', event = '{}', error_message = null $$), 'ok',
    'what it was about may be erased'
);
select alike(
    t.set_to($$ execute_at = '2031-01-01' $$), 'PW602 %cannot be rescheduled: it failed at%',
    'but its time is over'
);

-- What is the engine's, also where a claim token comes or goes, or nothing else changes.
select t.force('truncate pgwhen.scheduled_action');
select t.an_action();
select alike(t.set_to(c.assignments), c.words, c.assignments || ' is refused')
from (values
    ($$ status = 'processing', claim_token = gen_random_uuid(), deadline = 'infinity' $$, 'PW602%'),
    ($$ waiting = true, wait = '{}', expires_at = now() $$, 'PW604%'),
    ($$ wait = '{}' $$, 'PW604%'),
    ($$ delay = '{"seconds": 1}' $$, 'PW604%'),
    ($$ origin = gen_random_uuid() $$, 'PW604%'),
    ($$ parent_id = 1 $$, 'PW604%'),
    ($$ counts_from = now() $$, 'PW604%'),
    ($$ outcome = 'clicked' $$, 'PW604%'),
    ($$ action_config = '[1, 2]' $$, 'PW003%'),
    ($$ action_config = 'null' $$, 'PW003%')
) as c (assignments, words);
select t.claim();
select alike(t.set_to(c.assignments), 'PW602%', c.assignments || ' is refused too')
from (values
    ($$ status = 'pending', claim_token = null, deadline = null, updated_at = now() $$),
    ($$ status = 'done', claim_token = null, deadline = null, updated_at = now() $$),
    ($$ status = 'cancelled', claim_token = null, deadline = null, updated_at = now() $$)
) as c (assignments);

-- The engine is told from people by a setting of its functions.
set local pgwhen.by_engine = on;
select is(t.set_to($$ user_id = 'U9' $$), 'ok', 'who says that they are the engine is believed');
reset pgwhen.by_engine;
select set_eq(
    $$
    select p.proname
    from pg_proc as p
    where
        p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        and p.prosrc ~* 'update\s+pgwhen\.scheduled_action'
    $$,
    $$
    select p.proname
    from pg_proc as p
    where
        p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        and 'pgwhen.by_engine=on' = any(p.proconfig)
    $$,
    'they and no others say so'
);

select finish();
rollback;
