-- 0001 baseline: every table, type and index of the first version.
--
-- Defaults that read the clock, and triggers, are behaviour: sql/core/defaults.sql and
-- sql/events/triggers.sql set them where they differ, so this file calls no pgwhen function.
-- Why the storage settings are what they are: docs/adr/0005-hot-rows.md.

create schema pgwhen;
create schema _pgwhen;

-- Roles belong to the cluster, so another database may have made them already.
do $$
declare
    v_role text;
begin
    foreach v_role in array array[
        'pgwhen_admin', 'pgwhen_editor', 'pgwhen_worker', 'pgwhen_viewer', 'pgwhen_application'
    ]
    loop
        if not exists (select from pg_catalog.pg_roles as r where r.rolname = v_role) then
            execute pg_catalog.format('create role %I nologin', v_role);
        end if;
    end loop;
exception
    when duplicate_object or unique_violation then
        null;  -- another database's deploy was quicker
end;
$$;

-- The deployer's ledger -------------------------------------------------------------------

create table _pgwhen.migration (
    name text not null,
    digest text not null,
    applied_at timestamptz not null,
    constraint migration_pkey primary key (name)
);

-- Accounts, users and audiences -----------------------------------------------------------

create table pgwhen.account (
    line_oa_id text not null default 'default',
    organization_id text not null default 'default',
    time_zone text not null default 'UTC',
    secrets jsonb not null default '{}',
    created_date timestamptz not null,
    constraint account_pkey primary key (line_oa_id),
    constraint account_secrets_is_object check (jsonb_typeof(secrets) = 'object')
);

create table pgwhen.line_user (
    line_oa_id text not null default 'default',
    user_id text not null,
    attributes jsonb not null default '{}',
    time_zone text,
    is_friend boolean not null default true,
    -- When the event happened that is_friend follows.
    friend_changed_at timestamptz,
    created_date timestamptz not null,
    updated_date timestamptz not null,
    constraint line_user_pkey primary key (line_oa_id, user_id),
    constraint line_user_attributes_is_object check (jsonb_typeof(attributes) = 'object')
) with (fillfactor = 80);

create table pgwhen.audience (
    id bigint generated always as identity,
    line_oa_id text not null default 'default',
    name text not null,
    description text,
    created_date timestamptz not null,
    constraint audience_pkey primary key (id),
    constraint uq_audience_name unique (line_oa_id, name)
);

create table pgwhen.audience_member (
    audience_id bigint not null,
    user_id text not null,
    added_date timestamptz not null,
    constraint audience_member_pkey primary key (audience_id, user_id),
    constraint audience_member_audience_fk foreign key (audience_id)
    references pgwhen.audience (id) on delete cascade
);

create index audience_member_user_idx on pgwhen.audience_member (user_id);

-- Source tables: an insert is an event ----------------------------------------------------

create table pgwhen.form_submission (
    id bigint generated always as identity,
    line_oa_id text not null default 'default',
    user_id text not null,
    form_id text not null,
    data jsonb not null default '{}',
    at timestamptz not null,
    constraint form_submission_pkey primary key (id),
    constraint form_submission_data_is_object check (jsonb_typeof(data) = 'object'),
    constraint form_submission_at_is_in_range check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    )
);

create table pgwhen.campaign_click (
    id bigint generated always as identity,
    line_oa_id text not null default 'default',
    user_id text not null,
    campaign text,
    link text,
    tracking_id text,
    data jsonb not null default '{}',
    at timestamptz not null,
    constraint campaign_click_pkey primary key (id),
    constraint campaign_click_data_is_object check (jsonb_typeof(data) = 'object'),
    constraint campaign_click_at_is_in_range check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    )
);

create table pgwhen.friend_track_event (
    id bigint generated always as identity,
    line_oa_id text not null default 'default',
    user_id text not null,
    event text not null,
    data jsonb not null default '{}',
    at timestamptz not null,
    constraint friend_track_event_pkey primary key (id),
    constraint friend_track_event_data_is_object check (jsonb_typeof(data) = 'object'),
    constraint friend_track_event_at_is_in_range check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    )
);

