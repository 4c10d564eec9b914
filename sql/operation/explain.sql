create or replace function pgwhen.explain(
    rule bigint,
    user_id text,
    event_id bigint default null,
    line_oa_id text default null
)
returns table (gate text, verdict text, reason text, detail jsonb)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_rule constant pgwhen.trigger_rule := _pgwhen.rule_to_explain(explain.rule);
    v_oa constant text := coalesce(explain.line_oa_id, v_rule.line_oa_id);
    v_kept _pgwhen.processed_event;
    v_event _pgwhen.outbox;
    v_trace text;
begin
    if explain.user_id is null then
        raise exception 'explain needs a user_id'
            using errcode = 'PW206', hint = 'Name the user whom you ask about.';
    end if;
    v_kept := case when explain.event_id is null
        then _pgwhen.supposed_event(v_rule, v_oa, explain.user_id)
        else _pgwhen.kept_event(v_oa, explain.user_id, explain.event_id) end;
    v_event := _pgwhen.as_outbox(v_kept);
    v_trace := _pgwhen.trace_of(v_rule.id, v_event);

    return query
    select g.gate, g.verdict, g.reason, g.detail
    from (
        select 1 as n, e.*
        from _pgwhen.explain_rule(v_rule, v_event, v_kept.processed_at, v_trace) as e
        union all
        select 2, e.* from _pgwhen.explain_event(v_event, v_kept, explain.event_id) as e
        union all
        select 3, e.* from _pgwhen.explain_judge(v_rule, v_event, explain.event_id, v_trace) as e
        union all
        select 4, e.* from _pgwhen.explain_frequency(v_rule, v_event, v_kept.processed_at) as e
        union all
        select 5, e.* from _pgwhen.explain_delay(v_rule, v_event, explain.event_id, v_trace) as e
        union all
        select 6, e.* from _pgwhen.explain_when_pending(v_rule, v_event, v_trace) as e
        union all
        select 7, e.* from _pgwhen.explain_pending(v_rule, v_event, explain.event_id) as e
        union all
        select 8, e.* from _pgwhen.explain_due(v_rule, v_event, explain.event_id) as e
        union all
        select 9, e.* from _pgwhen.explain_log(v_rule, v_event, explain.event_id) as e
    ) as g
    order by g.n;
end;
$$;

comment on function pgwhen.explain(bigint, text, bigint, text) is
$doc$Say why a rule did, does or would not do something for a user: every gate in order.

Gates: rule (is it live), event (which one), source, loop, condition (a row for each clause with the
value it saw), frequency (and until when), delay (and when due), whenPending; then each action that
waits (pending), what its gates would say if it were due now (still wanted, user, condition again),
and the log. verdict is 'pass', 'stop' or 'note'; the first 'stop' is the answer. With an event_id: that event as it was then, for as long as events are
kept (setting eventRetention). Rules and memberships of audiences have no history: they are as they
are now; a gate that would stop now, but did not then, is a 'note'. Without: the user as they are
now, as if what the rule asks for happened this moment.

The judge is the one that decides in process_events(). line_oa_id defaults to the rule's account.

Raises PW206 for an unknown rule or a missing user, PW207 for an event that is not kept or not
this user's.

  select * from pgwhen.explain(rule => 7, user_id => 'U1');
$doc$;

create or replace function _pgwhen.rule_to_explain(rule_id bigint)
returns pgwhen.trigger_rule
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_rule pgwhen.trigger_rule;
begin
    select r.* into v_rule from pgwhen.trigger_rule as r where r.id = rule_to_explain.rule_id;
    if not found then
        raise exception 'there is no rule %', rule_to_explain.rule_id
            using errcode = 'PW206', hint = 'Find it: select id, name from pgwhen.trigger_rule.';
    end if;
    return v_rule;
end;
$$;

