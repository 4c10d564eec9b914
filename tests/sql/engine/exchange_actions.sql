-- pgwhen.exchange_actions: report claimed actions as done and claim the next ones.
begin;
\ir ../helpers.psql
select plan(10);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r') as rule \gset
select t.an_action(trigger_rule_id => :rule) from generate_series(1, 5);
create table t.claim as select c.* from pgwhen.claim_actions('w-1', 2) as c;
select array_agg(c.id) as ids, array_agg(c.token) as tokens from t.claim as c \gset
create function t.exchange(ids bigint[], tokens uuid[], size integer)
returns table (settled bigint[], actions json[]) language sql as $$
select x.*
from pgwhen.exchange_actions(
    'w-1', ids, tokens, array_fill('{"ok": 1}'::jsonb, array[cardinality(ids)]), size
) as x;
$$;

create table t.first as select x.* from t.exchange(:'ids', :'tokens', 2) as x;
select is((select x.settled from t.first as x), :'ids'::bigint[], 'ends what was done');
select results_eq(
    $$
    select a.id, a.result from pgwhen.scheduled_action as a where a.status = 'done' order by a.id
    $$,
    'select c.id, ''{"ok": 1}''::jsonb from t.claim as c order by c.id',
    'with its results'
);
select is((select cardinality(x.actions) from t.first as x), 2, 'claims no more than asked');
select results_eq(
    $$
    select j.*
    from t.first as x
    cross join unnest(x.actions) as c (action)
    cross join json_populate_record(null::pgwhen.claimed_action, c.action) as j
    $$,
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
        'select x.settled, x.actions[1] ->> ''id'', x.actions[2] ->> ''id'' '
        'from t.exchange(%L, %L, 2) as x', :'ids', :'tokens'
    ),
    'select ''{}''::bigint[], max(a.id)::text, null from pgwhen.scheduled_action as a',
    'a late report ends nothing, and is given what is left'
);
select results_eq(
    'select x.settled, x.actions::text from t.exchange(''{}'', ''{}'', 2) as x',
    $$ values ('{}'::bigint[], '{}') $$,
    'nothing for nothing'
);

select t.an_action(trigger_rule_id => :rule);
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
