-- pgwhen.release_actions: give back what was not started.
begin;
\ir ../helpers.psql
select plan(9);

select t.it_is('2030-01-07 12:00+00');
select t.an_action() as action \gset
select c.token from pgwhen.claim_actions('w-1') as c \gset

select is_empty(
    format(
        'select pgwhen.release_actions(%L, %L, array[gen_random_uuid()])', 'w-1', array[:action]
    ),
    'gives back nothing with another token'
);
select is(
    array(select pgwhen.release_actions('w-1', array[:action], array[:'token'::uuid])),
    array[:action]::bigint[], 'returns the ids that it gave back'
);
select results_eq(
    'select a.status, a.retry_count, a.execute_at, a.claim_token, a.deadline
    from pgwhen.scheduled_action as a',
    $$ values ('pending', 0, '2030-01-07 12:00+00'::timestamptz, null::uuid, null::timestamptz) $$,
    'makes them due at once, and counts no attempt'
);
select is_empty(
    format('select pgwhen.release_actions(%L, %L, %L)', 'w-1', array[:action], array[:'token']),
    'gives back nothing twice'
);
select is(
    (select array_agg(c.attempt) from pgwhen.claim_actions('w-2') as c), array[1],
    'lets somebody else make the same attempt'
);
select is_empty(
    format('select pgwhen.release_actions(%L, %L, %L)', 'w-1', array[:action], array[:'token']),
    'gives back nothing that somebody else has claimed since'
);
select throws_ok(c.call, c.code, null, c.call || ' is refused')
from (values
    ($$ select pgwhen.release_actions('w-1', '{1}', '{}') $$, 'PW302'),
    ($$ select pgwhen.release_actions('w-1', '{1}', array[null]::uuid[]) $$, 'PW302'),
    ($$ select pgwhen.release_actions('', '{}', '{}') $$, 'PW301')
) as c (call, code);

select finish();
rollback;
