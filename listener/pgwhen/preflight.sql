-- Refuses what a deploy must not touch, and leaves the names of the migrations that are still to
-- run, separated by commas, in the setting pgwhen.pending of this transaction. Stands at the head
-- of every deploy, and of the one-file installer; the list of known migrations is filled in.

do $preflight$
declare
    v_known constant jsonb := '@known@';
    v_applied jsonb := '[]';
    v_fault text;
begin
    if current_setting('server_version_num')::integer < 150000 then
        raise exception 'pgwhen needs PostgreSQL 15 or newer, this is %', current_setting('server_version')
            using errcode = 'PW901', hint = 'Upgrade the server, or name another one.';
    end if;
    if pg_is_in_recovery() then
        raise exception 'this server is a standby'
            using errcode = 'PW902', hint = 'Deploy on the primary; the standby follows.';
    end if;

    if to_regclass('_pgwhen.migration') is not null then
        execute 'select coalesce(jsonb_agg(jsonb_build_array(name, digest) order by name collate "C"), ''[]'')'
            ' from _pgwhen.migration'
        into v_applied;
    elsif to_regnamespace('pgwhen') is not null or to_regnamespace('_pgwhen') is not null then
        raise exception 'schema pgwhen or _pgwhen exists, but there is no ledger _pgwhen.migration in it'
            using errcode = 'PW903',
                hint = 'Something else made it: look inside, then drop or rename both schemas.';
    end if;

    select a.value ->> 0
    into v_fault
    from jsonb_array_elements(v_applied) with ordinality as a (value, n)
    where a.value ->> 0 is distinct from v_known -> (a.n - 1)::integer ->> 0
    order by a.n
    limit 1;
    if found then
        raise exception 'the database has migration %, which is not the next one of this package', v_fault
            using errcode = 'PW905',
                hint = 'Use the package that deployed this database, or a newer one; new migrations get '
                    'numbers above all released ones.';
    end if;

    select a.value ->> 0
    into v_fault
    from jsonb_array_elements(v_applied) with ordinality as a (value, n)
    where a.value ->> 1 is distinct from v_known -> (a.n - 1)::integer ->> 1
    order by a.n
    limit 1;
    if found then
        raise exception 'migration % has changed since it was applied here', v_fault
            using errcode = 'PW904',
                hint = 'Restore the file as it was released, and put the change into a new migration.';
    end if;

    perform set_config('pgwhen.pending', coalesce(string_agg(k.value ->> 0, ',' order by k.n), ''), true)
    from jsonb_array_elements(v_known) with ordinality as k (value, n)
    where k.n > jsonb_array_length(v_applied);
end;
$preflight$;
