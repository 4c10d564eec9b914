-- _pgwhen.ensure_default, _pgwhen.ensure_trigger: set what differs, touch nothing else.
begin;
\ir ../helpers.psql
select plan(10);

create table t.thing (id integer, made_at timestamptz);
create function t.nothing() returns trigger language plpgsql as 'begin return null; end';

-- Which version of the catalog's row stands: another one where it was written again.
create function t.version_of_default() returns text language sql as $$
select d.xmin || ' ' || d.ctid from pg_attrdef as d where d.adrelid = 't.thing'::regclass;
$$;
create function t.version_of_trigger() returns text language sql as $$
select g.xmin || ' ' || g.ctid from pg_trigger as g where g.tgrelid = 't.thing'::regclass;
$$;
create function t.ensure(definition text) returns void language sql as $$
select _pgwhen.ensure_trigger('t.thing', 'note it', 'after insert', ensure.definition);
$$;

select _pgwhen.ensure_default('t.thing', 'made_at', '_pgwhen.clock()');
select col_default_is(
    't', 'thing', 'made_at', '_pgwhen.clock()', 'ensure_default sets a default that is missing'
);
select t.version_of_default() as before \gset
select _pgwhen.ensure_default('t.thing', 'made_at', '_pgwhen.clock()');
select is(t.version_of_default(), :'before', 'ensure_default leaves an equal one alone');
select _pgwhen.ensure_default('t.thing', 'made_at', '_pgwhen.event_clock()');
select col_default_is(
    't', 'thing', 'made_at', '_pgwhen.event_clock()', 'ensure_default replaces another one'
);

select t.ensure('for each statement execute function t.nothing()');
select has_trigger('t', 'thing', 'note it', 'ensure_trigger creates what is missing');
select t.version_of_trigger() as before \gset
select t.ensure('for each statement execute function t.nothing()');
select is(t.version_of_trigger(), :'before', 'ensure_trigger leaves an equal one alone');
select t.ensure('for each row execute function t.nothing()');
select isnt(t.version_of_trigger(), :'before', 'ensure_trigger replaces another one');
select is(
    (select count(*) from pg_trigger as g where g.tgrelid = 't.thing'::regclass), 1::bigint,
    'ensure_trigger replaces it in place'
);
select alike(
    (
        select pg_get_triggerdef(g.oid)
        from pg_trigger as g where g.tgrelid = 't.thing'::regclass
    ),
    '%FOR EACH ROW EXECUTE FUNCTION t.nothing()', 'ensure_trigger makes what it was told'
);

-- A deploy that changes nothing takes no lock that a writer would have to wait for.
create view t.strong_locks as
select l.relation::regclass as relation, l.mode
from pg_locks as l
where
    l.pid = pg_backend_pid()
    and l.locktype = 'relation'
    and l.mode in ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    and l.relation in ('pgwhen.line_user'::regclass, 'pgwhen.scheduled_action'::regclass);

\ir ../../../sql/events/triggers.sql
\ir ../../../sql/core/defaults.sql
select is_empty('table t.strong_locks', 'a second deploy locks no table that is written to');
select _pgwhen.ensure_default('pgwhen.line_user', 'is_friend', 'false');
select isnt_empty('table t.strong_locks', 'a deploy that changes one does');

select finish();
rollback;
