-- What the tables are, for \d+ and docs/schema.md. Each comment is set only where it differs, so
-- that a deploy which changes nothing takes no lock on a table.

create or replace function _pgwhen.ensure_comment(relation regclass, column_name name, comment text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    v_column constant integer := coalesce(
        (
            select a.attnum
            from pg_attribute as a
            where
                a.attrelid = ensure_comment.relation
                and a.attname = ensure_comment.column_name
        ),
        0
    );
begin
    if exists (
        select
        from pg_description as d
        where
            d.classoid = 'pg_class'::regclass
            and d.objoid = ensure_comment.relation
            and d.objsubid = v_column
            and d.description = ensure_comment.comment
    ) then
        return;
    end if;
    if ensure_comment.column_name is null then
        execute format(
            'comment on table %s is %L', ensure_comment.relation, ensure_comment.comment
        );
    else
        execute format(
            'comment on column %s.%I is %L',
            ensure_comment.relation, ensure_comment.column_name, ensure_comment.comment
        );
    end if;
end;
$$;

do $$
begin
    perform _pgwhen.ensure_comment(c.relation::regclass, c.column_name::name, c.comment)
    from (values
        ('pgwhen.account', null,
            'A channel (LINE official account): its organization, time zone, and the names of its secrets. The row "default" is for whoever needs no other.'),
        ('pgwhen.account', 'time_zone',
            'IANA name; calendar frequencies go by it where the user has none of their own.'),
        ('pgwhen.account', 'secrets',
            'Names of secrets, never the secrets: under which name the listener finds what this account''s configs name: {"line-token": "shop7-line-token"}.'),
        ('pgwhen.line_user', null,
            'A user of an account. Each change of attributes is an event, attribute_changed, one for each attribute: also by COPY, MERGE and ON CONFLICT, in one statement for any number of rows. A deleted row clears its attributes. TRUNCATE, and a session with session_replication_role = replica, write no events.'),
        ('pgwhen.line_user', 'attributes',
            'What conditions see as user.…; values may be any JSON; null is the same as missing.'),
        ('pgwhen.line_user', 'is_friend',
            'Whether sends reach the user. Follows the friend events follow and unfollow, and may be written.'),
        ('pgwhen.line_user', 'friend_changed_at',
            'When the friend event happened that is_friend follows: an earlier one that comes late changes nothing.'),
        ('pgwhen.audience', null, 'A named set of users of an account.'),
        ('pgwhen.audience_member', null, 'Who is in an audience, since when.'),
        ('pgwhen.form_submission', null,
            'An inserted row is an event, form_submitted, with key form_id. Updates and deletes are none.'),
        ('pgwhen.campaign_click', null,
            'An inserted row is an event, campaign_click, with keys campaign, link and tracking_id. Updates and deletes are none.'),
        ('pgwhen.friend_track_event', null,
            'An inserted row is an event, friend_track_event_inserted, with key event (follow, unfollow). Updates and deletes are none.'),
        ('pgwhen.booking_event', null,
            'An inserted row is an event, booking_event, with key status. Updates and deletes are none.'),
        ('pgwhen.form_submission', 'at', 'When it happened; frequency and $now go by it.'),
        ('pgwhen.campaign_click', 'at', 'When it happened; frequency and $now go by it.'),
        ('pgwhen.friend_track_event', 'at', 'When it happened; frequency and $now go by it.'),
        ('pgwhen.booking_event', 'at', 'When it happened; frequency and $now go by it.'),
        ('pgwhen.trigger_rule', null,
            'When X happens, do Y. Insert and update it directly: a bad rule is refused with the path of the fault. Shapes of the configs: docs/schema/.'),
        ('pgwhen.trigger_rule', 'source_type',
            'attribute_changed, form_submitted, campaign_click, friend_track_event_inserted, booking_event, or the name of an event that an application emits.'),
        ('pgwhen.trigger_rule', 'frequency',
            'always, once, once_per_minute/hour/day/week/month (rolling), once_per_calendar_day/week/month (in the user''s time zone).'),
        ('pgwhen.trigger_rule', 'cooldown_seconds',
            'At least so long between two firings for one user; the longer of it and frequency wins.'),
        ('pgwhen.trigger_rule', 'enabled_date',
            'Since when the rule is live: events from before do not fire it.'),
        ('pgwhen.trigger_rule', 'deleted_date',
            'Soft delete: set it, and the rule is gone and its pending actions are cancelled.'),
        ('pgwhen.trigger_rule', 'parked_reason',
            'Why pgwhen disabled the rule (a loop); enabling it again clears this.'),
        ('pgwhen.trigger_log', null,
            'What happened: a row for each action at its end, each suppression and each parked event. Partitioned by month, kept for the setting logRetention.'),
        ('pgwhen.trigger_log', 'status',
            'success, failed, cancelled, expired, suppressed or late_click.'),
        ('pgwhen.trigger_log', 'error_message', 'The error, or the reason.'),
        ('pgwhen.trigger_log', 'action_config', 'The config as it was used.'),
        ('pgwhen.scheduled_action', null,
            'An action that waits or leaves the database. Finished ones are kept for the setting actionRetention.'),
        ('pgwhen.scheduled_action', 'status', 'pending, processing, done, failed or cancelled.'),
        ('pgwhen.scheduled_action', 'retry_count', 'Attempts that have ended without success.'),
        ('pgwhen.scheduled_action', 'deadline',
            'When the next timer of a running attempt is looked at: then it is taken back, unless a heartbeat has moved the timer on. Of a pending action: when scheduleToStart is; the end of 9999 while a pause holds it.'),
        ('pgwhen.scheduled_action', 'timeouts',
            'What its rule, or whoever scheduled it, said of timeouts, in seconds; what it does not say, the action type and the settings do.'),
        ('pgwhen.scheduled_action', 'close_by',
            'When scheduleToClose is over, and with it all attempts.'),
        ('pgwhen.scheduled_action', 'startable_at',
            'Since when its next attempt can start; scheduleToStart counts from then.'),
        ('pgwhen.scheduled_action', 'attempt_ends',
            'Until when the running attempt may go on, however it beats; only where it is to heartbeat.'),
        ('pgwhen.scheduled_action', 'claim_token',
            'The running claim; whoever does not know it changes nothing.'),
        ('pgwhen.scheduled_action', 'held_by',
            'The pause under which a claim met this due action; resume() puts it back.'),
        ('pgwhen.scheduled_action', 'batch_id',
            'The batch that it goes out in, or went out in last; null where its type has none, and where it was certainly not sent. The batch''s key derives from it.'),
        ('pgwhen.scheduled_action', 'keeps_batch',
            'Whether that batch may have been sent: then it is claimed again only with all others of it that may have been, and under the same key.'),
        ('pgwhen.scheduled_action', 'cancel_reason',
            'Cancelled by hand, by whom and why; in a running action: asked for.'),
        ('pgwhen.scheduled_action', 'key',
            'The idempotency key: the same at every attempt, and after a restore.'),
        ('pgwhen.scheduled_action', 'source_config',
            'What the rule asked for when it fired: its condition is judged again when the action is due. Kept where the delay says reEvaluateConditions.'),
        ('pgwhen.scheduled_action', 'delay',
            'The delay that it was made with, in its compiled form; null for what was to be done at once.'),
        ('pgwhen.scheduled_action', 'retry_policy',
            'What its rule, or whoever scheduled it, said of retries; what it does not say, the action type and the settings do.'),
        ('pgwhen.scheduled_action', 'retry_state',
            'Why its last attempt was the last: non_retryable, maximum_attempts_reached, timeout or cancel_requested.'),
        ('pgwhen.scheduled_action', 'user_known',
            'Whether the user had a row of line_user when it was made: if they have none when it is due, they are gone.'),
        ('pgwhen.scheduled_action', 'deduplication_key',
            'Of an action without a rule: there is one of this key in the account.'),
        ('pgwhen.scheduled_trigger_execution', null, 'A round of a scheduled rule.'),
        ('pgwhen.workflow', null, 'A journey of many steps.'),
        ('pgwhen.workflow_version', null, 'An immutable version of a workflow.'),
        ('pgwhen.setting', null,
            'Settings that differ from their default: batchSize 500, maxRetries 3, retrySeconds 10, staleProcessingMinute 5, eventRetention 7 days, logRetention 400 days, actionRetention 30 days, cronRetention 1 day, effectRetention null (for ever), resultLimit 65536 (bytes), loopGuardPerMinute 100, maxChainDepth 10.')
    ) as c (relation, column_name, comment);
end;
$$;
