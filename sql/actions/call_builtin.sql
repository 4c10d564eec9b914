-- The built-in SQL actions: batch functions over arrays, (line_oa_id text[], user_id text[],
-- config jsonb[]) returns jsonb[] in the same order. A result with "error" is a definite failure of
-- that one action; what they raise fails the batch. They need no ctx, and making one for each
-- action would cost more than doing it.
--
-- They run as the owner, so they are called from definer steps only. `cause` is who caused the
-- events that they write: see sql/events/cause.sql.

create or replace function _pgwhen.call_builtin(
    action_type text,
    line_oa_id text[],
    user_id text[],
    config jsonb[],
    cause jsonb
)
returns jsonb[]
language plpgsql
volatile
as $$
declare
    v_results jsonb[];
begin
    perform _pgwhen.say('cause', call_builtin.cause);
    v_results := case call_builtin.action_type
        when 'add_to_audience' then _pgwhen.add_to_audience(line_oa_id, user_id, config)
        when 'remove_from_audience' then _pgwhen.remove_from_audience(line_oa_id, user_id, config)
        when 'set_attribute' then _pgwhen.set_attribute(line_oa_id, user_id, config)
        when 'emit_event' then _pgwhen.emit_event(line_oa_id, user_id, config)
    end;
    perform _pgwhen.say('cause', null);
    return v_results;
end;
$$;

-- The types that call_builtin() knows.
create or replace function _pgwhen.builtin_types()
returns text[]
language sql
immutable
as $$
select '{add_to_audience, remove_from_audience, set_attribute, emit_event}'::text[];
$$;

create or replace function _pgwhen.writes_events(action_type text)
returns boolean
language sql
immutable
as $$
select writes_events.action_type in ('set_attribute', 'emit_event');
$$;
