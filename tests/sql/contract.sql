-- What holds for everything in the two schemas, read from the catalog. Each check is a query for
-- offenders; controls below it show that the query finds one.
begin;
select plan(26);
\ir operation/cron.psql

create function pg_temp.ours() returns setof oid language sql stable as $$
select oid from pg_namespace where nspname in ('pgwhen', '_pgwhen');
$$;

-- Offenders --------------------------------------------------------------------------------

create view pg_temp.uncommented as
select p.oid::regprocedure::text as offender
from pg_proc as p
where
    p.pronamespace = 'pgwhen'::regnamespace
    and obj_description(p.oid, 'pg_proc') is null
union all
select c.oid::regclass::text
from pg_class as c
where
    c.relnamespace = 'pgwhen'::regnamespace
    and c.relkind = 'v'
    and obj_description(c.oid, 'pg_class') is null;

-- pg_temp last: where it is not named, it is searched first.
create view pg_temp.unpinned as
select p.oid::regprocedure::text as offender
from pg_proc as p
where
    p.pronamespace in (select pg_temp.ours())
    and p.prosecdef
    and not coalesce('search_path=pg_catalog, pg_temp' = any(p.proconfig), false);

create view pg_temp.open_to_public as
select p.oid::regprocedure::text as offender
from pg_proc as p
cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) as a
where p.pronamespace in (select pg_temp.ours()) and a.grantee = 0
union all
select c.oid::regclass::text
from pg_class as c
cross join aclexplode(c.relacl) as a
where c.relnamespace in (select pg_temp.ours()) and a.grantee = 0
union all
select n.nspname
from pg_namespace as n
cross join aclexplode(n.nspacl) as a
where n.oid in (select pg_temp.ours()) and a.grantee = 0;

create view pg_temp.reserved as
select p.oid::regprocedure || ' ' || a.name as offender
from pg_proc as p
cross join unnest(p.proargnames) as a (name)
where
    p.pronamespace = 'pgwhen'::regnamespace
    and a.name in (
        select k.word from pg_get_keywords() as k
        where k.catcode in ('R', 'T')
    );

create view pg_temp.unnamed as
select p.oid::regprocedure::text as offender
from pg_proc as p
where
    p.pronamespace = 'pgwhen'::regnamespace
    and p.pronargs > 0
    and (p.proargnames is null or '' = any(p.proargnames));

-- Without it, deleting a parent row walks the whole child table.
create view pg_temp.unindexed as
select c.conrelid::regclass || ' ' || c.conname as offender
from pg_constraint as c
where
    c.contype = 'f'
    and c.connamespace in (select pg_temp.ours())
    and not exists (
        select
        from pg_index as i
        where
            i.indrelid = c.conrelid
            and i.indpred is null
            and (i.indkey::smallint[])[0:cardinality(c.conkey) - 1] @> c.conkey
    );

create view pg_temp.keyless as
select c.oid::regclass::text as offender
from pg_class as c
where
    c.relnamespace = 'pgwhen'::regnamespace
    and c.relkind in ('r', 'p')
    and not exists (
        select from pg_constraint as k
        where k.conrelid = c.oid and k.contype = 'p'
    );

-- A trigger function is checked for each table that it serves, with all the transition tables that
-- its triggers there give it; one without a trigger is checked nowhere. That an assignment casts is
-- what PL/pgSQL is for.
create view pg_temp.wrong as
select f.signature || ' line ' || coalesce(e.lineno, 0) || ': ' || e.message as offender
from (
    select
        p.oid,
        p.oid::regprocedure::text as signature,
        t.tgrelid,
        max(t.tgoldtable) as tgoldtable,
        max(t.tgnewtable) as tgnewtable
    from pg_proc as p
    inner join pg_language as l on p.prolang = l.oid
    left join pg_trigger as t on p.oid = t.tgfoid
    where
        p.pronamespace in (select pg_temp.ours())
        and l.lanname = 'plpgsql'
        and (p.prorettype <> 'trigger'::regtype or t.oid is not null)
    group by p.oid, t.tgrelid
) as f
cross join
    plpgsql_check_function_tb(
        funcoid => f.oid,
        relid => coalesce(f.tgrelid, 0),
        oldtable => f.tgoldtable,
        newtable => f.tgnewtable,
        fatal_errors => false,
        extra_warnings => false,
        performance_warnings => false
    ) as e
where not (e.level = 'warning' and e.sqlstate = '42804');

-- A plan that is turned off costs 10 billion, at which Postgres compiles what would take 1 ms.
create view pg_temp.compiled as
select p.oid::regprocedure::text as offender
from pg_proc as p
where
    p.pronamespace in (select pg_temp.ours())
    and exists (select from unnest(p.proconfig) as c where c like 'enable%=off')
    and 'jit=off' <> all(p.proconfig);

create view pg_temp.idle_trigger_function as
select p.oid::regprocedure::text as offender
from pg_proc as p
where
    p.pronamespace in (select pg_temp.ours())
    and p.prorettype = 'trigger'::regtype
    and not exists (
        select from pg_trigger as t
        where t.tgfoid = p.oid
    );

-- The product -------------------------------------------------------------------------------

select is_empty('table pg_temp.uncommented', 'a public function or view has a comment');
select is_empty('table pg_temp.unpinned', 'a security definer pins its search_path');
select is_empty('table pg_temp.open_to_public', 'nothing is open to public');
select is_empty('table pg_temp.reserved', 'a parameter is no reserved word');
select is_empty('table pg_temp.unnamed', 'a parameter has a name');
select is_empty('table pg_temp.unindexed', 'a foreign key has an index');
select is_empty('table pg_temp.keyless', 'a public table has a primary key');
select is_empty('table pg_temp.wrong', 'plpgsql_check finds nothing');
select is_empty('table pg_temp.idle_trigger_function', 'a trigger function has a trigger');
select is_empty('table pg_temp.compiled', 'who turns plans off turns compiling off');

