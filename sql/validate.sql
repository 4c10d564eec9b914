-- Functions are created with check_function_bodies off, so that a file may put its verb first and
-- the helpers below. Here, when all of them stand, each body is checked.

do $$
declare
    v_function regprocedure;
    v_state text;
begin
    set local check_function_bodies = on;
    for v_function in
        select p.oid
        from pg_catalog.pg_proc as p
        where p.pronamespace in ('pgwhen'::regnamespace, '_pgwhen'::regnamespace)
        order by p.oid
    loop
        perform case l.lanname
            when 'sql' then pg_catalog.fmgr_sql_validator(p.oid)
            when 'plpgsql' then pg_catalog.plpgsql_validator(p.oid)
        end
        from pg_catalog.pg_proc as p
        inner join pg_catalog.pg_language as l on p.prolang = l.oid
        where p.oid = v_function;
    end loop;
exception
    when others then
        get stacked diagnostics v_state = returned_sqlstate;
        raise exception 'function %: %', v_function, sqlerrm using errcode = v_state;
end;
$$;
