-- _pgwhen.judge: what becomes of each matched rule before frequency: 'source_false' (it asks for
-- another change), 'loop', 'condition_false', 'no_moment' (what it is to wait for is no time) or
-- 'fire'. The one judge: explain() calls it too.
--
-- Inlined where it is called; OFFSET 0 keeps each mention of the document from making it anew, and
-- of the verdict from judging again. The event goes by its columns: a field of a composite costs a
-- look at its type.

create or replace function _pgwhen.judge(
    events _pgwhen.outbox[],
    only_rule bigint default null
)
returns setof _pgwhen.firing
language sql
stable
as $$
select
    e.id, e.uuid, e.line_oa_id, e.user_id, e.type, e.key, e.old, e.new, e.data, e.at, e.chain,
    r.trigger_rule_id, r.organization_id, r.frequency, r.period, r.calendar, r.action_type,
    r.action_config, r.delay, r.retry_policy, r.timeouts, u.value, r.log_all, r.workflow_id,
    r.workflow_node_path, j.verdict, null::bigint, null::text
from (
    select
        u.*,
        _pgwhen.document(u.type, u.key, u.old, u.new, u.data, u.at, u.facts) as doc
    from unnest(judge.events) as u
    offset 0
) as e
cross join lateral _pgwhen.match(e.type, e.line_oa_id, e.keys, e.created_at) as r
cross join lateral (
    select case
        when r.delay ? 'until' then e.doc #> (r.delay #>> '{until,path}')::text[]
    end as value
) as u
cross join lateral (
    select case
        when not pg_catalog.jsonb_path_match(e.doc, r.match_path, r.match_vars) then 'source_false'
        when _pgwhen.is_loop(e.chain, r.trigger_rule_id) then 'loop'
        when
            r.condition_path is not null
            and _pgwhen.condition_holds(r, e.line_oa_id, e.user_id, e.at, e.doc) is not true
            then 'condition_false'
        when
            r.delay is not null  -- else both operands of `and` are evaluated
            and r.delay ? 'until'
            and _pgwhen.moment_in(u.value) is null
            then 'no_moment'
        else 'fire'
    end as verdict
) as j
where judge.only_rule is null or r.trigger_rule_id = judge.only_rule
offset 0;
$$;

-- A rule does not fire again in its own chain, and no chain grows for ever.
create or replace function _pgwhen.is_loop(chain bigint[], rule_id bigint)
returns boolean
language sql
stable
as $$
select
    is_loop.chain <> '{}'
    and (
        is_loop.rule_id = any(is_loop.chain)
        or pg_catalog.cardinality(is_loop.chain) >= (_pgwhen.setting('maxChainDepth'))::int4
    );
$$;

create or replace function _pgwhen.condition_holds(
    rule _pgwhen.rule,
    line_oa_id text,
    user_id text,
    at timestamptz,
    doc jsonb
)
returns boolean
language sql
stable
as $$
select case
    when (condition_holds.rule).condition_needs is null then
        pg_catalog.jsonb_path_match(
            condition_holds.doc,
            (condition_holds.rule).condition_path, (condition_holds.rule).condition_vars
        )
    else
        _pgwhen.holds(
            (condition_holds.rule).condition_path,
            (condition_holds.rule).condition_vars,
            (condition_holds.rule).condition_needs,
            condition_holds.doc,
            condition_holds.at,
            _pgwhen.memberships(
                condition_holds.line_oa_id, condition_holds.user_id,
                (condition_holds.rule).condition_needs
            )
        )
end;
$$;

-- What a condition sees.
create or replace function _pgwhen.document(
    type text,
    key text,
    old jsonb,
    new jsonb,
    data jsonb,
    at timestamptz,
    facts jsonb
)
returns jsonb
language sql
stable
as $$
select pg_catalog.jsonb_build_object(
    'user', document.facts,
    'event', _pgwhen.event_json(
        document.type, document.key, document.old, document.new, document.data, document.at
    )
);
$$;

-- An event as conditions, templates and handlers see it; what it does not have is missing.
create or replace function _pgwhen.event_json(
    type text,
    key text,
    old jsonb,
    new jsonb,
    data jsonb,
    at timestamptz
)
returns jsonb
language sql
stable
as $$
select
    pg_catalog.jsonb_build_object('type', event_json.type, 'at', event_json.at)
    || case when event_json.key is null then '{}'
        else pg_catalog.jsonb_build_object('key', event_json.key) end
    || case when event_json.old is null then '{}'
        else pg_catalog.jsonb_build_object('old', event_json.old) end
    || case when event_json.new is null then '{}'
        else pg_catalog.jsonb_build_object('new', event_json.new) end
    || case when event_json.data is null then '{}'
        else pg_catalog.jsonb_build_object('data', event_json.data) end;
$$;

-- Which of the audiences that a condition asks for the user is in.
create or replace function _pgwhen.memberships(line_oa_id text, user_id text, needs jsonb)
returns text[]
language sql
stable
as $$
select array(
    select a.name
    from unnest(_pgwhen.asked_audiences(memberships.needs)) as q (name)
    inner join pgwhen.audience as a
        on a.line_oa_id = memberships.line_oa_id and a.name = q.name
    inner join pgwhen.audience_member as m
        on m.audience_id = a.id and m.user_id = memberships.user_id
);
$$;