create table pgwhen.booking_event (
    id bigint generated always as identity,
    line_oa_id text not null default 'default',
    user_id text not null,
    booking_id text,
    status text not null,
    data jsonb not null default '{}',
    at timestamptz not null,
    constraint booking_event_pkey primary key (id),
    constraint booking_event_data_is_object check (jsonb_typeof(data) = 'object'),
    constraint booking_event_at_is_in_range check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    )
);

-- Workflows (the journeys come later; rules and actions already refer to them) --------------

create table pgwhen.workflow (
    id bigint generated always as identity,
    line_oa_id text not null default 'default',
    organization_id text not null default 'default',
    name text not null,
    created_date timestamptz not null,
    updated_date timestamptz not null,
    deleted_date timestamptz,
    constraint workflow_pkey primary key (id)
);

create unique index uq_workflow_name
on pgwhen.workflow (line_oa_id, name) where deleted_date is null;

create table pgwhen.workflow_version (
    workflow_id bigint not null,
    version integer not null,
    tree jsonb not null,
    created_date timestamptz not null,
    constraint workflow_version_pkey primary key (workflow_id, version),
    constraint workflow_version_workflow_fk foreign key (workflow_id)
    references pgwhen.workflow (id)
);

-- Rules -----------------------------------------------------------------------------------

create table pgwhen.trigger_rule (
    id bigint generated always as identity,
    name text not null,
    source_type text not null,
    source_config jsonb not null default '{}',
    action_type text not null,
    action_config jsonb not null default '{}',
    enabled boolean not null default true,
    frequency text not null default 'once_per_hour',
    cooldown_seconds integer not null default 0,
    workflow_id bigint,
    workflow_node_path text[],
    line_oa_id text not null default 'default',
    organization_id text not null default 'default',
    created_date timestamptz not null,
    updated_date timestamptz not null,
    deleted_date timestamptz,
    enabled_date timestamptz,
    parked_reason text,
    constraint trigger_rule_pkey primary key (id)
);

create unique index uq_trigger_rule_name
on pgwhen.trigger_rule (line_oa_id, name) where deleted_date is null;
create index trigger_rule_line_oa_id_organization_id_idx
on pgwhen.trigger_rule (line_oa_id, organization_id);
create index trigger_rule_deleted_date_idx on pgwhen.trigger_rule (deleted_date);

-- The compiled form of each rule that can fire now: what matching and judging read. Written
-- only by the trigger on trigger_rule.
create table _pgwhen.rule (
    trigger_rule_id bigint not null,
    line_oa_id text not null,
    organization_id text not null,
    source_type text not null,
    key text not null,
    match_path jsonpath,
    match_vars jsonb,
    condition_path jsonpath,
    condition_vars jsonb,
    condition_needs jsonb,
    enabled_date timestamptz not null,
    frequency text not null,
    period interval,
    calendar text,
    action_type text not null,
    action_config jsonb not null,
    delay jsonb,
    retry_policy jsonb,
    timeouts jsonb,
    log_all boolean not null,
    workflow_id bigint,
    workflow_node_path text[],
    constraint rule_pkey primary key (trigger_rule_id)
);

create index rule_match_idx on _pgwhen.rule (key, source_type, line_oa_id);

create table _pgwhen.action_type (
    name text not null,
    kind text not null,
    fn_schema text,
    fn_name text,
    batch boolean not null default false,
    builtin boolean not null default false,
    config_schema jsonb,
    options jsonb not null default '{}',
    registered_at timestamptz not null,
    constraint action_type_pkey primary key (name),
    constraint action_type_kind_is_known check (kind in ('sql', 'python', 'unserved'))
);

create table _pgwhen.worker (
    name text not null,
    action_types text[] not null,
    seen_at timestamptz not null,
    constraint worker_pkey primary key (name)
) with (fillfactor = 50);

-- When the engine's own chores were last done, and how far they had come.
create table _pgwhen.chore (
    name text not null,
    done_at timestamptz not null,
    mark bigint not null default 0,
    constraint chore_pkey primary key (name)
) with (fillfactor = 50);

