-- What the verbs by hand share: the row, locked, and the words with which its state refuses.

-- Lock: the action's row, waiting for whoever claims, settles or changes it.
create or replace function _pgwhen.action_by_hand(action_id bigint)
returns pgwhen.scheduled_action
language plpgsql
volatile
as $$
declare
    v_action pgwhen.scheduled_action;
begin
    select a.*
    into v_action
    from pgwhen.scheduled_action as a
    where a.id = action_by_hand.action_id
    for no key update;

    if not found then
        raise exception 'there is no action %', coalesce(action_by_hand.action_id::text, 'null')
            using errcode = 'PW601',
                hint = 'Look in pgwhen.scheduled_action; finished actions are deleted after the '
                    'setting actionRetention.';
    end if;
    return v_action;
end;
$$;

create or replace function _pgwhen.refuse_by_state(action pgwhen.scheduled_action, verb text)
returns void
language plpgsql
stable
as $$
begin
    raise exception 'action % cannot be %: it %',
        action.id, refuse_by_state.verb, _pgwhen.state_words(action)
        using errcode = 'PW602', hint = _pgwhen.state_hint(action);
end;
$$;

create or replace function _pgwhen.state_words(action pgwhen.scheduled_action)
returns text
language sql
stable
as $$
select case (state_words.action).status
    when 'pending' then case when (state_words.action).waiting
        then 'waits for a click, until ' || _pgwhen.stamp((state_words.action).expires_at)
        else 'is pending, due at ' || _pgwhen.stamp((state_words.action).execute_at) end
    when 'processing' then pg_catalog.format(
        'is being run by %s, until %s at most',
        (state_words.action).worker,
        _pgwhen.stamp(
            coalesce((state_words.action).attempt_ends, (state_words.action).deadline)
        )
    )
    when 'done' then 'was done at ' || _pgwhen.stamp((state_words.action).executed_at)
    when 'failed' then 'failed at ' || _pgwhen.stamp((state_words.action).executed_at)
    else 'was cancelled at ' || _pgwhen.stamp((state_words.action).updated_at)
end;
$$;

create or replace function _pgwhen.state_hint(action pgwhen.scheduled_action)
returns text
language sql
immutable
as $$
select pg_catalog.format(
    case (state_hint.action).status
        when 'pending' then case when (state_hint.action).waiting then
            'Call pgwhen.reschedule_action(%1$s, …) to end the wait at another time, or '
            'pgwhen.cancel_action(%1$s).'
        else
            'Call pgwhen.run_action_now(%1$s), pgwhen.reschedule_action(%1$s, …) or '
            'pgwhen.cancel_action(%1$s).' end
        when 'processing' then
            'Wait until it has ended, or call pgwhen.cancel_action(%1$s): it is then not tried '
            'again.'
        when 'done' then 'What is done stays done: make a new action.'
        else 'Call pgwhen.retry_action(%1$s): it is due at once, with the same key.'
    end,
    (state_hint.action).id
);
$$;

-- Whether a worker may have carried it out already. retry_action() counts attempts anew, but leaves
-- executed_at.
create or replace function _pgwhen.was_tried(action pgwhen.scheduled_action)
returns boolean
language sql
immutable
as $$
select (was_tried.action).retry_count > 0 or (was_tried.action).executed_at is not null;
$$;

-- A reason as it is kept, with who gave it.
create or replace function _pgwhen.by_whom(did text, reason text)
returns text
language sql
stable
as $$
select by_whom.did || ' by ' || session_user
    || coalesce(': ' || pg_catalog.left(nullif(btrim(by_whom.reason), ''), 1000), '');
$$;

create or replace function _pgwhen.types_hint()
returns text
language sql
stable
as $$
select 'The types are: ' || string_agg(t.name, ', ' order by t.name) || '.'
from _pgwhen.action_type as t;
$$;

-- A time to which people put an action: one that the log and JSON can show.
create or replace function _pgwhen.check_execute_at(execute_at timestamptz)
returns void
language plpgsql
immutable
as $$
begin
    if check_execute_at.execute_at is null
        or not _pgwhen.can_happen_at(check_execute_at.execute_at)
    then
        raise exception 'an action cannot be due at %',
            coalesce(check_execute_at.execute_at::text, 'null')
            using errcode = 'PW603',
                hint = 'Give an instant in the years 1 to 9999. To keep an action from running '
                    'until further notice, pause it: pgwhen.pause(…).';
    end if;
end;
$$;
