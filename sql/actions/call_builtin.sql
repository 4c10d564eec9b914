-- The built-in SQL actions: batch functions in the shape of any registered one, (line_oa_id text[],
-- user_id text[], config jsonb[], ctx jsonb[]) returns jsonb[] in the same order. A result with
-- "error" is a definite failure of that one action; what they raise fails the batch.
--
-- They run as the owner, so they are called from definer steps only.

create or replace function _pgwhen.call_builtin(
    action_type text,
    line_oa_id text[],
    user_id text[],
    config jsonb[],
    ctx jsonb[]
)
returns jsonb[]
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    return case call_builtin.action_type
        when 'add_to_audience' then _pgwhen.add_to_audience(line_oa_id, user_id, config, ctx)
        when 'remove_from_audience' then _pgwhen.remove_from_audience(line_oa_id, user_id, config, ctx)
        when 'set_attribute' then _pgwhen.set_attribute(line_oa_id, user_id, config, ctx)
        when 'emit_event' then _pgwhen.emit_event(line_oa_id, user_id, config, ctx)
    end;
end;
$$;
