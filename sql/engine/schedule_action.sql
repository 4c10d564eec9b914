create or replace function pgwhen.schedule_action(
    action_type text,
    user_id text,
    action_config jsonb default '{}',
    execute_at timestamptz default null,
    delay jsonb default null,
    line_oa_id text default 'default',
    organization_id text default 'default',
    deduplication_key text default null
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    if schedule_action.delay ? 'waitForTracking' then
        perform _pgwhen.require_read_committed('schedule_action');
    end if;
    perform _pgwhen.refuse_request(
        _pgwhen.request_faults(
            schedule_action.action_type, schedule_action.execute_at, schedule_action.delay,
            schedule_action.line_oa_id, schedule_action.organization_id
        )
        || _pgwhen.request_config_faults(
            schedule_action.action_type, schedule_action.action_config, 'action_config'
        )
    );
    return (
        _pgwhen.schedule(
            schedule_action.action_type, array[schedule_action.user_id],
            array[schedule_action.action_config],
            _pgwhen.request_delay(schedule_action.execute_at, schedule_action.delay),
            schedule_action.line_oa_id, schedule_action.organization_id,
            array[schedule_action.deduplication_key]
        )
    )[1];
end;
$$;

comment on function pgwhen.schedule_action(
    text, text, jsonb, timestamptz, jsonb, text, text, text
) is
$doc$Schedule an action for one user without a rule, in the caller's transaction; returns its id.

It is due at execute_at, or after the delay ({"seconds": 3600}, {"at": "…"}, or {"until": …} with a
field of the user: docs/delays.md), else at once; a time that has passed is now. It is a row of
pgwhen.scheduled_action, done as any other by whoever serves its type, tried again, logged. It has
no rule, so no condition and no frequency. The config is checked by the type's schema; its
retryPolicy, if it has one, says how often and when it is tried again: docs/retries.md.

With a deduplication_key there is one action of that key in the account for as long as its row is
kept (setting actionRetention after its end): a second call changes nothing and returns the same
id, whatever else it says. Two at once: the second waits for the first to commit.

Raises PW003 for a config that the type does not accept, PW004 for a delay, PW006 for a retryPolicy,
PW210 for what is missing or too long, PW202 for a wait outside READ COMMITTED. A REPEATABLE READ
transaction that cannot see who was quicker with the deduplication_key fails with 40001: try it
again.

  select pgwhen.schedule_action('send_message', 'U1', '{"text": "Still there?"}',
      delay => '{"seconds": 259200}', deduplication_key => 'cart-17');
$doc$;
