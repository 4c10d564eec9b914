-- _pgwhen.dispatch: the one way in which actions come to be. Three ways lead out of it:
--   a built-in SQL action that is due now is done now, and its log row is the record;
--   an action of a type that the caller serves is written as claimed by the caller and handed out
--   (one row version and one round trip less than pending first), up to `room` of them;
--   everything else is a pending row.
-- What is paused is a pending row, whatever it is.
-- With `queue`, nothing is done now: whatever would be becomes a pending row.

create or replace function _pgwhen.dispatch(
    firings _pgwhen.firing[],
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
    v_now_types constant text[] := case when dispatch.queue then '{}'
        else _pgwhen.builtin_types() end;
    v_asked record;
    v_turn record;
    v_set_aside bigint[] := '{}';
    v_fired _pgwhen.fired;
begin
    select
        exists (select from _pgwhen.pause) as is_paused,
        bool_or(f.delay is not null) as has_delays,
        bool_or(f.delay is null and f.action_type = any(v_now_types)) as has_now
    into v_asked
    from unnest(dispatch.firings) as f;

    if v_asked.has_delays then
        firings := _pgwhen.when_pending(firings);
    end if;
    if v_asked.is_paused then
        select s.others, s.scheduled
        into firings, v_set_aside
        from _pgwhen.set_aside(firings) as s;
    end if;

    if v_asked.has_now then
        -- One action of a user at a time where actions write events, so that each event has one
        -- cause.
        for v_turn in
            select t.action_type, array_agg(t.firing) as firings
            from (
                select
                    f.action_type,
                    f as firing,
                    case when _pgwhen.writes_events(f.action_type) then row_number() over (
                        partition by f.action_type, f.line_oa_id, f.user_id
                        order by f.trigger_rule_id
                    ) end as n
                from unnest(dispatch.firings) as f
                where f.delay is null and f.action_type = any(v_now_types)
            ) as t
            group by t.action_type, t.n
            order by t.action_type, t.n
        loop
            perform _pgwhen.settle(_pgwhen.do_now(v_turn.action_type, v_turn.firings));
        end loop;
        firings := array(
            select f
            from unnest(dispatch.firings) as f
            where f.delay is not null or f.action_type <> all(v_now_types)
        );
    end if;

    v_fired := _pgwhen.write_actions(
        dispatch.firings, dispatch.worker, dispatch.action_types, dispatch.room, dispatch.queue
    );
    v_fired.scheduled := v_set_aside || v_fired.scheduled;
    return v_fired;
end;
$$;
