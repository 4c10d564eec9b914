-- _pgwhen.fire: a batch of events that take() handed out, from the outbox to actions. The definer
-- step under process_events: it takes nothing but ids from its caller, and only events whose bucket
-- the caller's transaction holds.

create or replace function _pgwhen.fire(
    worker text,
    ids bigint[],
    action_types text[],
    room integer
)
returns _pgwhen.fired
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_events _pgwhen.outbox[] := _pgwhen.withdraw(fire.ids);
    v_fired _pgwhen.fired;
    v_all _pgwhen.fired := row('[]'::jsonb, '{}'::pgwhen.claimed_action[])::_pgwhen.fired;
    v_round _pgwhen.outbox[];
begin
    perform _pgwhen.archive(v_events);
    -- A round has at most one event of each user, so that each sees what the one before it did.
    for v_round in
        select array_agg(e.event order by (e.event).id)
        from (
            select
                u::_pgwhen.outbox as event,
                row_number() over (partition by u.line_oa_id, u.user_id order by u.id) as turn
            from unnest(v_events) as u
        ) as e
        group by e.turn
        order by e.turn
    loop
        v_fired := _pgwhen.fire_round(
            v_round, fire.worker, fire.action_types,
            fire.room - jsonb_array_length(v_all.claimed), false
        );
        v_all.claimed := v_all.claimed || v_fired.claimed;
        v_all.sql_actions := v_all.sql_actions || v_fired.sql_actions;
    end loop;
    return v_all;
end;
$$;

-- Out of the outbox, if the caller may: with its bucket held, nobody else works on these users.
create or replace function _pgwhen.withdraw(ids bigint[])
returns _pgwhen.outbox[]
language plpgsql
volatile
as $$
declare
    v_events _pgwhen.outbox[];
begin
    with gone as (
        delete from _pgwhen.outbox as o where o.id = any(withdraw.ids) returning o.*
    )
    select array_agg(g::_pgwhen.outbox order by g.id) into v_events from gone as g;

    if exists (
        select
        from (select distinct u.bucket from unnest(v_events) as u) as b
        where not pg_try_advisory_xact_lock(_pgwhen.bucket_class(), b.bucket)
    ) then
        raise exception 'these events are not yours: another session holds their bucket'
            using errcode = 'PW204',
                hint = 'Call pgwhen.process_events(): it takes events before it fires them.';
    end if;
    return coalesce(v_events, '{}');
end;
$$;

create or replace function _pgwhen.fire_round(
    events _pgwhen.outbox[],
    worker text,
    action_types text[],
    room integer,
    queue boolean
)
returns _pgwhen.fired
language plpgsql
volatile
as $$
declare
    v_judged _pgwhen.firing[] := array(select j from _pgwhen.judge(fire_round.events) as j);
begin
    return _pgwhen.carry_out(
        v_judged, fire_round.worker, fire_round.action_types, fire_round.room, fire_round.queue
    );
end;
$$;

-- From verdicts to actions and log rows. What nothing asks for is not even looked at: most calls of
-- a listener that is not busy have one event, and each statement is a part of its latency.
create or replace function _pgwhen.carry_out(
    judged _pgwhen.firing[],
    worker text,
    action_types text[],
    room integer,
    queue boolean
)
returns _pgwhen.fired
language plpgsql
volatile
as $$
declare
    v_firings _pgwhen.firing[] := array(
        select j from unnest(carry_out.judged) as j where j.verdict = 'fire'
    );
begin
    if exists (
        select from unnest(v_firings) as f where f.frequency <> 'always' or f.period is not null
    ) then
        v_firings := array(select r from _pgwhen.reserve(v_firings) as r);
    end if;

    if cardinality(v_firings) < cardinality(carry_out.judged) then
        perform _pgwhen.settle(array(
            select _pgwhen.ending_of(j, 'suppressed', _pgwhen.why_not(j))
            from unnest(carry_out.judged) as j
            where j.verdict = 'loop' or (j.verdict = 'condition_false' and j.log_all)
        ));
        insert into _pgwhen.false_count (trigger_rule_id, counted_at, n)
        select j.trigger_rule_id, _pgwhen.clock(), count(*)
        from unnest(carry_out.judged) as j
        where j.verdict = 'condition_false'
        group by j.trigger_rule_id;
    end if;

    if exists (select from unnest(v_firings) as f where f.verdict = 'suppressed') then
        perform _pgwhen.settle(array(
            select _pgwhen.ending_of(f, 'suppressed', _pgwhen.why_not(f))
            from unnest(v_firings) as f
            where f.verdict = 'suppressed'
        ));
        v_firings := array(select f from unnest(v_firings) as f where f.verdict = 'fire');
    end if;

    return _pgwhen.dispatch(
        v_firings, carry_out.worker, carry_out.action_types, carry_out.room, carry_out.queue
    );
end;
$$;

create or replace function _pgwhen.why_not(firing _pgwhen.firing)
returns text
language sql
stable
as $$
select case (why_not.firing).verdict
    when 'loop' then 'loop: the rule is in its own chain, or the chain is too long'
    when 'condition_false' then 'condition false'
    when 'suppressed' then
        _pgwhen.suppression_reason(
            (why_not.firing).trigger_rule_id, (why_not.firing).frequency,
            (why_not.firing).period, (why_not.firing).calendar,
            (why_not.firing).line_oa_id, (why_not.firing).user_id
        )
end;
$$;

-- One event on its own, rule by rule, each in a block of its own: what raises becomes a failed row,
-- the others go on. Nothing is done now, so that an action which raises becomes an ordinary pending
-- row and is retried. If not even that works, the event is parked.
create or replace function _pgwhen.fire_alone(worker text, event_id bigint)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_events _pgwhen.outbox[];
    v_rule _pgwhen.rule;
    v_why text;
begin
    v_events := _pgwhen.withdraw(array[fire_alone.event_id]);
    perform _pgwhen.archive(v_events);
    for v_rule in
        select m.*
        from unnest(v_events) as e
        cross join lateral _pgwhen.match(e::_pgwhen.outbox) as m
        order by m.trigger_rule_id
    loop
        begin
            perform _pgwhen.carry_out(
                array(select j from _pgwhen.judge(v_events, v_rule.trigger_rule_id) as j),
                fire_alone.worker, '{}', 0, true
            );
            set constraints all immediate;
        exception
            when others then
                get stacked diagnostics v_why = message_text;
                perform _pgwhen.settle(array[
                    _pgwhen.ending_of(
                        _pgwhen.firing_of(v_events[1], v_rule), 'failed', sqlstate || ': ' || v_why
                    )
                ]);
        end;
    end loop;
exception
    when others then
        get stacked diagnostics v_why = message_text;
        perform _pgwhen.park_event(fire_alone.event_id, sqlstate || ': ' || v_why);
end;
$$;
