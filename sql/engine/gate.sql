-- _pgwhen.gate: what stands between an action whose time has come and whoever does it. In order:
--   still wanted: its rule is there and live, or it was made to outlast a disabled one;
--   the user: not deleted since, and, where the action is a send, a friend;
--   the condition again, where the delay asks for it, on the user's facts of this moment.
-- Those that do not pass are cancelled here and give their frequency slot back, unless an earlier
-- attempt may have been delivered. Asked at every claim, retries too; not of what a pass hands out
-- itself, which it has just judged.
--
-- The caller has locked the rows: nobody ends or claims them meanwhile. Each statement here sees
-- what was committed before it began, so a rule disabled or a user deleted by then counts, whatever
-- the pass saw that made the action.

create or replace function _pgwhen.gate(due _pgwhen.due, now timestamptz)
returns bigint[]
language plpgsql
volatile
as $$
declare
    v_rules constant bigint[] := array(
        select r.id
        from unnest((gate.due).rules) as r (id)
        where (
            select true from _pgwhen.rule as c where c.trigger_rule_id = r.id
        ) is null
    );
    v_asked bigint[] := coalesce((gate.due).asking, '{}');
    v_ended bigint[];
begin
    if v_rules <> '{}' then
        v_asked := v_asked || array(
            select a.id
            from pgwhen.scheduled_action as a
            where
                a.id = any((gate.due).ids)
                and a.trigger_rule_id = any(v_rules)
                and a.id <> all(v_asked)
        );
    end if;
    if v_asked = '{}' then
        return (gate.due).ids;
    end if;

    v_ended := array(select s from _pgwhen.settle(_pgwhen.stopped(v_asked, gate.now)) as s);
    return array(select i from unnest((gate.due).ids) as i where i <> all(v_ended));
end;
$$;

-- The endings of those that do not pass. What raises is halved down to the one action that did, and
-- that one fails: by its own condition, as nothing else here depends on what people wrote.
create or replace function _pgwhen.stopped(ids bigint[], now timestamptz)
returns _pgwhen.ending[]
language plpgsql
volatile
as $$
declare
    v_half constant integer := cardinality(stopped.ids) / 2;
    v_why text;
begin
    return array(
        select
            _pgwhen.ending_of_action(
                g.action_id, null, 'cancelled', g.reason, null, g.attempts = 0
            )
        from (
            select s.*, coalesce(s.unwanted, s.unreachable, s.untrue) as reason
            from _pgwhen.gates(stopped.ids, stopped.now) as s
        ) as g
        where g.reason is not null
    );
exception
    when assert_failure or others then
        if v_half > 0 then
            return _pgwhen.stopped(stopped.ids[:v_half], stopped.now)
                || _pgwhen.stopped(stopped.ids[v_half + 1:], stopped.now);
        end if;
        get stacked diagnostics v_why = message_text;
        return array(
            select
                _pgwhen.ending_of_action(
                    a.id, null, 'failed', 'condition: ' || sqlstate || ': ' || v_why, null,
                    a.retry_count = 0
                )
            from pgwhen.scheduled_action as a
            where a.id = any(stopped.ids)
        );
end;
$$;

-- What each gate says of each action: null where it passes. explain() asks this too.
--
-- The condition is the one that the action keeps. While its rule still has the same, the rule's
-- compiled form serves; else each distinct one is compiled here, once for the batch.
create or replace function _pgwhen.gates(ids bigint[], now timestamptz)
returns table (
    action_id bigint,
    attempts integer,
    asks_again boolean,
    unwanted text,
    unreachable text,
    untrue text
)
language sql
stable
as $$
with action as materialized (
    select
        a.id, a.retry_count, a.trigger_rule_id, a.line_oa_id, a.user_id, a.action_type, a.event,
        a.delay, a.user_known, r.id is null or r.deleted_date is not null as rule_is_gone,
        c.trigger_rule_id is not null as rule_is_live,
        case when a.delay ? 'reEvaluateConditions'
            then coalesce(a.source_config -> 'condition', '{}') end as condition,
        r.source_config = a.source_config and c.trigger_rule_id is not null as is_rules_own,
        c.condition_path, c.condition_vars, c.condition_needs
    from pgwhen.scheduled_action as a
    left join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
    left join _pgwhen.rule as c on c.trigger_rule_id = r.id
    where a.id = any(gates.ids)
),
compiled as materialized (
    select d.condition, k.path, k.vars, k.needs
    from (
        select distinct a.condition
        from action as a
        where a.condition is not null and a.is_rules_own is not true
    ) as d
    cross join lateral _pgwhen.compile_condition(d.condition) as k
)
select
    a.id,
    a.retry_count,
    a.condition is not null,
    case
        when a.trigger_rule_id is null then null
        when a.rule_is_gone then 'rule_deleted'
        when not a.rule_is_live and a.delay ->> 'onRuleDisabled' is distinct from 'keep'
            then 'rule_disabled'
    end,
    case
        when a.user_known and u.user_id is null then 'user_deleted'
        when not u.is_friend and _pgwhen.is_send(a.action_type) then 'not_a_friend'
    end,
    case
        when a.condition is not null and not case
            when a.is_rules_own then _pgwhen.holds_now(
                a.condition_path, a.condition_vars, a.condition_needs,
                a.line_oa_id, a.user_id, a.event, u.attributes, gates.now
            )
            else _pgwhen.holds_now(
                k.path, k.vars, k.needs,
                a.line_oa_id, a.user_id, a.event, u.attributes, gates.now
            )
        end then 'condition_false'
    end
from action as a
left join compiled as k on a.is_rules_own is not true and k.condition = a.condition
left join pgwhen.line_user as u on u.line_oa_id = a.line_oa_id and u.user_id = a.user_id;
$$;

-- A condition at due time: the event as it was, the user and their audiences as they are.
create or replace function _pgwhen.holds_now(
    path jsonpath,
    vars jsonb,
    needs jsonb,
    line_oa_id text,
    user_id text,
    event jsonb,
    attributes jsonb,
    now timestamptz
)
returns boolean
language sql
stable
as $$
select _pgwhen.holds(
    holds_now.path, holds_now.vars, holds_now.needs,
    pg_catalog.jsonb_build_object(
        'user', coalesce(holds_now.attributes, '{}'),
        'event', holds_now.event - array['id', 'uuid']
    ),
    holds_now.now,
    case when holds_now.needs is not null then _pgwhen.memberships(
        holds_now.line_oa_id, holds_now.user_id, holds_now.needs
    ) end
);
$$;

-- Those of the types whose actions reach the user only while they are a friend.
create or replace function _pgwhen.sends(action_types text[])
returns text[]
language plpgsql
stable
as $$
begin
    return array(
        select t.name
        from _pgwhen.action_type as t
        where t.name = any(sends.action_types) and t.options @> '{"send": true}'
    );
end;
$$;

create or replace function _pgwhen.is_send(action_type text)
returns boolean
language sql
stable
as $$
select _pgwhen.sends(array[is_send.action_type]) <> '{}';
$$;
