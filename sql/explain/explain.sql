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
        select 7, e.* from _pgwhen.explain_pause(v_rule, v_event, explain.event_id) as e
        union all
        select 8, e.* from _pgwhen.explain_retry(v_rule) as e
        union all
        select 9, e.* from _pgwhen.explain_pending(v_rule, v_event, explain.event_id) as e
        union all
        select 10, e.* from _pgwhen.explain_due(v_rule, v_event, explain.event_id) as e
        union all
        select 11, e.* from _pgwhen.explain_log(v_rule, v_event, explain.event_id) as e
    ) as g
    order by g.n;
end;
$$;

comment on function pgwhen.explain(bigint, text, bigint, text) is
$doc$Say why a rule did, does or would not do something for a user: every gate in order.

Gates: rule (is it live), event (which one), source, loop, condition (a row for each clause with the
value it saw), frequency (and until when), delay (and when due), whenPending, pause (what holds it
now, since when and why), retry (the policy in force, where it is not the settings' alone); then
each action that waits (pending), what its gates would say if it were due now (still wanted, user,
condition again), and the log. verdict is 'pass', 'stop' or 'note'; the first 'stop' is the answer. With an event_id: that event as it was then, for as long as events are
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
