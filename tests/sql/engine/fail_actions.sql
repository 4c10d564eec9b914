-- pgwhen.fail_actions: report claimed actions as failed.
begin;
\ir ../helpers.psql
select plan(31);

select t.it_is('2030-01-07 12:00+00');
select t.an_action() as action \gset

-- Claims the action when it is due, and fails it with this error.
create function t.fail(error jsonb) returns bigint[] language plpgsql as $$
declare
    v_claim pgwhen.claimed_action;
begin
    perform t.it_is((select min(a.execute_at) from pgwhen.scheduled_action as a
        where a.status = 'pending'));
    select * into v_claim from pgwhen.claim_actions('w-1');
    return array(
        select pgwhen.fail_actions('w-1', array[v_claim.id], array[v_claim.token],
            array[fail.error])
    );
end;
$$;
create function t.state() returns text language sql as $$
select concat_ws(
    ' | ', a.status, a.retry_count, to_char(a.execute_at at time zone 'UTC', 'HH24:MI:SS'),
        a.error_message
)
from pgwhen.scheduled_action as a order by a.id desc limit 1;
$$;

select
    is(
        t.fail('{"type": "Busy", "message": "try later"}'),
        array[:action]::bigint[],
        'returns the id'
    );
select is(t.state(), 'pending | 1 | 12:00:10 | Busy: try later', 'tries again after retrySeconds');
select is_empty('table pgwhen.trigger_log', 'which is no end, and so not logged');
select t.fail('{"message": "slow down", "nextRetryDelay": 90}');
select is(t.state(), 'pending | 2 | 12:01:40 | slow down', 'tries again when the error says');
select t.fail('{}');
select is(t.state(), 'pending | 3 | 12:02:20 | failed without a message', 'needs no message');
select t.fail('{"message": "the last one"}');
select is(
    t.state(),
    'failed | 4 | 12:02:20 | the last one',
    'ends as failed after one try and three retries'
);
select results_eq(
    'select l.action_id, l.status, l.error_message from pgwhen.trigger_log as l',
    format($$ values (%s::bigint, 'failed', 'the last one') $$, :action), 'which is logged once'
);

select t.an_action();
select t.fail('{"type": "BankRejected", "message": "no such account", "nonRetryable": true}');
select alike(
    t.state(),
    'failed | 1 | % | BankRejected: no such account',
    'ends at once what cannot be retried'
);
insert into pgwhen.setting (name, value) values ('maxRetries', '0'), ('retrySeconds', '2.5');
select t.an_action();
select t.fail('{"message": "x"}');
select alike(t.state(), 'failed | 1 | %', 'follows the setting maxRetries');
update pgwhen.setting set value = '1' where name = 'maxRetries';
select t.an_action('2030-01-07 13:00:00+00');
select t.fail('{"message": "x"}');
select is(t.state(), 'pending | 1 | 13:00:02 | x', 'follows the setting retrySeconds');
select t.fail('{"message": "x"}');

-- Twice as long after each failure.
select is(
    array(
        select extract(
            epoch from _pgwhen.retry_wait(_pgwhen.default_retry_policy(), '{}', n)
        )
        from unnest('{1,2,3,4,7,8,9,1000000}'::integer[]) as n
    ),
    '{2.5,5,10,20,160,250,250,250}'::numeric[], 'waits longer after each failure, up to a limit'
);

-- Errors that are none, and delays that are none.
update pgwhen.setting set value = '3' where name = 'maxRetries';
create function t.state_after(error jsonb) returns text language plpgsql as $$
begin
    truncate pgwhen.scheduled_action;
    perform t.an_action('2030-01-07 13:00:00+00');
    perform t.fail(state_after.error);
    return t.state();
end;
$$;
select is(t.state_after(e.error), e.state, format('takes the error %s', e.error))
from (values
    (null::jsonb, 'pending | 1 | 13:00:02 | failed without a message'),
    ('"boom"', 'pending | 1 | 13:00:02 | failed without a message'),
    ('[1]', 'pending | 1 | 13:00:02 | failed without a message'),
    ('{"message": "x", "nextRetryDelay": 0}', 'pending | 1 | 13:00:00 | x'),
    ('{"message": "x", "nextRetryDelay": -5}', 'pending | 1 | 13:00:02 | x'),
    ('{"message": "x", "nextRetryDelay": "soon"}', 'pending | 1 | 13:00:02 | x'),
    ('{"message": "x", "nonRetryable": "yes"}', 'pending | 1 | 13:00:02 | x'),
    ('{"message": "x", "nonRetryable": null}', 'pending | 1 | 13:00:02 | x'),
    ('{"message": {"a": 1}, "type": 5}', 'pending | 1 | 13:00:02 | 5: {"a": 1}')
) as e (error, state);
select t.state_after('{"message": "x", "nextRetryDelay": 1e400}');
select cmp_ok(
    (select a.execute_at from pgwhen.scheduled_action as a), '<', '2041-01-01 00:00+00',
    'bounds the delay that an error asks for'
);
select t.state_after(jsonb_build_object('message', repeat('x', 1000000)));
select is(
    (select length(a.error_message) from pgwhen.scheduled_action as a), 4096, 'bounds the message'
);

-- The fence.
truncate pgwhen.scheduled_action;
select t.it_is('2030-01-07 12:00+00');
select t.an_action() as action \gset
select is_empty(
    format(
        'select pgwhen.fail_actions(%L, %L, array[gen_random_uuid()], %L)',
        'w-1',
        array[:action],
        '{"{}"}'
    ),
    'fails nothing that was not claimed'
);
select c.token from pgwhen.claim_actions('w-1') as c \gset
select is_empty(
    format(
        'select pgwhen.fail_actions(%L, %L, array[gen_random_uuid()], array[%L]::jsonb[])',
        'w-1', array[:action], e.error
    ),
    'fails nothing with another token: ' || e.error
)
from unnest(array['{}', '{"nonRetryable": true}']) as e (error);
select is(t.state(), 'processing | 0 | 12:00:00', 'and leaves it as it is');
select t.it_is('2030-01-07 12:06+00');
select pgwhen.recover_stale_actions();
select is_empty(
    format(
        'select pgwhen.fail_actions(%L, %L, %L, %L)',
        'w-1',
        array[:action],
        array[:'token'],
        '{"{}"}'
    ),
    'fails nothing whose deadline has passed and that was taken back'
);
select throws_ok(c.call, c.code, null, c.call || ' is refused')
from (values
    ($$ select pgwhen.fail_actions('w-1', '{1}', array[gen_random_uuid()], '{}') $$, 'PW302'),
    ($$ select pgwhen.fail_actions('w-1', '{1}', array[gen_random_uuid()], null) $$, 'PW302'),
    ($$ select pgwhen.fail_actions(' ', '{}', '{}', '{}') $$, 'PW301')
) as c (call, code);
-- A batch of three, of which one is another's: the other two are settled each in its own way.
truncate pgwhen.scheduled_action;
select t.an_action(user_id => 'U' || n) from generate_series(1, 3) as n;
create table t.claim as select c.* from pgwhen.claim_actions('w-1') as c;
select pgwhen.fail_actions(
    'w-1', array_agg(c.id order by c.id),
    array_agg(case c.user_id when 'U2' then gen_random_uuid() else c.token end order by c.id),
    array['{"nonRetryable": true}', '{"nonRetryable": true}', '{}']::jsonb[]
) from t.claim as c;
select results_eq(
    'select a.status from pgwhen.scheduled_action as a order by a.user_id',
    array['failed', 'processing', 'pending'], 'settles each action of a batch in its own way'
);

select finish();
rollback;
