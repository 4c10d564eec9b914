-- pgwhen.tail: the outcomes of the last hour.
begin;
\ir ../helpers.psql
select plan(8);

select t.it_is('2030-01-07 12:00+00');
select is_empty('select * from pgwhen.tail()', 'is empty where nothing has happened');

select t.a_rule('r', action_type => 'add_to_audience', action_config => '{"audience": "a"}');
select t.it_is('2030-01-07 11:00+00');
select pgwhen.emit('ordered', 'long ago');
select t.process();
select t.it_is('2030-01-07 12:00+00');
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 12) as n;
select t.process();
create table t.known as
select l.id, l.user_id
from pgwhen.trigger_log as l
where l.user_id <> 'long ago';

select results_eq(
    'select l.id from pgwhen.tail() as l', 'select k.id from t.known as k order by k.id offset 2',
    'gives the last ten, in order'
);
select results_eq(
    'select l.id from pgwhen.tail(max_rows => 3) as l',
    'select k.id from t.known as k order by k.id offset 9',
    'or fewer where fewer are asked for'
);
select results_eq(
    'select l.id from pgwhen.tail((select min(k.id) from t.known as k)) as l',
    'select k.id from t.known as k order by k.id offset 1', 'gives what came after a row'
);
select results_eq(
    'select l.id from pgwhen.tail((select min(k.id) from t.known as k), 4) as l',
    'select k.id from t.known as k order by k.id offset 1 limit 4', 'no more than asked'
);
select is(
    (select count(*) from pgwhen.tail(0)), 12::bigint, 'gives nothing that is older than an hour'
);
select results_eq(
    'select l.created_date, l.line_oa_id, l.user_id, l.rule, l.trigger_on, l.action_type,
    l.status, l.error_message
    from pgwhen.tail(max_rows => 1) as l',
    $$
    select '2030-01-07 12:00+00'::timestamptz, 'default', k.user_id, 'r', 'ordered',
        'add_to_audience', 'success', null::text
    from t.known as k order by k.id desc limit 1
    $$,
    'tells what happened to whom, by which rule'
);
select is_empty(
    'select * from pgwhen.tail((select max(k.id) from t.known as k))',
    'gives nothing after the last'
);

select finish();
rollback;