-- Where this database lives: see sql/operation/adopt.sql. One row at most.
create table _pgwhen.home (
    singleton boolean not null default true,
    cluster text not null,
    database_oid oid not null,
    database_name text not null,
    adopted_at timestamptz not null,
    constraint home_pkey primary key (singleton),
    constraint home_is_one_row check (singleton)
);

create table pgwhen.setting (
    name text not null,
    value jsonb not null,
    constraint setting_pkey primary key (name)
);

-- Events ----------------------------------------------------------------------------------

-- Committed and not yet processed. Narrow in indexes: one, on the order of events.
create table _pgwhen.outbox (
    id bigint generated always as identity (cache 1),
    bucket smallint not null,
    uuid uuid not null default gen_random_uuid(),
    line_oa_id text not null,
    user_id text not null,
    type text not null,
    keys text[] not null,
    key text,
    old jsonb,
    new jsonb,
    data jsonb,
    facts jsonb not null,
    at timestamptz not null,
    created_at timestamptz not null,
    chain bigint[] not null default '{}',
    constraint outbox_pkey primary key (id),
    constraint outbox_at_is_in_range check (
        at >= '0001-01-01 00:00:00+00' and at < '10000-01-01 00:00:00+00'
    )
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- Clicks that are still to be processed: what keeps a wait from expiring.
create index outbox_click_idx on _pgwhen.outbox (user_id) where type = 'campaign_click';

-- Processed events, kept for settings.eventRetention and dropped by the partition.
create table _pgwhen.processed_event (
    id bigint not null,
    bucket smallint not null,
    uuid uuid not null,
    line_oa_id text not null,
    user_id text not null,
    type text not null,
    keys text[] not null,
    key text,
    old jsonb,
    new jsonb,
    data jsonb,
    facts jsonb not null,
    at timestamptz not null,
    created_at timestamptz not null,
    chain bigint[] not null,
    processed_at timestamptz not null,
    parked text
) partition by range (processed_at);

create index processed_event_user_idx on _pgwhen.processed_event (user_id, id);
create index processed_event_parked_idx on _pgwhen.processed_event (id) where parked is not null;

create table _pgwhen.processed_event_default partition of _pgwhen.processed_event default;

-- Where a scan begins, by what it looks for; the newest row holds: see sql/engine/floor.sql.
create table _pgwhen.floor (
    id bigint generated always as identity,
    name text not null,
    position bigint not null,
    -- Of the position after it, what has an id up to this is dealt with too.
    within bigint not null,
    open_xids xid8[] not null,
    open_positions bigint[] not null,
    mark bigint not null,
    mark_xid xid8 not null,
    made_at timestamptz not null,
    constraint floor_pkey primary key (name, id)
);

-- A batch that took its worker's connection down, being halved until the event that did it
-- stands alone: see sql/engine/suspect.sql.
create table _pgwhen.suspect (
    worker text not null,
    trying bigint[] not null,
    remaining bigint[] not null,
    alone boolean not null default false,
    marked_at timestamptz not null,
    constraint suspect_pkey primary key (worker)
);

-- One row per (rule, user) that a frequency or cooldown has to remember.
create table _pgwhen.reservation (
    trigger_rule_id bigint not null,
    user_id text not null,
    last_at timestamptz not null,
    allowed_before timestamptz not null,
    holder uuid not null,
    previous_at timestamptz,
    constraint reservation_pkey primary key (trigger_rule_id, user_id)
) with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.05
);

-- Conditions that were false, counted in batches; maintain() folds them.
create table _pgwhen.false_count (
    trigger_rule_id bigint not null,
    counted_at timestamptz not null,
    n bigint not null
);

create index false_count_rule_idx on _pgwhen.false_count (trigger_rule_id);

-- Actions ---------------------------------------------------------------------------------

