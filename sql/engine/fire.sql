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
    v_all _pgwhen.fired := row('[]'::jsonb, '{}'::pgwhen.claimed_action[], '{}')::_pgwhen.fired;
    v_round _pgwhen.outbox[];
    v_clicks boolean;
begin
    v_clicks := exists (
        select
        from unnest(v_events) as e
        where e.type in ('campaign_click', 'pgwhen.wait_opened')
    );
    if cardinality(v_events) = 1 then
        if v_clicks then
            perform _pgwhen.resolve_clicks(v_events);
        end if;
        return _pgwhen.carry_out(
            _pgwhen.verdicts(v_events), fire.worker, fire.action_types, fire.room, false
        );
    end if;

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
        if v_clicks then
            perform _pgwhen.resolve_clicks(v_round);
        end if;
        v_fired := _pgwhen.carry_out(
            _pgwhen.verdicts(v_round), fire.worker, fire.action_types,
            fire.room - jsonb_array_length(v_all.claimed), false
        );
        v_all.claimed := v_all.claimed || v_fired.claimed;
        v_all.sql_actions := v_all.sql_actions || v_fired.sql_actions;
    end loop;
    return v_all;
end;
$$;

-- The verdicts that have consequences. A condition that was false is counted, and forgotten unless
-- the rule wants it logged: most verdicts are these, and a firing is wide.
create or replace function _pgwhen.verdicts(
    events _pgwhen.outbox[],
    only_rule bigint default null
)
returns _pgwhen.judgement
language plpgsql
volatile
as $$
declare
    v_judgement _pgwhen.judgement;
begin
    with judged as materialized (
        select
            j.trigger_rule_id,
            j.verdict,
            m.matters,
            j.frequency <> 'always' or j.period is not null as limited,
            case when m.matters then j end as firing
        from _pgwhen.judge(verdicts.events, verdicts.only_rule) as j
        cross join lateral (
            select
                j.verdict in ('fire', 'loop', 'no_moment')
                or (j.verdict = 'condition_false' and j.log_all)
        ) as m (matters)
    ),
    counted as (
        insert into _pgwhen.false_count (trigger_rule_id, counted_at, n)
        select j.trigger_rule_id, _pgwhen.clock(), count(*)
        from judged as j
        where j.verdict = 'condition_false'
        group by j.trigger_rule_id
    )
    select
        coalesce(array_agg(j.firing), '{}'),
        coalesce(bool_or(j.limited), false),
        coalesce(bool_or(j.verdict <> 'fire'), false)
    into v_judgement
    from judged as j
    where j.matters;
    return v_judgement;
end;
$$;
