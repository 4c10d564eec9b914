create or replace function pgwhen.register_sql_action(
    name text,
    fn regprocedure,
    batch boolean default false,
    config_schema jsonb default null
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform _pgwhen.check_registration(register_sql_action.name, register_sql_action.config_schema);
    perform _pgwhen.check_action_function(
        register_sql_action.fn, coalesce(register_sql_action.batch, false)
    );

    insert into _pgwhen.action_type as t (
        name, kind, fn_schema, fn_name, batch, config_schema, registered_at
    )
    select
        register_sql_action.name, 'sql', n.nspname, p.proname,
        coalesce(register_sql_action.batch, false), register_sql_action.config_schema,
        _pgwhen.clock()
    from pg_proc as p
    inner join pg_namespace as n on p.pronamespace = n.oid
    where p.oid = register_sql_action.fn
    on conflict on constraint action_type_pkey do update
    set
        kind = excluded.kind,
        fn_schema = excluded.fn_schema,
        fn_name = excluded.fn_name,
        batch = excluded.batch,
        config_schema = excluded.config_schema,
        options = excluded.options,
        registered_at = excluded.registered_at
    where
        not t.builtin
        and (t.kind, t.fn_schema, t.fn_name, t.batch, t.config_schema)
        is distinct from (
            excluded.kind, excluded.fn_schema, excluded.fn_name, excluded.batch,
            excluded.config_schema
        );

    if found then
        perform _pgwhen.warn_of_unfit_rules(register_sql_action.name);
    elsif exists (
        select
        from _pgwhen.action_type as t
        where t.name = register_sql_action.name and t.builtin
    ) then
        raise exception 'the action type "%" is built in', register_sql_action.name
            using errcode = 'PW011', hint = 'Choose another name for your function.';
    end if;
end;
$$;

comment on function pgwhen.register_sql_action(text, regprocedure, boolean, jsonb) is
$doc$Bind an action type to your SQL function: it runs in the transaction that records its end.

The function is fn(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb, or, with
batch, the same four as arrays (text[], text[], jsonb[], jsonb[]) returning jsonb[] in their order.
What it writes happens exactly once; if it raises, the action is retried and then fails. It runs as
the role that processes the event (a worker, or the owner of the pg_cron job), which needs EXECUTE
on it, with search_path pg_catalog, pg_temp: qualify what it reads and writes, or give it a SET
clause. It is kept by schema and name, so that it can be replaced.

config_schema is as in register_action. Binding the same again changes nothing; binding a name that
a Python handler served takes it over.

Raises PW010 for a bad name, PW011 for a built-in one, PW012 for a schema that pgwhen does not
understand whole, PW013 for a function of another kind or signature.

  create function shop.give_points(line_oa_id text, user_id text, config jsonb, ctx jsonb)
  returns jsonb language sql as $$
      insert into shop.points (customer, points) values ($2, ($3 ->> 'points')::integer)
      returning to_jsonb(points);
  $$;
  select pgwhen.register_sql_action('give_points', 'shop.give_points(text, text, jsonb, jsonb)');
$doc$;

create or replace function _pgwhen.check_action_function(fn regprocedure, batch boolean)
returns void
language plpgsql
stable
as $$
declare
    v_many constant text := case when check_action_function.batch then '[]' else '' end;
    v_takes constant text := format('text%1$s, text%1$s, jsonb%1$s, jsonb%1$s', v_many);
    v_returns constant text := 'jsonb' || v_many;
    v_wrong text;
begin
    select case
        when p.prokind <> 'f' then 'is no plain function'
        when p.proretset then 'returns a set'
        when p.pronamespace = pg_my_temp_schema() then 'is temporary'
        when oidvectortypes(p.proargtypes) <> v_takes then 'takes other arguments'
        when format_type(p.prorettype, null) <> v_returns then 'returns another type'
    end
    into v_wrong
    from pg_proc as p
    where p.oid = check_action_function.fn;

    if not found then
        v_wrong := 'does not exist';
    end if;
    if v_wrong is not null then
        raise exception 'the function % %',
            coalesce(check_action_function.fn::text, 'null'), v_wrong
            using errcode = 'PW013',
                hint = format('Pass a function fn(%s) returns %s.', v_takes, v_returns);
    end if;
end;
$$;