create table pgwhen.scheduled_action (
    id bigint generated always as identity,
    trigger_rule_id bigint,
    line_oa_id text not null default 'default',
    organization_id text not null default 'default',
    user_id text not null,
    action_type text not null,
    action_config jsonb not null default '{}',
    source_config jsonb,
    execute_at timestamptz not null,
    expires_at timestamptz,
    executed_at timestamptz,
    status text not null default 'pending',
    retry_count integer not null default 0,
    created_date timestamptz not null,
    updated_at timestamptz not null,
    workflow_id bigint,
    workflow_node_path text[],
    deadline timestamptz,
    claim_token uuid,
    worker text,
    key uuid not null,
    -- What the key is derived from: the uuid of the event, the round's, or the action's own.
    origin uuid not null default gen_random_uuid(),
    parent_id bigint,
    event jsonb,
    chain bigint[] not null default '{}',
    -- What it waits for, and whether it does so now; clicks count from that moment on (null: none
    -- does any more).
    wait jsonb,
    waiting boolean not null default false,
    counts_from timestamptz,
    outcome text,
    -- The delay that it was made with, compiled; null for what was to be done at once.
    delay jsonb,
    -- What its rule, or whoever scheduled it, says of retries and of timeouts; null for what its
    -- type says.
    retry_policy jsonb,
    timeouts jsonb,
    -- Where it has a scheduleToClose, when all attempts end; where a scheduleToStart, since when
    -- the next attempt can start.
    close_by timestamptz,
    startable_at timestamptz,
    -- Of an attempt that is to heartbeat: how often at least, and until when it may go on.
    heartbeat_timeout interval,
    attempt_ends timestamptz,
    has_heartbeat boolean not null default false,
    -- Whether the user had a row of line_user: only then can they be gone when it is due.
    user_known boolean not null default false,
    deduplication_key text,
    result jsonb,
    error_message text,
    -- Why its last attempt was not followed by another one.
    retry_state text,
    held_by bigint,
    cancel_reason text,
    -- The batch that it is claimed in, and whether that may have been sent: then it stays in it.
    batch_id uuid,
    keeps_batch boolean not null default false,
    constraint scheduled_action_pkey primary key (id),
    constraint scheduled_action_status_is_known
    check (status in ('pending', 'processing', 'done', 'failed', 'cancelled')),
    constraint scheduled_action_claim_is_whole check (
        (status = 'processing') = (claim_token is not null)
        and (status <> 'processing' or deadline is not null)
    ),
    constraint scheduled_action_wait_is_whole check (
        not waiting or (status = 'pending' and wait is not null and expires_at is not null)
    ),
    constraint scheduled_action_retry_state_is_known check (
        retry_state in ('non_retryable', 'maximum_attempts_reached', 'timeout', 'cancel_requested')
    ),
    constraint scheduled_action_batch_is_whole check (
        keeps_batch = (batch_id is not null)
        or batch_id is not null and (waiting or status <> 'pending')
    )
) with (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

create index idx_scheduled_action_pending
on pgwhen.scheduled_action (action_type, execute_at, id)
where status = 'pending' and not waiting and held_by is null;
create index idx_scheduled_action_waiting
on pgwhen.scheduled_action (expires_at, id) where status = 'pending' and waiting;
create index idx_scheduled_action_wait
on pgwhen.scheduled_action (user_id) where wait is not null;
create index idx_scheduled_action_processing
on pgwhen.scheduled_action (deadline) where status = 'processing';
create index idx_scheduled_action_start_by
on pgwhen.scheduled_action (deadline)
where status = 'pending' and held_by is null and deadline is not null;
create index idx_scheduled_action_close_by
on pgwhen.scheduled_action (close_by) where status = 'pending' and close_by is not null;
create index idx_scheduled_action_user
on pgwhen.scheduled_action (user_id, trigger_rule_id) where status = 'pending';
create unique index uq_scheduled_action_deduplication
on pgwhen.scheduled_action (line_oa_id, deduplication_key) where deduplication_key is not null;
create index idx_scheduled_action_ended
on pgwhen.scheduled_action (updated_at) where status in ('done', 'failed', 'cancelled');

create index idx_scheduled_action_batch
on pgwhen.scheduled_action (batch_id)
where batch_id is not null and not waiting and status in ('pending', 'processing');
create index idx_scheduled_action_held
on pgwhen.scheduled_action (held_by) where status = 'pending' and held_by is not null;

-- The incident switch: one row for each pause that is in force; null means all.
create table _pgwhen.pause (
    id bigint generated always as identity,
    action_type text,
    line_oa_id text,
    trigger_rule_id bigint,
    reason text not null,
    paused_by text not null,
    paused_at timestamptz not null,
    constraint pause_pkey primary key (id),
    constraint uq_pause_scope unique nulls not distinct (action_type, line_oa_id, trigger_rule_id)
);

-- Pauses that are over: actions stood still under them.
create table _pgwhen.past_pause (
    action_type text,
    line_oa_id text,
    trigger_rule_id bigint,
    paused_at timestamptz not null,
    resumed_at timestamptz not null
);

create index past_pause_resumed_at_idx on _pgwhen.past_pause (resumed_at);

-- What running actions have told of their progress, and when: see
-- sql/engine/heartbeat_actions.sql. Narrow, and without an index on time, so that a heartbeat is a
-- HOT update.
create table _pgwhen.heartbeat (
    action_id bigint not null,
    token uuid,
    beat_at timestamptz not null,
    details jsonb,
    constraint heartbeat_pkey primary key (action_id)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

-- What a person's UPDATE is cancelling, until its statement ends.
create table _pgwhen.cancelling (
    action_id bigint not null
);

create table pgwhen.scheduled_trigger_execution (
    id bigint generated always as identity,
    trigger_rule_id bigint not null,
    scheduled_at timestamptz not null,
    started_at timestamptz,
    completed_at timestamptz,
    status text not null default 'processing',
    total_users bigint not null default 0,
    processed_users bigint not null default 0,
    failed_users bigint not null default 0,
    error_message text,
    constraint scheduled_trigger_execution_pkey primary key (id),
    constraint uq_scheduled_trigger_execution unique (trigger_rule_id, scheduled_at),
    constraint scheduled_trigger_execution_status_is_known
    check (status in ('processing', 'completed', 'failed', 'skipped', 'missed'))
);

create table pgwhen.trigger_log (
    id bigint generated always as identity,
    created_date timestamptz not null,
    trigger_rule_id bigint,
    audience_id bigint,
    line_oa_id text not null,
    user_id text not null,
    trigger_on text,
    event_id bigint,
    event_at timestamptz,
    action_id bigint,
    action_type text,
    action_config jsonb,
    status text not null default 'success',
    error_message text,
    constraint trigger_log_pkey primary key (id, created_date)
) partition by range (created_date);

create index trigger_log_rule_idx on pgwhen.trigger_log (trigger_rule_id, created_date desc);
create index trigger_log_user_idx on pgwhen.trigger_log (user_id, created_date desc);

create table pgwhen.trigger_log_default partition of pgwhen.trigger_log default;

-- Effects ---------------------------------------------------------------------------------

-- What has been done once, noted by whoever did it: see sql/effects/effect_once.sql. Collation C,
-- because an upgrade of the system's collations can leave another's index unsorted, and two of a
-- key in it.
create table _pgwhen.effect (
    key text collate "C" not null,
    kind text collate "C" not null,
    made_at timestamptz not null,
    constraint effect_pkey primary key (key, kind)
);

create index effect_made_at_idx on _pgwhen.effect (made_at);

-- The sha256 of the body that goes out under a key: see sql/effects/keep_body.sql.
create table _pgwhen.request (
    key uuid not null,
    body_hash bytea not null,
    made_at timestamptz not null,
    constraint request_pkey primary key (key)
);

-- Types of the public functions' rows and of what the engine's steps hand on ----------------

create type pgwhen.claimed_action as (
    id bigint,
    token uuid,
    attempt integer,
    deadline timestamptz,
    action_type text,
    action_config jsonb,
    line_oa_id text,
    organization_id text,
    user_id text,
    rule bigint,
    event jsonb,
    idempotency_key uuid,
    workflow_id bigint,
    workflow_node_path text[],
    execute_at timestamptz,
    heartbeat_timeout float8,
    heartbeat_details jsonb,
    maybe_done boolean,
    batch_id uuid,
    keeps_batch boolean
);

create type pgwhen.heartbeat_reply as (
    id bigint,
    held boolean,
    cancel_requested boolean
);

create type pgwhen.pass as (
    events integer,
    more boolean,
    next_due_seconds float8,
    actions jsonb
);

create type pgwhen.tick_report as (
    events integer,
    actions integer,
    recovered integer,
    expired integer,
    more boolean
);

-- A row of pg_cron's cron.job, as far as pgwhen looks at it.
create type _pgwhen.cron_job as (
    jobid bigint,
    jobname text,
    schedule text,
    database text,
    username text,
    nodeport integer,
    active boolean
);

create type _pgwhen.fault as (
    path text,
    message text,
    hint text,
    code text
);

create type _pgwhen.compiled as (
    path jsonpath,
    vars jsonb,
    needs jsonb
);

-- One rule asked about one event, and what became of it: of the event what an action may need
-- (not the facts, which only the judge reads), of the rule what comes after the judge.
create type _pgwhen.firing as (
    event_id bigint,
    uuid uuid,
    line_oa_id text,
    user_id text,
    type text,
    key text,
    old jsonb,
    new jsonb,
    data jsonb,
    at timestamptz,
    chain bigint[],
    trigger_rule_id bigint,
    organization_id text,
    frequency text,
    period interval,
    calendar text,
    action_type text,
    action_config jsonb,
    delay jsonb,
    retry_policy jsonb,
    timeouts jsonb,
    until_value jsonb,
    log_all boolean,
    workflow_id bigint,
    workflow_node_path text[],
    verdict text,
    parent_id bigint,
    step text
);

-- The verdicts on a batch that have consequences, and whether any asks for a frequency or is not to
-- fire: so that what nothing asks for is not even looked at.
create type _pgwhen.judgement as (
    firings _pgwhen.firing [],
    limited boolean,
    silent boolean
);

-- A scan for the next work: where it began, while who was in progress, what it met first, and how
-- far the positions had come before.
create type _pgwhen.scan as (
    name text,
    floor _pgwhen.floor,
    open xid8 [],
    lowest bigint,
    lowest_id bigint,
    mark bigint
);

create type _pgwhen.batch as (
    ids bigint[],
    more boolean,
    alone boolean
);

-- Actions whose time has come, the rules that they are of, those of them that a gate has to look at
-- whatever their rule, and the batches that any of them stay in.
create type _pgwhen.due as (
    ids bigint[],
    rules bigint[],
    asking bigint[],
    batches uuid[]
);

create type _pgwhen.fired as (
    claimed jsonb,
    sql_actions pgwhen.claimed_action[],
    scheduled bigint[]
);

create type _pgwhen.sifted as (
    ids bigint[],
    shelved boolean
);

create type _pgwhen.failure as (
    action_id bigint,
    token uuid,
    error jsonb
);

-- What follows a failed attempt: the end, as failed or as cancelled, or after `wait` another one;
-- the batch that the action stays in.
create type _pgwhen.retry_verdict as (
    action_id bigint,
    token uuid,
    error jsonb,
    ending text,
    retry_state text,
    wait interval,
    start_within interval,
    batch_id uuid
);

-- The term of a pending action: since when it can start, until when it is to, and when all its
-- attempts end.
create type _pgwhen.term as (
    startable_at timestamptz,
    start_by timestamptz,
    close_by timestamptz
);

create type _pgwhen.ending as (
    action_id bigint,
    token uuid,
    trigger_rule_id bigint,
    audience_id bigint,
    line_oa_id text,
    user_id text,
    trigger_on text,
    event_id bigint,
    event_at timestamptz,
    action_type text,
    action_config jsonb,
    status text,
    error_message text,
    result jsonb,
    origin uuid,
    give_back boolean,
    retry_state text,
    leaves_batch boolean
);
