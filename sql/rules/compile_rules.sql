-- _pgwhen.rule holds the rules that can fire now, in the form that matching and judging read.
--
-- Compiled from the rows as they stand, for a set of rules at once: what many of them ask alike is
-- compiled once. The joins are full, which adds no row and, unlike left ones, cannot be planned as
-- nested loops. Only rows that differ are written; they are compared as text, because a jsonpath
-- has no equality. Lock order: rules by id.

create or replace function _pgwhen.compile_rules(ids bigint[])
returns void
language plpgsql
volatile
as $$
begin
    with live as (
        select
            r.*,
            _pgwhen.source_predicate(r.source_type, r.source_config) as predicate,
            coalesce(r.source_config -> 'condition', '{}') as condition
        from pgwhen.trigger_rule as r
        where
            r.id = any(compile_rules.ids)
            and _pgwhen.rule_is_live(r.enabled, r.deleted_date, r.parked_reason)
    ),
    predicate as (
        select d.predicate, c.path, c.vars
        from (select distinct l.predicate from live as l where l.predicate <> '{}') as d
        cross join lateral _pgwhen.compile_condition(d.predicate) as c
    ),
    condition as (
        select d.condition, c.path, c.vars, c.needs
        from (select distinct l.condition from live as l where l.condition <> '{}') as d
        cross join lateral _pgwhen.compile_condition(d.condition) as c
    )
    insert into _pgwhen.rule as kept (
        trigger_rule_id, line_oa_id, organization_id, source_type, key,
        match_path, match_vars, condition_path, condition_vars, condition_needs,
        enabled_date, frequency, period, calendar,
        action_type, action_config, delay, retry_policy, timeouts, log_all, workflow_id,
        workflow_node_path
    )
    select
        l.id, l.line_oa_id, l.organization_id, l.source_type,
        _pgwhen.source_key(l.source_type, l.source_config),
        p.path, p.vars, c.path, c.vars, c.needs,
        l.enabled_date, l.frequency,
        _pgwhen.frequency_period(l.frequency, l.cooldown_seconds),
        _pgwhen.frequency_calendar(l.frequency),
        l.action_type, l.action_config - _pgwhen.config_keys_of_pgwhen(),
        _pgwhen.rule_delay(l.action_config -> 'delay', l.source_config),
        _pgwhen.compiled_retry_policy(l.action_config -> 'retryPolicy'),
        _pgwhen.compiled_timeouts(l.action_config -> 'timeouts'),
        l.source_config ? 'log', l.workflow_id, l.workflow_node_path
    from live as l
    full join predicate as p on l.predicate = p.predicate
    full join condition as c on l.condition = c.condition
    order by l.id
    on conflict on constraint rule_pkey do update
    set
        line_oa_id = excluded.line_oa_id,
        organization_id = excluded.organization_id,
        source_type = excluded.source_type,
        key = excluded.key,
        match_path = excluded.match_path,
        match_vars = excluded.match_vars,
        condition_path = excluded.condition_path,
        condition_vars = excluded.condition_vars,
        condition_needs = excluded.condition_needs,
        enabled_date = excluded.enabled_date,
        frequency = excluded.frequency,
        period = excluded.period,
        calendar = excluded.calendar,
        action_type = excluded.action_type,
        action_config = excluded.action_config,
        delay = excluded.delay,
        retry_policy = excluded.retry_policy,
        timeouts = excluded.timeouts,
        log_all = excluded.log_all,
        workflow_id = excluded.workflow_id,
        workflow_node_path = excluded.workflow_node_path
    where kept::text is distinct from excluded::text;
end;
$$;

create or replace function _pgwhen.rule_is_live(
    enabled boolean,
    deleted_date timestamptz,
    parked_reason text
)
returns boolean
language sql
immutable
as $$
select
    rule_is_live.enabled
    and rule_is_live.deleted_date is null
    and rule_is_live.parked_reason is null;
$$;
