-- The identity of batches: an id for what goes out together, kept where it may have been sent.
begin;
\ir ../helpers.psql
select plan(71);

select t.it_is('2030-01-07 12:00+00');
select pgwhen.register_action('mail', options => '{"batch": 3}');
select pgwhen.register_action('fax', options => '{"batch": 2}');
select pgwhen.register_action('letter', options => '{"batch": 1}');
select pgwhen.register_action('call');

-- Makes so many due, of users M1, M2, ….
create function t.mails(count integer, first integer default 1) returns bigint language sql as $$
select count(t.an_action(action_type => 'mail', action_config => '{}', user_id => 'M' || n))
from generate_series(mails.first, mails.first + mails.count - 1) as n;
$$;
create table t.claim (
    id bigint, token uuid, user_id text, batch_id uuid, keeps_batch boolean
);
-- Claims mails; tells in what batches, by their users.
create function t.claim(size integer default 500) returns text[] language sql as $$
delete from t.claim;
insert into t.claim
select c.id, c.token, c.user_id, c.batch_id, c.keeps_batch
from pgwhen.claim_actions('w-1', claim.size, '{mail}') as c;
select coalesce(array_agg(b.members order by b.members), '{}')
from (
    select string_agg(c.user_id, ' ' order by c.user_id) as members
    from t.claim as c
    group by c.batch_id
) as b;
$$;
create function t.fail(error jsonb, users text default '.') returns bigint language sql as $$
select count(*)
from (select array_agg(c.id) as ids, array_agg(c.token) as tokens from t.claim as c
    where c.user_id ~ fail.users) as c
cross join lateral pgwhen.fail_actions(
    'w-1', c.ids, c.tokens, array_fill(fail.error, array[cardinality(c.ids)])
) as f;
$$;
create function t.release(users text default '.') returns bigint language sql as $$
select count(*)
from (select array_agg(c.id) as ids, array_agg(c.token) as tokens from t.claim as c
    where c.user_id ~ release.users) as c
cross join lateral pgwhen.release_actions('w-1', c.ids, c.tokens) as f;
$$;
create function t.complete(users text default '.') returns bigint language sql as $$
select count(*)
from (select array_agg(c.id) as ids, array_agg(c.token) as tokens from t.claim as c
    where c.user_id ~ complete.users) as c
cross join lateral pgwhen.complete_actions('w-1', c.ids, c.tokens) as f;
$$;
-- What users' mails are in the batch of that one.
create function t.batch_of(user_id text) returns text language sql as $$
select string_agg(o.user_id, ' ' order by o.user_id)
from pgwhen.scheduled_action as a
inner join pgwhen.scheduled_action as o on o.batch_id = a.batch_id
where a.user_id = batch_of.user_id;
$$;
create function t.id_of(user_id text) returns bigint language sql as $$
select a.id from pgwhen.scheduled_action as a where a.user_id = id_of.user_id;
$$;
create function t.batch_id(user_id text) returns uuid language sql as $$
select a.batch_id from pgwhen.scheduled_action as a where a.user_id = batch_id.user_id;
$$;
create function t.due_at(user_id text) returns text language sql as $$
select to_char(a.execute_at at time zone 'UTC', 'HH24:MI:SS')
from pgwhen.scheduled_action as a
where a.user_id = due_at.user_id;
$$;
-- Starts anew, with a batch of which nobody knows whether it was sent, of M1, M2 and M3, and due.
create function t.lost() returns uuid language plpgsql as $$
begin
    truncate pgwhen.scheduled_action;
    perform t.it_is('2030-01-07 12:00+00');
    perform t.mails(3);
    perform t.claim();
    perform t.it_is('2030-01-07 12:06+00');
    perform pgwhen.recover_stale_actions();
    perform t.it_is('2030-01-07 12:06:10+00');
    return t.batch_id('M1');
end;
$$;

-- A claim writes ids ------------------------------------------------------------------------------

