-- pgwhen.exchange_actions: report claimed actions as done and claim the next ones.
begin;
\ir ../helpers.psql
select plan(11);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r') as rule \gset
select t.an_action(trigger_rule_id => :rule) from generate_series(1, 5);
create table t.claim as select c.* from pgwhen.claim_actions('w-1', 2) as c;
select array_agg(c.id) as ids, array_agg(c.token) as tokens from t.claim as c \gset
create function t.exchange(ids bigint[], tokens uuid[], size integer)
returns setof pgwhen.claimed_action language sql as $$
select x.*
from pgwhen.exchange_actions(
    'w-1', ids, tokens, array_fill('{"ok": 1}'::jsonb, array[cardinality(ids)]), size
) as x;
$$;

create table t.first as select x.* from t.exchange(:'ids', :'tokens', 2) as x;
select results_eq(
    $$
    select a.id, a.result from pgwhen.scheduled_action as a where a.status = 'done' order by a.id
    $$,
    'select c.id, ''{"ok": 1}''::jsonb from t.claim as c order by c.id',
    'ends what was done, with its results'
);
select is((select count(*) from t.first), 2::bigint, 'claims no more than asked');
select results_eq(
    'select x.* from t.first as x',
    $$
    select d.*
    from pgwhen.scheduled_action as a
    cross join _pgwhen.as_claimed(a) as d
    where a.status = 'processing'
    order by a.execute_at, a.id
    $$,
    'and tells all about each, oldest due first'
);

select results_eq(
    format(
        'select x.id, x.token is null, x.action_type is null from t.exchange(%L, %L, 2) as x',
        :'ids', :'tokens'
    ),
    $$
    select c.id, true, true from t.claim as c
    union all
    select max(a.id), false, false from pgwhen.scheduled_action as a
    order by id
    $$,
    'a late report ends nothing, is told so, and is given what is left'
);
select is((select count(*) from pgwhen.trigger_log), 2::bigint, 'it is not logged again');
select is_empty('select x.* from t.exchange(''{}'', ''{}'', 2) as x', 'nothing for nothing');

select t.an_action(trigger_rule_id => :rule);
select is_empty(
    $$ select x.id from pgwhen.exchange_actions('w', '{}', '{}', null, 1, '{null}') as x $$,
    'no type is none'
);
select throws_ok(c.call, c.code, null, c.call || ' is refused')
from (values
    ($$ select pgwhen.exchange_actions('w-1', '{1}', '{}') $$, 'PW302'),
    ($$ select pgwhen.exchange_actions('w-1', '{}', '{}', batch_size => 0) $$, 'PW301'),
    ($$ select pgwhen.exchange_actions('', '{}', '{}') $$, 'PW301')
) as c (call, code);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.status = 'pending'), 1::bigint,
    'what is refused claims nothing'
);

select finish();
rollback;
