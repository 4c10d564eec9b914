-- Compiled rules follow the compiler: where a deploy changes any private function, the rules that
-- stand are compiled anew, and the rows that differ are written. The comment on compile_rules keeps
-- the digest of the functions that compiled them.
--
-- A rule that this version would refuse is parked with the reason, rather than the deploy refused.

create or replace function _pgwhen.recompile_rules()
returns void
language plpgsql
as $$
begin
    update pgwhen.trigger_rule as r
    set parked_reason = format('not valid in this version: %s: %s', f.path, f.message)
    from (
        select s.id, (_pgwhen.rule_faults(to_jsonb(s)))[1] as fault
        from pgwhen.trigger_rule as s
        where _pgwhen.rule_is_live(s.enabled, s.deleted_date, s.parked_reason)
    ) as s
    cross join lateral (select (s.fault).path, (s.fault).message) as f
    where r.id = s.id and s.fault is not null;

    perform _pgwhen.compile_rules(array(select r.id from pgwhen.trigger_rule as r));
end;
$$;

do $$
declare
    v_digest text;
begin
    select 'compiled by ' || md5(string_agg(p.prosrc, '' order by p.proname, p.prosrc))
    into v_digest
    from pg_catalog.pg_proc as p
    where p.pronamespace = '_pgwhen'::regnamespace;

    if obj_description('_pgwhen.compile_rules(bigint[])'::regprocedure, 'pg_proc')
        is distinct from v_digest
    then
        perform _pgwhen.recompile_rules();
        execute format('comment on function _pgwhen.compile_rules(bigint[]) is %L', v_digest);
    end if;
end;
$$;
