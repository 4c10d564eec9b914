-- pgwhen.try_sleep, pgwhen.wake_up: the doorbell, the listener's side. What it is between two
-- sessions is tested in tests/concurrency and tests/listener.
begin;
\ir ../helpers.psql
select plan(7);

create view t.held as
select l.mode
from pg_locks as l
where
    l.pid = pg_backend_pid()
    and l.locktype = 'advisory'
    and l.classid = _pgwhen.lock_class()::oid
    and l.objid = _pgwhen.doorbell_lock()::oid;

select is(pgwhen.try_sleep(), 'granted', 'try_sleep is granted where nobody is about to commit');
select results_eq('table t.held', $$ values ('ExclusiveLock') $$, 'which is a lock of the session');
savepoint before;
rollback to savepoint before;
select results_eq('table t.held', $$ values ('ExclusiveLock') $$, 'that no rollback ends');
select ok(pgwhen.wake_up(), 'wake_up ends it');
select is_empty('table t.held', 'and the lock is gone');
select ok(not pgwhen.wake_up(), 'wake_up is false where nobody slept');
-- The lock is a session's, so a session that writes may sleep too.
select pgwhen.emit('ordered', 'U1');
select is(pgwhen.try_sleep(), 'granted', 'a session is not in its own way');
select pgwhen.wake_up();

select finish();
rollback;