select t.mails(7);
select is(t.claim(), '{M1 M2 M3,M4 M5 M6,M7}', 'up to n go out together, in the order of claims');
select is(
    (select count(*) from t.claim as c where c.batch_id is distinct from t.batch_id(c.user_id)),
    0::bigint, 'the claim tells the id that stands in the row'
);
select is(
    (select count(distinct r.batch_id) from pgwhen.running as r), 3::bigint, 'running shows it'
);
truncate pgwhen.scheduled_action;
select t.mails(2);
select t.an_action(action_type => 'fax', action_config => '{}', user_id => 'F' || n)
from generate_series(1, 3) as n;
select results_eq(
    $$
    select string_agg(c.user_id, ' ' order by c.id)
    from pgwhen.claim_actions('w-1') as c
    where c.action_type in ('mail', 'fax') group by c.batch_id order by 1
    $$,
    array['F1 F2', 'F3', 'M1 M2'], 'each type by its own number'
);
truncate pgwhen.scheduled_action;
insert into pgwhen.scheduled_action (line_oa_id, user_id, action_type, execute_at, key)
select 'shop ' || n % 2, 'A' || n, 'mail', _pgwhen.clock(), gen_random_uuid()
from generate_series(1, 4) as n;
select results_eq(
    $$
    select string_agg(c.user_id, ' ' order by c.id)
    from pgwhen.claim_actions('w-1', action_types => '{mail}') as c group by c.batch_id order by 1
    $$,
    array['A1 A3', 'A2 A4'], 'and by account'
);
truncate pgwhen.scheduled_action;
select t.an_action(action_type => k.name, action_config => '{}')
from unnest('{letter,call}'::text[]) as k (name);
select t.an_action();
select is(
    (select array_agg(c.batch_id) from pgwhen.claim_actions('w-1') as c), '{null,null,null}',
    'what goes out one by one has none'
);
truncate pgwhen.scheduled_action;
select t.a_rule('r', action_type => 'mail', action_config => '{}') as rule \gset
select pgwhen.emit('ordered', 'E' || n) from generate_series(1, 5) as n;
select results_eq(
    $$
    select string_agg(a ->> 'user_id', ' ' order by a ->> 'user_id')
    from pgwhen.process_events('w-1', '{mail}', claim_limit => 4) as p
    cross join lateral jsonb_array_elements(p.actions) as a
    group by a ->> 'batch_id' order by 1
    $$,
    array['E1 E2 E3', 'E4'], 'what a pass claims itself has them too'
);
select results_eq(
    $$ select a.user_id, a.batch_id from pgwhen.scheduled_action as a where status = 'pending' $$,
    $$ values ('E5', null::uuid) $$, 'and what it does not claim has none'
);
delete from pgwhen.trigger_rule;
truncate pgwhen.scheduled_action;
select t.mails(3);
select is(
    (
        select array_agg(distinct x.batch_id) = array[t.batch_id('M1')] and count(*) = 3
        from pgwhen.exchange_actions('w-1', '{}', '{}', action_types => '{mail}') as x
    ), true, 'an exchange claims in batches too'
);

-- A known outcome clears it --------------------------------------------------------------------

truncate pgwhen.scheduled_action;
select t.mails(3);
select t.claim();
select t.fail('{"message": "busy"}', 'M1'), t.release('M2'), t.complete('M3');
select is(t.batch_id('M1'), null, 'what has failed leaves its batch');
select is(t.batch_id('M2'), null, 'what was given back leaves it');
select is(t.batch_of('M3'), 'M3', 'what is done says in which it was');
select t.it_is('2030-01-07 12:00:10+00');
select t.mails(2, 4);
select is(t.claim(), '{M1 M2 M4,M5}', 'and is claimed with whatever is due');
select t.fail('{"message": "no", "nonRetryable": true}', 'M[14]');
select is(t.batch_id('M1'), null, 'so does what has failed for good');
select t.fail('{"message": "late", "type": "Timeout:StartToClose", "outcomeUnknown": false}', 'M2');
select is(t.batch_id('M2'), null, 'and what says that the outcome is known');

-- An unknown one keeps it -------------------------------------------------------------------------

select t.lost() as batch \gset
select is(t.batch_of('M1'), 'M1 M2 M3', 'what was lost stays in its batch');
select t.mails(2, 4);
select is(
    t.claim(), '{M1 M2 M3,M4 M5}', 'is claimed together, and not with anything else'
);
select is(t.batch_id('M1'), :'batch', 'under the same id');
select results_eq(
    'select c.user_id from t.claim as c where c.keeps_batch order by 1', '{M1,M2,M3}'::text[],
    'which the claim says'
);
select t.fail('{"message": "busy"}', 'M1'), t.release('M[23]');
select is(t.batch_id('M1'), :'batch', 'a known failure later does not end that');
select is(t.batch_id('M2'), :'batch', 'nor does it that a later attempt was not started');
select t.it_is('2030-01-07 12:07+00');
select is(t.claim(), '{M1 M2 M3}', 'so it is claimed together again');
select t.fail('{"message": "?", "nonRetryable": true}');
select is(t.batch_of('M1'), 'M1 M2 M3', 'what has ended so keeps it too');

truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 12:00+00');
select t.mails(3);
select t.claim();
select t.fail('{"message": "no answer", "outcomeUnknown": true}', 'M[12]'), t.complete('M3');
select is(t.batch_of('M1'), 'M1 M2 M3', 'what says that its outcome is unknown stays');
truncate pgwhen.scheduled_action;
select t.mails(3);
select t.claim();
select t.fail('{"message": "?", "nextRetryDelay": 5, "outcomeUnknown": true}', 'M1');
select t.fail('{"message": "?", "type": "Timeout:StartToClose"}', 'M2');
select is(t.batch_of('M1'), 'M1 M2 M3', 'so does what a worker says has run out of its time');

