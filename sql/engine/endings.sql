-- What settle() is told.

-- The ending of something that is not a row of scheduled_action, told by its event and rule.
create or replace function _pgwhen.ending_of(
    firing _pgwhen.firing,
    status text,
    error_message text default null,
    audience_id bigint default null,
    give_back boolean default null
)
returns _pgwhen.ending
language sql
immutable
as $$
select row(
    null, null, (ending_of.firing).trigger_rule_id, ending_of.audience_id,
    (ending_of.firing).line_oa_id, (ending_of.firing).user_id,
    (ending_of.firing).type || coalesce(':' || (ending_of.firing).key, ''),
    (ending_of.firing).event_id, (ending_of.firing).at,
    (ending_of.firing).action_type, (ending_of.firing).action_config,
    ending_of.status, ending_of.error_message, null, (ending_of.firing).uuid,
    coalesce(ending_of.give_back, ending_of.status = 'failed'), null, null
)::_pgwhen.ending;
$$;

-- An event, and the rule where there is one, of which the judge could not be asked.
create or replace function _pgwhen.firing_of(event _pgwhen.outbox, rule _pgwhen.rule)
returns _pgwhen.firing
language sql
immutable
as $$
select row(
    (firing_of.event).id, (firing_of.event).uuid, (firing_of.event).line_oa_id,
    (firing_of.event).user_id, (firing_of.event).type, (firing_of.event).key,
    (firing_of.event).old, (firing_of.event).new, (firing_of.event).data,
    (firing_of.event).at, (firing_of.event).chain,
    (firing_of.rule).trigger_rule_id, (firing_of.rule).organization_id,
    (firing_of.rule).frequency, (firing_of.rule).period, (firing_of.rule).calendar,
    (firing_of.rule).action_type, (firing_of.rule).action_config, (firing_of.rule).delay,
    (firing_of.rule).retry_policy, (firing_of.rule).timeouts, null, (firing_of.rule).log_all,
    (firing_of.rule).workflow_id,
    (firing_of.rule).workflow_node_path, null, null, null
)::_pgwhen.firing;
$$;

-- The ending of a claimed or pending row. It leaves its batch where what became of the attempt is
-- known, and the batch was not sent before.
create or replace function _pgwhen.ending_of_action(
    action_id bigint,
    token uuid,
    status text,
    error_message text default null,
    result jsonb default null,
    give_back boolean default false,
    audience_id bigint default null,
    retry_state text default null,
    leaves_batch boolean default false
)
returns _pgwhen.ending
language sql
immutable
as $$
select row(
    ending_of_action.action_id, ending_of_action.token, null, ending_of_action.audience_id,
    null, null, null, null, null, null, null,
    ending_of_action.status, ending_of_action.error_message, ending_of_action.result,
    null, ending_of_action.give_back, ending_of_action.retry_state,
    ending_of_action.leaves_batch
)::_pgwhen.ending;
$$;
