-- What sits on tables but is behaviour: column defaults and triggers. Each is set only where it
-- differs from what stands, so that a deploy which changes nothing takes no lock on a table.

create or replace function _pgwhen.ensure_default(
    relation regclass,
    column_name name,
    expression text
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now text;
begin
    select pg_get_expr(d.adbin, d.adrelid)
    into v_now
    from pg_attribute as a
    left join pg_attrdef as d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = ensure_default.relation and a.attname = ensure_default.column_name;

    if v_now is distinct from ensure_default.expression then
        execute format(
            'alter table %s alter column %I set default %s',
            ensure_default.relation, ensure_default.column_name, ensure_default.expression
        );
    end if;
end;
$$;

-- `definition` is what follows the table in CREATE TRIGGER, for example 'for each statement execute
-- function …'. The trigger's comment keeps the text, so equal text means an equal trigger.
create or replace function _pgwhen.ensure_trigger(
    relation regclass,
    trigger_name name,
    timing text,
    definition text
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_text constant text := ensure_trigger.timing || ' … ' || ensure_trigger.definition;
begin
    if exists (
        select
        from pg_trigger as t
        where
            t.tgrelid = ensure_trigger.relation
            and t.tgname = ensure_trigger.trigger_name
            and obj_description(t.oid, 'pg_trigger') = v_text
    ) then
        return;
    end if;

    execute format(
        'create or replace trigger %I %s on %s %s',
        ensure_trigger.trigger_name, ensure_trigger.timing,
        ensure_trigger.relation, ensure_trigger.definition
    );
    execute format(
        'comment on trigger %I on %s is %L',
        ensure_trigger.trigger_name, ensure_trigger.relation, v_text
    );
end;
$$;