-- Names -------------------------------------------------------------------------------------

select bag_eq(
    $$
    select
        p.proname || '(' || coalesce((
            select string_agg(a.name, ', ' order by a.n)
            from unnest(p.proargnames, p.proargmodes) with ordinality as a (name, mode, n)
            where coalesce(a.mode, 'i') in ('i', 'b', 'v')
        ), '') || ')'
    from pg_proc as p
    where p.pronamespace = 'pgwhen'::regnamespace
    $$,
    $$
    values
        ('adopt()'),
        ('announce_worker(worker, action_types)'),
        ('cancel_action(action_id, reason)'),
        ('claim_actions(worker, batch_size, action_types)'),
        ('complete_actions(worker, ids, tokens, results)'),
        ('exchange_actions(worker, ids, tokens, results, batch_size, action_types)'),
        ('disable_cron()'),
        ('effect_once(key, kind)'),
        ('emit(event_type, user_id, data, key, line_oa_id, at)'),
        ('enable_cron(seconds)'),
        ('event_time(at)'),
        ('expire_actions(batch_size)'),
        ('explain(rule, user_id, event_id, line_oa_id)'),
        ('fail_actions(worker, ids, tokens, errors)'),
        ('heartbeat_actions(worker, ids, tokens, details)'),
        ('keep_body(key, body_hash)'),
        ('maintain(batch_size)'),
        ('matches(condition, facts, as_of, audiences)'),
        ('mute(muted)'),
        ('next_runs(rule, source, n, after)'),
        ('pause(reason, action_type, line_oa_id, rule)'),
        ('process_events(worker, action_types, batch_size, claim_limit, suspect, look_ahead)'),
        ('recover_stale_actions(batch_size)'),
        ('register_action(name, config_schema, options)'),
        ('register_sql_action(name, fn, batch, config_schema)'),
        ('release_actions(worker, ids, tokens)'),
        ('reschedule_action(action_id, execute_at)'),
        ('resume(reason, action_type, line_oa_id, rule, mode)'),
        ('retry_action(action_id, reason)'),
        ('retry_event(event_id)'),
        ('run_action_now(action_id)'),
        ('run_ticks(max_seconds, events, done)'),
        ('schedule_action('
            'action_type, user_id, action_config, execute_at, delay, line_oa_id, organization_id, '
            'deduplication_key)'),
        ('schedule_actions('
            'action_type, user_ids, action_configs, execute_at, delay, line_oa_id, '
            'organization_id, deduplication_keys)'),
        ('secret_names(line_oa_id)'),
        ('status()'),
        ('tail(after_id, max_rows)'),
        ('tick(batch_size)'),
        ('try_sleep()'),
        ('validate_rule(rule)'),
        ('version()'),
        ('wake_up()')
    $$,
    'people call these functions by these names'
);

-- Controls ----------------------------------------------------------------------------------

create function pgwhen.c_bare() returns void language sql as '';
create function pgwhen.c_definer() returns void language sql security definer as '';
create function pgwhen.c_half() returns void language sql security definer
set search_path = pg_catalog as '';
create function pgwhen.c_word("from" integer, "left" integer) returns void language sql as '';
create function pgwhen.c_nameless(integer) returns void language sql as '';
create function _pgwhen.c_wrong() returns void language plpgsql
as 'begin perform nothing from pgwhen.account; end';
create function _pgwhen.c_idle() returns trigger language plpgsql
as 'begin return new; end';
create function _pgwhen.c_planned() returns void language sql set enable_seqscan = off as '';
create table pgwhen.c_keyless (user_id text, line_oa_id text references pgwhen.account);
grant select on pgwhen.c_keyless to public;
grant usage on schema _pgwhen to public;
create view pgwhen.c_view as select 1 as one;

create function pg_temp.finds(checks text, what text) returns text language plpgsql as $$
declare
    v_found boolean;
begin
    execute format(
        'select exists (select from pg_temp.%I as c where c.offender like %L)', checks, what
    )
    into v_found;
    return ok(v_found, checks || ' finds ' || what);
end;
$$;

select pg_temp.finds('uncommented', 'pgwhen.c_bare()');
select pg_temp.finds('uncommented', 'pgwhen.c_view');
select pg_temp.finds('unpinned', 'pgwhen.c_definer()');
select pg_temp.finds('unpinned', 'pgwhen.c_half()');
select pg_temp.finds('open_to_public', 'pgwhen.c_bare()');
select pg_temp.finds('open_to_public', 'pgwhen.c_keyless');
select pg_temp.finds('open_to_public', '_pgwhen');
select pg_temp.finds('reserved', 'pgwhen.c_word(integer,integer) from');
select pg_temp.finds('reserved', 'pgwhen.c_word(integer,integer) left');
select pg_temp.finds('unnamed', 'pgwhen.c_nameless(integer)');
select pg_temp.finds('unindexed', 'pgwhen.c_keyless %');
select pg_temp.finds('keyless', 'pgwhen.c_keyless');
select pg_temp.finds('wrong', '_pgwhen.c_wrong() line 1: %nothing%');
select pg_temp.finds('idle_trigger_function', '_pgwhen.c_idle()');
select pg_temp.finds('compiled', '_pgwhen.c_planned()');

select finish();
rollback;