-- Without an event: what the rule waits for, happening to the user now.
create or replace function _pgwhen.supposed_event(
    rule pgwhen.trigger_rule,
    line_oa_id text,
    user_id text
)
returns _pgwhen.processed_event
language sql
volatile
as $$
select row(
    null, 0, null, supposed_event.line_oa_id, supposed_event.user_id,
    (supposed_event.rule).source_type, array['*', k.key], nullif(k.key, '*'), null,
    u.attributes -> k.key, null, coalesce(u.attributes, '{}'), c.now, c.now, '{}', null, null
)::_pgwhen.processed_event
from (
    select _pgwhen.source_key(
        (supposed_event.rule).source_type, (supposed_event.rule).source_config
    ) as key
) as k
cross join _pgwhen.clock() as c (now)
left join pgwhen.line_user as u
    on u.line_oa_id = supposed_event.line_oa_id and u.user_id = supposed_event.user_id;
$$;

create or replace function _pgwhen.kept_event(line_oa_id text, user_id text, event_id bigint)
returns _pgwhen.processed_event
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_kept _pgwhen.processed_event;
begin
    select k.*
    into v_kept
    from (
        select o.*, null::timestamptz, null::text
        from _pgwhen.outbox as o
        where o.id = kept_event.event_id
        union all
        select p.*
        from _pgwhen.processed_event as p
        where p.user_id = kept_event.user_id and p.id = kept_event.event_id
    ) as k
    where k.line_oa_id = kept_event.line_oa_id and k.user_id = kept_event.user_id;

    if not found then
        raise exception 'event % is not kept, or not one of user %',
            kept_event.event_id, kept_event.user_id
            using errcode = 'PW207',
                hint = 'Look: select id, type, key, at from pgwhen.event where user_id = … '
                    'Processed events are kept for the setting eventRetention.';
    end if;
    return v_kept;
end;
$$;

create or replace function _pgwhen.as_outbox(kept _pgwhen.processed_event)
returns _pgwhen.outbox
language sql
immutable
as $$
select row(
    (as_outbox.kept).id, (as_outbox.kept).bucket, (as_outbox.kept).uuid,
    (as_outbox.kept).line_oa_id, (as_outbox.kept).user_id, (as_outbox.kept).type,
    (as_outbox.kept).keys, (as_outbox.kept).key, (as_outbox.kept).old, (as_outbox.kept).new,
    (as_outbox.kept).data, (as_outbox.kept).facts, (as_outbox.kept).at,
    (as_outbox.kept).created_at, (as_outbox.kept).chain
)::_pgwhen.outbox;
$$;

-- What the rule left of an event: the gate at which the log says that it stopped, 'fired', or null.
create or replace function _pgwhen.trace_of(rule_id bigint, event _pgwhen.outbox)
returns text
language sql
stable
as $$
select coalesce(
    (
        select case
            when l.status = 'failed' and l.error_message like 'delay.until:%' then 'delay'
            when l.status <> 'suppressed' then 'fired'
            when l.error_message = 'condition false' then 'condition'
            when l.error_message like 'loop:%' then 'loop'
            when l.error_message like 'pending:%' then 'whenPending'
            else 'frequency'
        end
        from pgwhen.trigger_log as l
        where
            l.user_id = (trace_of.event).user_id
            and l.trigger_rule_id = trace_of.rule_id
            and l.event_id = (trace_of.event).id
        limit 1
    ),
    (
        select 'fired'
        from _pgwhen.live_actions(trace_of.rule_id, trace_of.event) as a
        where a.event -> 'id' = pg_catalog.to_jsonb((trace_of.event).id)
        limit 1
    )
);
$$;

-- What waits or runs for this rule and user. One by one, as each status has an index of its own.
create or replace function _pgwhen.live_actions(rule_id bigint, event _pgwhen.outbox)
returns setof pgwhen.scheduled_action
language sql
stable
as $$
select a.*
from pgwhen.scheduled_action as a
where
    a.status = 'pending'
    and a.user_id = (live_actions.event).user_id
    and a.line_oa_id = (live_actions.event).line_oa_id
    and a.trigger_rule_id = live_actions.rule_id
