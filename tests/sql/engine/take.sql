-- _pgwhen.take: the next batch of events for one worker. What it does beside other sessions, and
-- how far down it scans, takes several transactions: tests/concurrency.
begin;
\ir ../helpers.psql
select plan(10);

select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 20) as n;
select min(o.id) as first from _pgwhen.outbox as o \gset

create view t.held as
select count(*) as buckets
from pg_locks as l
where
    l.pid = pg_backend_pid()
    and l.locktype = 'advisory'
    and l.classid = _pgwhen.bucket_class()::oid;

savepoint before;
select _pgwhen.take('w-1', 2);
select cmp_ok(
    (select h.buckets from t.held as h), '<=', 2::bigint, 'locks no more buckets than fill the batch'
);
rollback to savepoint before;

select is(
    (_pgwhen.take('w-1', 20)).ids, (select array_agg(o.id order by o.id) from _pgwhen.outbox as o),
    'gives all that there is, in the order of the outbox'
);
select is(
    (select h.buckets from t.held as h),
    (select count(distinct o.bucket) from _pgwhen.outbox as o),
    'holds the buckets of its users until the transaction ends'
);
select ok(not (_pgwhen.take('w-1', 20)).more, 'says that there is no more');

create table t.taken as select (_pgwhen.take('w-1', 5)).*;
select is((select cardinality(k.ids) from t.taken as k), 5, 'gives no more than asked');
select ok((select k.more from t.taken as k), 'says that there is more');
select is(
    (select k.ids from t.taken as k),
    array(select i from t.taken as k cross join unnest(k.ids) as i order by i),
    'gives fewer in order too'
);
insert into pgwhen.setting (name, value) values ('batchSize', '3');
select is(cardinality((_pgwhen.take('w-1', null)).ids), 3, 'gives batchSize by default');

-- Of one user it gives the oldest first, and none before an older one.
delete from _pgwhen.outbox;
select pgwhen.emit('ordered', 'U1') from generate_series(1, 50);
select is(
    (_pgwhen.take('w-1', 10)).ids,
    array(select o.id from _pgwhen.outbox as o order by o.id limit 10),
    'gives the oldest events of a user'
);

delete from _pgwhen.outbox;
select results_eq(
    $$ select b.ids, b.more from _pgwhen.take('w-1', 10) as b $$,
    $$ values ('{}'::bigint[], false) $$,
    'gives nothing where nothing waits'
);

select finish();
rollback;
