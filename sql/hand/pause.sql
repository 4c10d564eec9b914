create or replace function pgwhen.pause(
    reason text,
    action_type text default null,
    line_oa_id text default null,
    rule bigint default null
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_now constant timestamptz := _pgwhen.clock();
begin
    perform _pgwhen.require_read_committed('pause');
    perform _pgwhen.check_pause(reason, action_type, line_oa_id, rule);

    insert into _pgwhen.pause as p
        (action_type, line_oa_id, trigger_rule_id, reason, paused_by, paused_at)
    values (
        pause.action_type, pause.line_oa_id, pause.rule, btrim(pause.reason), session_user, v_now
    )
    on conflict on constraint uq_pause_scope do update
    set reason = excluded.reason, paused_by = excluded.paused_by;

    raise log 'pgwhen: % paused by %: %',
        _pgwhen.scope_words(action_type, line_oa_id, rule), session_user, reason;
    perform _pgwhen.ring('pgwhen_due');
end;
$$;

comment on function pgwhen.pause(text, text, text, bigint) is
$doc$Stop actions from being started, until resume() with the same action_type, line_oa_id and rule.

The incident switch. Each of the three narrows what is paused; without any of them it is everything.
From its commit on nothing that it covers is claimed, sent or done at once: events are processed as
ever, and what they cause waits as pending rows. What a worker has claimed already goes on. One row
is written, however many actions wait; several pauses may overlap, and then hold until the last one
is resumed. Pausing what is paused already changes the reason. The view pgwhen.paused lists what is
in force, and the server log has a line for each call.

Raises PW606 without a reason, or for an action type or rule that does not exist; PW202 outside READ
COMMITTED.

  select pgwhen.pause('the gateway answers 500', action_type => 'send_message');
  select pgwhen.pause('wrong text', rule => 7);
$doc$;

-- A pause that covers nothing, for a typing error, would be believed and not be there.
create or replace function _pgwhen.check_pause(
    reason text,
    action_type text,
    line_oa_id text,
    rule bigint
)
returns void
language plpgsql
stable
as $$
declare
    v_wrong text;
    v_hint text;
begin
    if btrim(coalesce(check_pause.reason, '')) = '' then
        v_wrong := 'a pause needs a reason';
        v_hint := 'Say why, for those who will wonder: pgwhen.pause(''the gateway is down'').';
    elsif not exists (
        select from _pgwhen.action_type as t where t.name = check_pause.action_type
    ) and check_pause.action_type is not null then
        v_wrong := format('there is no action type "%s"', check_pause.action_type);
        v_hint := _pgwhen.types_hint();
    elsif not exists (
        select from pgwhen.trigger_rule as r where r.id = check_pause.rule
    ) and check_pause.rule is not null then
        v_wrong := format('there is no rule %s', check_pause.rule);
        v_hint := 'Pass its id: select id, name from pgwhen.trigger_rule.';
    elsif check_pause.line_oa_id is not null
        and not _pgwhen.is_known_account(check_pause.line_oa_id)
    then
        raise warning 'there is no account "%" yet: the pause is for what it may have later',
            check_pause.line_oa_id;
    end if;
    if v_wrong is not null then
        raise exception '%', v_wrong using errcode = 'PW606', hint = v_hint;
    end if;
end;
$$;

-- Accounts need not be registered: one that has users or rules is one.
create or replace function _pgwhen.is_known_account(line_oa_id text)
returns boolean
language sql
stable
as $$
select
    exists (
        select from pgwhen.account as a where a.line_oa_id = is_known_account.line_oa_id
    )
    or exists (
        select from pgwhen.trigger_rule as r where r.line_oa_id = is_known_account.line_oa_id
    )
    or exists (
        select from pgwhen.line_user as u where u.line_oa_id = is_known_account.line_oa_id
    );
$$;

create or replace function _pgwhen.scope_words(action_type text, line_oa_id text, rule bigint)
returns text
language sql
immutable
as $$
select coalesce(
    nullif(
        concat_ws(
            ', ', 'action_type ' || scope_words.action_type,
            'line_oa_id ' || scope_words.line_oa_id, 'rule ' || scope_words.rule::text
        ),
        ''
    ),
    'everything'
);
$$;