union all
select a.*
from pgwhen.scheduled_action as a
where
    a.status = 'processing'
    and a.user_id = (live_actions.event).user_id
    and a.line_oa_id = (live_actions.event).line_oa_id
    and a.trigger_rule_id = live_actions.rule_id;
$$;

-- A rule that could not fire for this event as it stands now may have been able to when the event
-- was processed, if it was changed since. It was, if it left a trace; it was not, if it would have
-- fired and left none; else nobody knows, and the gates below say why it did nothing either way.
create or replace function _pgwhen.explain_rule(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    processed_at timestamptz,
    trace text,
    out gate text,
    out verdict text,
    out reason text,
    out detail jsonb
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    gate := 'rule';
    detail := jsonb_build_object('name', rule.name, 'updated', rule.updated_date);
    reason := case
        when rule.deleted_date is not null then 'deleted at ' || _pgwhen.stamp(rule.deleted_date)
        when rule.parked_reason is not null then 'parked: ' || rule.parked_reason
        when not rule.enabled then 'disabled'
        when rule.line_oa_id <> event.line_oa_id
            then format('belongs to account %s, not %s', rule.line_oa_id, event.line_oa_id)
        when rule.enabled_date > event.created_at
            then 'enabled only at ' || _pgwhen.stamp(rule.enabled_date)
                || ', after the event; rules look forward'
    end;
    if reason is null then
        verdict := 'pass';
        reason := 'live since ' || _pgwhen.stamp(rule.enabled_date);
    elsif rule.updated_date > explain_rule.processed_at and (
        explain_rule.trace is not null
        or rule.line_oa_id = event.line_oa_id and _pgwhen.verdict_on(rule, event) <> 'fire'
    ) then
        verdict := 'note';
        reason := reason || '; changed at ' || _pgwhen.stamp(rule.updated_date)
            || ', after this event was processed';
    else
        verdict := 'stop';
    end if;
end;
$$;

-- The judge's verdict; of a rule that cannot fire, and so has no compiled form, what it would be.
create or replace function _pgwhen.verdict_on(rule pgwhen.trigger_rule, event _pgwhen.outbox)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_doc constant jsonb := _pgwhen.document(
        event.type, event.key, event.old, event.new, event.data, event.at, event.facts
    );
    v_verdict text;
begin
    select j.verdict into v_verdict from _pgwhen.judge(array[event], rule.id) as j;
    return case
        when v_verdict is not null then v_verdict
        when not _pgwhen.asks_for(rule, event) then 'source_false'
        when not _pgwhen.holds_for(
            _pgwhen.source_predicate(rule.source_type, rule.source_config), v_doc, event
        ) then 'source_false'
        when _pgwhen.is_loop(event.chain, rule.id) then 'loop'
        when _pgwhen.holds_for(rule.source_config -> 'condition', v_doc, event) then 'fire'
        else 'condition_false'
    end;
end;
$$;

create or replace function _pgwhen.asks_for(rule pgwhen.trigger_rule, event _pgwhen.outbox)
returns boolean
language sql
stable
as $$
select
    (asks_for.event).type = (asks_for.rule).source_type
    and _pgwhen.source_key((asks_for.rule).source_type, (asks_for.rule).source_config)
    = any((asks_for.event).keys);
$$;

create or replace function _pgwhen.explain_event(
    event _pgwhen.outbox,
    kept _pgwhen.processed_event,
    event_id bigint,
    out gate text,
    out verdict text,
    out reason text,
    out detail jsonb
)
language sql
stable
as $$
select
    'event',
    case when (explain_event.kept).parked is null then 'note' else 'stop' end,
    case
        when explain_event.event_id is null then 'as if it happened now'
        when (explain_event.kept).processed_at is null then 'waits in the outbox'
        when (explain_event.kept).parked is not null then 'parked: ' || (explain_event.kept).parked
        else 'processed at ' || _pgwhen.stamp((explain_event.kept).processed_at)
    end,
    _pgwhen.document(
        (explain_event.event).type, (explain_event.event).key, (explain_event.event).old,
        (explain_event.event).new, (explain_event.event).data, (explain_event.event).at,
        (explain_event.event).facts
    );
$$;

-- Source, loop and condition, by the judge; then each clause of both predicates.
create or replace function _pgwhen.explain_judge(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint,
    trace text
)
returns table (gate text, verdict text, reason text, detail jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_doc constant jsonb := _pgwhen.document(
        event.type, event.key, event.old, event.new, event.data, event.at, event.facts
    );
    v_key constant text := _pgwhen.source_key(rule.source_type, rule.source_config);
    v_asked constant boolean := _pgwhen.asks_for(rule, event);
    v_condition constant jsonb := coalesce(rule.source_config -> 'condition', '{}');
    v_stop constant text := case when explain_judge.trace is null then 'stop' else 'note' end;
begin
    return query select
        'source',
        case
            when not v_asked then v_stop
            when explain_judge.event_id is null then 'note'
            when _pgwhen.verdict_on(rule, event) = 'source_false' then v_stop
            else 'pass'
        end,
        case
            when v_asked then format('asks for %s, key %s', rule.source_type, v_key)
            else format(
                'asks for %s, key %s; the event is %s, keys %s',
                rule.source_type, v_key, event.type, array_to_string(event.keys, ', ')
            )
        end,
        rule.source_config - 'condition';
    return query select * from _pgwhen.explain_clauses(
        'source', _pgwhen.source_predicate(rule.source_type, rule.source_config), v_doc, event
    ) where explain_judge.event_id is not null;

    if event.chain <> '{}' then
        return query select
            'loop',
            case when _pgwhen.is_loop(event.chain, rule.id) then 'stop' else 'pass' end,
            'caused by rules ' || array_to_string(event.chain, ' > '),
            to_jsonb(event.chain);
    end if;

    if v_condition <> '{}' then
        return query select
            'condition',
            case
                when explain_judge.trace = 'condition' then 'stop'
                when _pgwhen.holds_for(v_condition, v_doc, event) then 'pass'
                else v_stop
            end,
            null,
            v_condition;
        return query select * from _pgwhen.explain_clauses('condition', v_condition, v_doc, event);
    end if;
end;
$$;

create or replace function _pgwhen.holds_for(condition jsonb, doc jsonb, event _pgwhen.outbox)
returns boolean
language sql
stable
as $$
select _pgwhen.holds(
    c.path, c.vars, c.needs, holds_for.doc, (holds_for.event).at,
    _pgwhen.memberships((holds_for.event).line_oa_id, (holds_for.event).user_id, c.needs)
)
from _pgwhen.compile_condition(holds_for.condition) as c;
$$;

create or replace function _pgwhen.explain_clauses(
    gate text,
    condition jsonb,
    doc jsonb,
    event _pgwhen.outbox
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    explain_clauses.gate || ' clause',
    'note',
    case when e.holds then 'true: ' else 'false: ' end || e.clause,
    pg_catalog.jsonb_build_object('field', e.field, 'saw', e.saw)
from _pgwhen.compile_condition(explain_clauses.condition) as c
cross join lateral _pgwhen.explain_condition(
    explain_clauses.condition, explain_clauses.doc, (explain_clauses.event).at,
    _pgwhen.memberships(
        (explain_clauses.event).line_oa_id, (explain_clauses.event).user_id, c.needs
    )
) as e;
$$;

-- For a processed event, what was decided then; else what the reservation says now.
create or replace function _pgwhen.explain_frequency(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    processed_at timestamptz,
    out gate text,
    out verdict text,
    out reason text,
    out detail jsonb
)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_compiled _pgwhen.rule;
    v_held _pgwhen.reservation;
begin
    gate := 'frequency';
    select h.*
    into v_held
    from _pgwhen.reservation as h
    where h.trigger_rule_id = explain_frequency.rule.id and h.user_id = event.user_id;
    detail := jsonb_build_object(
        'frequency', rule.frequency, 'cooldownSeconds', rule.cooldown_seconds,
        'lastFiredAt', v_held.last_at
    );

    if processed_at is not null then
        select l.error_message
        into reason
        from pgwhen.trigger_log as l
        where
            l.user_id = event.user_id
            and l.trigger_rule_id = explain_frequency.rule.id
            and l.event_id = event.id
            and l.status = 'suppressed'
            and l.error_message not like all(array['loop:%', 'pending:%'])
            and l.error_message <> 'condition false';
        verdict := case when reason is null then 'pass' else 'stop' end;
        reason := coalesce(reason, 'did not suppress this event');
        return;
    end if;

    select c.* into v_compiled from _pgwhen.rule as c where c.trigger_rule_id = rule.id;
    verdict := case
        when v_held.last_at > _pgwhen.allowed_before(
            v_compiled.frequency, v_compiled.period, event.at,
            case when v_compiled.calendar is not null
                then _pgwhen.period_start(
                    v_compiled.calendar, event.at, event.line_oa_id, event.user_id
                ) end
        ) then 'stop'
        else 'pass'
    end;
    reason := case verdict
        when 'stop' then _pgwhen.suppression_reason(
            v_compiled.trigger_rule_id, v_compiled.frequency, v_compiled.period,
            v_compiled.calendar, event.line_oa_id, event.user_id
        )
        else 'free'
    end;
end;
$$;

-- When the action is due. An event that is only supposed has no time in it to wait for.
create or replace function _pgwhen.explain_delay(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint,
    trace text
)
returns table (gate text, verdict text, reason text, detail jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_delay constant jsonb := _pgwhen.compiled_delay(rule.action_config -> 'delay');
    v_until constant jsonb := v_delay -> 'until';
    v_value constant jsonb := _pgwhen.document(
        event.type, event.key, event.old, event.new, event.data, event.at, event.facts
    ) #> (v_until ->> 'path')::text[];
    v_moment constant timestamptz := case
        when v_delay ? 'at' then (v_delay ->> 'at')::timestamptz
        else _pgwhen.until_moment(
            v_until, v_value, _pgwhen.zone(event.line_oa_id, event.user_id), '-infinity'
        )
    end;
begin
    if v_delay is null then
        return;
    end if;
    return query select
        'delay',
        case
            when v_until is null or v_moment is not null then 'pass'
            when explain_delay.event_id is null and v_until ->> 'field' like 'event.%' then 'note'
            when explain_delay.trace is null or explain_delay.trace = 'delay' then 'stop'
            else 'note'
        end,
        case
            when v_moment is not null then 'due at ' || _pgwhen.stamp(v_moment)
            when v_until is not null then _pgwhen.no_moment_reason(v_delay, v_value)
            when v_delay ? 'wait' then _pgwhen.wait_reason(v_delay -> 'wait')
            else format('due %s seconds after it fires', v_delay ->> 'seconds')
        end,
        rule.action_config -> 'delay';
end;
$$;

create or replace function _pgwhen.wait_reason(wait jsonb)
returns text
language sql
stable
as $$
select format(
    case when wait_reason.wait ? 'after' then 'executed at once, then waits %s seconds for %s'
        else 'waits %s seconds for %s, then executed' end,
    wait_reason.wait ->> 'expires', _pgwhen.click_asked_for(wait_reason.wait)
)
|| coalesce('; clicked: ' || (wait_reason.wait #>> '{onClick,actionType}'), '')
|| coalesce('; not clicked: ' || (wait_reason.wait #>> '{onExpire,actionType}'), '');
$$;

create or replace function _pgwhen.click_asked_for(wait jsonb)
returns text
language sql
immutable
as $$
select coalesce('a click of ' || (click_asked_for.wait ->> 'tracking'), 'any tracked click');
$$;

-- Whether an action that waits was in the way, or would be.
create or replace function _pgwhen.explain_when_pending(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    trace text
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'whenPending',
    case when p.choice = 'skip' then 'stop' else 'note' end,
    p.reason,
    pg_catalog.jsonb_build_object('whenPending', p.choice)
from (
    select 'skip' as choice, l.error_message as reason
    from pgwhen.trigger_log as l
    where
        explain_when_pending.trace = 'whenPending'
        and l.user_id = (explain_when_pending.event).user_id
        and l.trigger_rule_id = (explain_when_pending.rule).id
        and l.event_id = (explain_when_pending.event).id
    union all
    select
        coalesce((explain_when_pending.rule).action_config #>> '{delay,whenPending}', 'skip'),
        _pgwhen.pending_reason(a)
    from _pgwhen.pending_timers(
        (explain_when_pending.event).line_oa_id, (explain_when_pending.event).user_id,
        (explain_when_pending.rule).id
    ) as a
    where
        explain_when_pending.trace is null
        and (explain_when_pending.rule).action_config ? 'delay'
) as p
limit 1;
$$;

-- What waits or runs for this user and rule.
create or replace function _pgwhen.explain_pending(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'pending',
    'note',
    case
        when a.waiting then pg_catalog.format(
            'waits for %s until %s', _pgwhen.click_asked_for(a.wait), _pgwhen.stamp(a.expires_at)
        )
        else a.status || ', due at ' || _pgwhen.stamp(a.execute_at)
    end
    || coalesce(', ' || a.outcome, '')
    || case when a.error_message is null then '' else '; last error: ' || a.error_message end,
    pg_catalog.jsonb_build_object(
        'actionId', a.id, 'attempts', a.retry_count, 'eventId', a.event -> 'id'
    )
from _pgwhen.actions_to_explain(
    explain_pending.rule, explain_pending.event, explain_pending.event_id
) as a;
$$;

create or replace function _pgwhen.actions_to_explain(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns setof pgwhen.scheduled_action
language sql
stable
as $$
select a.*
from _pgwhen.live_actions(
    (actions_to_explain.rule).id, actions_to_explain.event
) as a
where
    actions_to_explain.event_id is null
    or a.event -> 'id' = pg_catalog.to_jsonb(actions_to_explain.event_id)
order by a.execute_at, a.id
limit 20;
$$;

-- The gates of what waits, as the claim asks them, as if it were due now. Only where the question
-- is about the event that made it are they the answer.
create or replace function _pgwhen.explain_due(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    d.gate,
    case
        when d.reason is null then 'pass'
        when explain_due.event_id is null then 'note'
        else 'stop'
    end,
    d.reason,
    pg_catalog.jsonb_build_object('actionId', g.action_id)
from _pgwhen.gates(
    array(
        select a.id
        from _pgwhen.actions_to_explain(
            explain_due.rule, explain_due.event, explain_due.event_id
        ) as a
        where a.status = 'pending'
    ),
    _pgwhen.clock()
) as g
cross join lateral (
    values
    ('still wanted', g.unwanted), ('user', g.unreachable), ('condition again', g.untrue)
) as d (gate, reason)
where d.gate <> 'condition again' or g.asks_again
order by g.action_id;
$$;

-- What the log says.
create or replace function _pgwhen.explain_log(
    rule pgwhen.trigger_rule,
    event _pgwhen.outbox,
    event_id bigint
)
returns table (gate text, verdict text, reason text, detail jsonb)
language sql
stable
as $$
select
    'log',
    'note',
    l.status || ' at ' || _pgwhen.stamp(l.created_date)
    || case when l.error_message is null then '' else ': ' || l.error_message end,
    pg_catalog.jsonb_build_object(
        'logId', l.id, 'eventId', l.event_id, 'eventAt', l.event_at, 'actionId', l.action_id
    )
from pgwhen.trigger_log as l
where
    l.user_id = (explain_log.event).user_id
    and l.line_oa_id = (explain_log.event).line_oa_id
    and l.trigger_rule_id = (explain_log.rule).id
    and (explain_log.event_id is null or l.event_id = explain_log.event_id)
order by l.created_date desc, l.id desc
limit 20;
$$;
