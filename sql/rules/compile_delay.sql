-- _pgwhen.compiled_delay: a delay as _pgwhen.rule keeps it, with nothing left to choose. One of
--   {"seconds": 3600}
--   {"at": "2026-11-30T02:00:00.000000Z"}
--   {"until": {"field": "event.data.at", "path": "{event,data,at}",
--       "months": 0, "days": -1, "seconds": 0}}          path is a text[]; the sum is the offset
--   {"wait": {"expires": 86400, "after": "send", "tracking": {"link": "offer"},
--       "onExpire": {"actionType": …, "actionConfig": {…}}, "onClick": {the same}}}
--                                    expires in seconds; the other keys only where they are given
-- and beside it, where they are not the default, "reEvaluateConditions": true (default false),
-- "whenPending": "replace" or "add" ("skip") and "onRuleDisabled": "keep" ("cancel").

-- As a rule has it: what is to be judged again later is to be what was judged at first, so the
-- rule's source_config goes with the firing, from one and the same row.
create or replace function _pgwhen.rule_delay(delay jsonb, source_config jsonb)
returns jsonb
language sql
stable
as $$
select d.compiled
    || case
        when d.compiled ? 'reEvaluateConditions'
            then jsonb_build_object('sourceConfig', rule_delay.source_config)
        else '{}'
    end
from (select _pgwhen.compiled_delay(rule_delay.delay) as compiled) as d;
$$;

create or replace function _pgwhen.compiled_delay(delay jsonb)
returns jsonb
language plpgsql
stable
as $$
begin
    return case
        when delay @> '{"waitForTracking": true}'
            then jsonb_build_object('wait', _pgwhen.compiled_wait(delay))
        when delay ? 'until'
            then jsonb_build_object('until', _pgwhen.compiled_until(delay -> 'until'))
        when delay ? 'at' then jsonb_build_object('at', _pgwhen.compiled_at(delay ->> 'at'))
        when delay is not null then jsonb_build_object('seconds', _pgwhen.expiry_of(delay))
    end
    || _pgwhen.picked(
        delay, array['reEvaluateConditions', 'whenPending', 'onRuleDisabled'],
        '{"reEvaluateConditions": false, "whenPending": "skip", "onRuleDisabled": "cancel"}'
    );
end;
$$;

create or replace function _pgwhen.compiled_wait(delay jsonb)
returns jsonb
language sql
stable
as $$
select
    jsonb_build_object('expires', _pgwhen.expiry_of(compiled_wait.delay))
    || _pgwhen.picked(compiled_wait.delay, array['after', 'tracking'], '{}')
    || case
        when compiled_wait.delay ? 'onExpire' then jsonb_build_object(
            'onExpire', '{"actionConfig": {}}'::jsonb || (compiled_wait.delay -> 'onExpire')
        )
        else '{}'
    end
    || case
        when compiled_wait.delay ? 'onClick' then jsonb_build_object(
            'onClick', '{"actionConfig": {}}'::jsonb || (compiled_wait.delay -> 'onClick')
        )
        else '{}'
    end;
$$;

create or replace function _pgwhen.compiled_until(until jsonb)
returns jsonb
language sql
stable
as $$
select jsonb_build_object(
    'field', compiled_until.until -> 'field',
    'path', string_to_array(compiled_until.until ->> 'field', '.')::text,
    'months', (extract(year from o.span) * 12 + extract(month from o.span))::integer,
    'days', extract(day from o.span)::integer,
    'seconds', trim_scale(extract(epoch from o.span - date_trunc('day', o.span)))
)
from _pgwhen.until_offset(compiled_until.until -> 'offset') as o (span);
$$;

create or replace function _pgwhen.compiled_at(at text)
returns text
language sql
stable
as $$
select to_char(
    _pgwhen.to_instant(compiled_at.at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'
);
$$;

-- Those of the keys that are there and do not say what `defaults` says anyway.
create or replace function _pgwhen.picked(value jsonb, keys text[], defaults jsonb)
returns jsonb
language plpgsql
immutable
as $$
begin
    return (
        select coalesce(jsonb_object_agg(k.key, picked.value -> k.key), '{}')
        from unnest(picked.keys) as k (key)
        where
            picked.value ? k.key
            and picked.value -> k.key is distinct from picked.defaults -> k.key
    );
end;
$$;