-- One moment ----------------------------------------------------------------------------------

truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 12:00+00');
select t.mails(3);
select t.claim();
select pgwhen.fail_actions(
    'w-1', array_agg(c.id order by c.id), array_agg(c.token order by c.id),
    array_agg(
        jsonb_build_object(
            'message', '?', 'nextRetryDelay', 5 * right(c.user_id, 1)::integer,
            'outcomeUnknown', true
        )
        order by c.id
    )
)
from t.claim as c;
select is(
    t.due_at('M1') || t.due_at('M2') || t.due_at('M3'), '12:00:1512:00:1512:00:15',
    'all are due when the last of them may be'
);
truncate pgwhen.scheduled_action;
select t.mails(3);
update pgwhen.scheduled_action set timeouts = '{"startToClose": 60}' where user_id = 'M2';
select t.claim();
select t.it_is('2030-01-07 12:01:01+00');
select is(pgwhen.recover_stale_actions(1), 3, 'a batch is over with one of its attempts');
select is(
    t.due_at('M1') || t.due_at('M2') || t.due_at('M3'), '12:01:1112:01:1112:01:11',
    'and tried again at one time'
);

-- Recovered, or reported, in parts: here the second half 20 seconds after the first.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 12:00+00');
select t.mails(3);
select t.claim();
select t.fail('{"message": "?", "outcomeUnknown": true}', 'M[12]');
select t.it_is('2030-01-07 12:00:20+00');
create table t.early as select c.* from t.claim as c;
select is(t.claim(), '{}', 'is not claimed while one of it runs');
select is(
    t.due_at('M1') || t.due_at('M2'), '12:00:3012:00:30', 'and is in nobody''s way meanwhile'
);
insert into t.claim select e.* from t.early as e;
select t.fail('{"message": "?", "outcomeUnknown": true, "nextRetryDelay": 15}', 'M3');
select t.it_is('2030-01-07 12:00:30+00');
select is(t.claim(), '{}', 'nor before the last of it is due');
select is(t.due_at('M1') || t.due_at('M2'), '12:00:3512:00:35', 'which is when all are due');
select t.it_is('2030-01-07 12:00:35+00');
select is(t.claim(), '{M1 M2 M3}', 'and then claimed');

-- All or none ---------------------------------------------------------------------------------

select t.lost();
select t.mails(4, 4);
select is(t.claim(1), '{M1 M2 M3}', 'where it comes first it is claimed whole, whatever is asked');
select is(t.claim(1), '{M4}', 'and nothing else in its place');

select t.lost();
select t.it_is('2030-01-07 12:05+00');
select t.mails(1, 4);
select t.it_is('2030-01-07 12:06:10+00');
select is(t.claim(2), '{M4}', 'where it does not come first and does not fit, it waits');
select is(t.claim(2), '{M1 M2 M3}', 'until it comes first');

select t.lost();
select t.it_is('2030-01-07 12:05+00');
select t.mails(2, 4);
select t.it_is('2030-01-07 12:06:10+00');
select is(t.claim(4), '{M1 M2 M3,M4}', 'where it fits it goes, with what else there is room for');

-- Two batches, of which one fits.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 12:00+00');
select t.mails(6);
select t.claim();
select t.fail('{"message": "?", "outcomeUnknown": true}');
select t.it_is('2030-01-07 12:00:10+00');
select is(t.claim(5), '{M1 M2 M3}', 'of several those that fit');
select is(t.claim(5), '{M4 M5 M6}', 'then the next');

-- A great many of them: the server has room for some thousands of locks.
truncate pgwhen.scheduled_action;
insert into pgwhen.scheduled_action
(user_id, action_type, execute_at, key, batch_id, keeps_batch)
select 'B' || n, 'mail', _pgwhen.clock(), gen_random_uuid(), gen_random_uuid(), true
from generate_series(1, 3000) as n;
select is(cardinality(t.claim(10000)), 3000, 'thousands of batches can be claimed together');
select cmp_ok(
    (select count(*) from pg_locks as l where l.locktype = 'advisory' and l.classid = 7079),
    '<=', 1024::bigint, 'with fewer locks'
);

-- Fewer, never others ----------------------------------------------------------------------------

select t.lost() as batch \gset
select pgwhen.cancel_action(t.id_of('M2'));
select is(t.claim(), '{M1 M3}', 'what was cancelled is missing');
select is((select min(c.batch_id::text) from t.claim as c), :'batch', 'from the same batch');

