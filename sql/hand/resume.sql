create or replace function pgwhen.resume(
    reason text default null,
    action_type text default null,
    line_oa_id text default null,
    rule bigint default null,
    mode text default 'catch_up'
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set "pgwhen.by_engine" = on
as $$
declare
    v_pause _pgwhen.pause;
    v_now timestamptz;
    v_skipped bigint := 0;
begin
    perform _pgwhen.require_read_committed('resume');
    if resume.mode is null or resume.mode not in ('catch_up', 'skip') then
        raise exception 'mode cannot be %', coalesce('"' || resume.mode || '"', 'null')
            using errcode = 'PW606',
                hint = 'Write ''catch_up'' to run what became due meanwhile, or ''skip'' to cancel '
                    'it.';
    end if;

    v_pause := _pgwhen.end_pause(action_type, line_oa_id, rule);
    if resume.mode = 'skip' then
        v_skipped := _pgwhen.skip_missed(v_pause, _pgwhen.by_whom('skipped', resume.reason));
    end if;
    v_now := _pgwhen.write_clock();
    update pgwhen.scheduled_action as a
    set
        held_by = null,
        execute_at = greatest(a.execute_at, v_now),
        deadline = greatest(
            _pgwhen.start_by(a, v_now), case when a.deadline is not null then v_now end
        )
    where a.status = 'pending' and a.held_by = v_pause.id;
    perform _pgwhen.bring_back(v_pause, v_now);

    raise log 'pgwhen: % resumed (%) by %: %',
        _pgwhen.scope_words(action_type, line_oa_id, rule), resume.mode, session_user,
        coalesce(reason, 'no reason given');
    perform _pgwhen.ring('pgwhen_due');
    return v_skipped;
end;
$$;

comment on function pgwhen.resume(text, text, text, bigint, text) is
$doc$End the pause of that action_type, line_oa_id and rule; returns how many actions it skipped.

mode says what happens to actions that became due while it lasted: 'catch_up' (the default) runs
them now, the oldest due first; 'skip' cancels them, with the reason in their rows and in
trigger_log, and their frequency slots are given back where they had never been tried. What was due
before the pause runs in either mode, and what another pause covers is left to that one.

catch_up costs nothing for an action type or for everything; for an account or a rule, an update of
those rows that claims have met. skip looks at every pending action, and settles those, about 10,000
a second. All in one transaction: nothing is started before it commits.

Raises PW606 where no such pause is in force, or for an unknown mode; PW202 outside READ COMMITTED.

  select pgwhen.resume(action_type => 'send_message');
  select pgwhen.resume('too late for greetings', rule => 7, mode => 'skip');
$doc$;

-- Lock: the pause's row, waiting for claims that are shelving under it.
create or replace function _pgwhen.end_pause(action_type text, line_oa_id text, rule bigint)
returns _pgwhen.pause
language plpgsql
volatile
as $$
declare
    v_pause _pgwhen.pause;
begin
    delete from _pgwhen.pause as p
    where
        p.action_type is not distinct from end_pause.action_type
        and p.line_oa_id is not distinct from end_pause.line_oa_id
        and p.trigger_rule_id is not distinct from end_pause.rule
    returning p.* into v_pause;
    if not found then
        raise exception '% is not paused', _pgwhen.scope_words(action_type, line_oa_id, rule)
            using errcode = 'PW606',
                hint = coalesce(
                    'Pass what the pause was made with. Paused are: ' || (
                        select string_agg(
                            _pgwhen.scope_words(p.action_type, p.line_oa_id, p.trigger_rule_id),
                            '; ' order by p.id
                        )
                        from _pgwhen.pause as p
                    ) || '.',
                    'Nothing is paused.'
                );
    end if;
    insert into _pgwhen.past_pause
        (action_type, line_oa_id, trigger_rule_id, paused_at, resumed_at)
    values (
        v_pause.action_type, v_pause.line_oa_id, v_pause.trigger_rule_id, v_pause.paused_at,
        greatest(v_pause.paused_at, _pgwhen.clock())
    );
    return v_pause;
end;
$$;

-- What was to start meanwhile, by a clock that has stood still, and was put away.
create or replace function _pgwhen.bring_back(pause _pgwhen.pause, now timestamptz)
returns void
language plpgsql
volatile
set "pgwhen.by_engine" = on
as $$
begin
    update pgwhen.scheduled_action as a
    set deadline = greatest(_pgwhen.start_by(a, bring_back.now), bring_back.now)
    where
        a.status = 'pending'
        and a.held_by is null
        and a.deadline = _pgwhen.put_away()
        and _pgwhen.pause_covers(
            bring_back.pause, a.action_type, a.line_oa_id, a.trigger_rule_id
        );
end;
$$;

-- Cancels what became due under a pause that is over, a thousand at a time, oldest due first.
create or replace function _pgwhen.skip_missed(pause _pgwhen.pause, reason text)
returns bigint
language plpgsql
volatile
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
    v_ids bigint[];
    v_skipped bigint := 0;
begin
    v_ids := array(
        select a.id
        from pgwhen.scheduled_action as a
        where
            a.status = 'pending'
            and not a.waiting
            and (a.held_by is null or a.held_by = skip_missed.pause.id)
            and a.execute_at >= skip_missed.pause.paused_at
            and a.execute_at <= v_now
            and _pgwhen.pause_covers(
                skip_missed.pause, a.action_type, a.line_oa_id, a.trigger_rule_id
            )
            and not _pgwhen.is_paused(a.action_type, a.line_oa_id, a.trigger_rule_id)
        order by a.id
        for no key update
    );
    for v_from in 0 .. cardinality(v_ids) - 1 by 1000 loop
        v_skipped := v_skipped + (
            select count(*)
            from _pgwhen.settle(array(
                select _pgwhen.ending_of_action(
                    a.id, null, 'cancelled', skip_missed.reason, null, not _pgwhen.was_tried(a)
                )
                from pgwhen.scheduled_action as a
                where a.id = any(v_ids[v_from + 1:v_from + 1000])
            ))
        );
    end loop;
    return v_skipped;
end;
$$;