select t.lost();
select t.force($$ update pgwhen.scheduled_action set user_known = true where user_id = 'M3' $$);
select is(t.claim(), '{M1 M2}', 'so is a user who is gone');
select is(t.state_of(a), 'cancelled', 'whose action is cancelled by the claim')
from pgwhen.scheduled_action as a
where a.user_id = 'M3';

select t.lost();
select t.force($$
    update pgwhen.scheduled_action set close_by = '2030-01-07 12:06:05+00' where user_id = 'M1'
$$);
select is(t.claim(), '{M2 M3}', 'so is what has no time left');

select t.lost() as batch \gset
update pgwhen.scheduled_action set action_config = '{"text": "another"}' where user_id = 'M1';
select is(t.batch_id('M1'), null, 'what was changed is another one, and leaves');
select is(t.claim(), '{M1,M2 M3}', 'and goes out in another batch');

-- Moved by hand.
select t.lost();
select pgwhen.reschedule_action(t.id_of('M2'), '2030-01-07 13:00+00');
select is(
    t.due_at('M1') || t.due_at('M2') || t.due_at('M3'), '13:00:0013:00:0013:00:00',
    'who reschedules one, reschedules its batch'
);
select pgwhen.run_action_now(t.id_of('M3'));
select is(t.claim(), '{M1 M2 M3}', 'who runs one now, runs its batch');
select t.lost();
update pgwhen.scheduled_action set execute_at = '2030-01-07 13:00+00' where user_id = 'M2';
select is(t.claim(), '{}', 'of which one was put off by UPDATE, it waits');
select t.it_is('2030-01-07 13:00+00');
select is(t.claim(), '{M1 M2 M3}', 'for that one');

-- A pause of one of the rules.
select t.lost() as batch \gset
select t.a_rule('paused', action_type => 'mail', action_config => '{}') as rule \gset
select t.force(format(
    $$ update pgwhen.scheduled_action set trigger_rule_id = %s where user_id = 'M2' $$, :rule
));
select pgwhen.pause('wrong text', rule => :rule);
select is(t.claim(), '{}', 'a pause of one rule holds the batch');
select is(
    (select array_agg(distinct p.why) from pgwhen.pending as p), '{paused: wrong text}',
    'and is named as the reason'
);
select pgwhen.resume(rule => :rule);
select is(
    (
        select e.detail ->> 'batchId'
        from pgwhen.explain(:rule, 'M2') as e
        where e.gate = 'pending'
    ),
    :'batch', 'explain says which batch it is'
);
select is(t.claim(), '{M1 M2 M3}', 'until it is resumed');

-- By hand ----------------------------------------------------------------------------------------

select t.lost() as batch \gset
select t.claim();
select t.fail('{"message": "?", "outcomeUnknown": true, "nonRetryable": true}');
select results_eq(
    'select distinct f.batch_id, f.remedy from pgwhen.failed_actions as f',
    format(
        $$ values (
            %1$L::uuid,
            'select pgwhen.retry_action(f.id) from pgwhen.failed_actions as f '
            'where f.batch_id = ''%1$s'';'
        ) $$, :'batch'
    ),
    'failed_actions has the batch, and retries it whole'
);
select pgwhen.retry_action(f.id) from pgwhen.failed_actions as f where f.batch_id = :'batch';
select t.mails(1, 4);
select is(t.claim(), '{M1 M2 M3,M4}', 'what is retried goes out together');
select is(t.batch_id('M1'), :'batch', 'under the same id');
select t.release('M[123]');
select is(t.batch_of('M1'), 'M1 M2 M3', 'which it keeps');

truncate pgwhen.scheduled_action;
select t.mails(2);
select t.claim();
select t.complete();
select t.force($$ update pgwhen.scheduled_action set status = 'cancelled' where user_id = 'M1' $$);
select pgwhen.retry_action(t.id_of('M1'));
select t.claim(), t.release();
select is(t.batch_of('M1'), 'M1 M2', 'what was sent, and is wanted again, keeps it too');

select throws_ok(
    format(
        'update pgwhen.scheduled_action set %s where user_id = ''M1''', c.change
    ),
    'PW604', c.name || ' of action ' || t.id_of('M1') || ' cannot be changed',
    'an UPDATE cannot change ' || c.name
)
from (values
    ('batch_id', 'batch_id = gen_random_uuid()'),
    ('batch_id', 'batch_id = null, keeps_batch = false'),
    ('keeps_batch', 'keeps_batch = false')
) as c (name, change);

select throws_ok(
    format('select pgwhen.register_action(''mail'', options => ''{"batch": %s}'')', b.size),
    'PW014', 'options.batch must be a whole number from 1, got ' || b.size,
    'a type cannot have a batch of ' || b.size
)
from (values ('0'), ('-1'), ('1.5'), ('"many"'), ('null'), ('10000000000')) as b (size);

select * from finish();
rollback;
