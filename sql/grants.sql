-- Every privilege, stated whole on every deploy: CREATE OR REPLACE keeps old grants, so one that
-- was merely deleted from this file would live on. What a DBA granted to roles of their own stays.
--
-- pgwhen_admin         everything pgwhen_editor        rules and audiences; sees all pgwhen_worker
-- takes, claims and settles; no table at all pgwhen_viewer        sees all but secrets
-- pgwhen_application   writes events: the source tables, users, emit(); schedules actions

revoke all on all tables in schema pgwhen, _pgwhen
from public, pgwhen_admin, pgwhen_editor, pgwhen_worker, pgwhen_viewer, pgwhen_application;
revoke all on all routines in schema pgwhen, _pgwhen
from public, pgwhen_admin, pgwhen_editor, pgwhen_worker, pgwhen_viewer, pgwhen_application;
revoke all on schema pgwhen, _pgwhen
from public, pgwhen_admin, pgwhen_editor, pgwhen_worker, pgwhen_viewer, pgwhen_application;

-- Sees ------------------------------------------------------------------------------------

grant usage on schema pgwhen
to pgwhen_admin, pgwhen_editor, pgwhen_worker, pgwhen_viewer, pgwhen_application;

grant select on all tables in schema pgwhen to pgwhen_admin, pgwhen_editor, pgwhen_viewer;
revoke select on table pgwhen.account from pgwhen_editor, pgwhen_viewer;
grant select (line_oa_id, organization_id, time_zone, created_date)
on table pgwhen.account to pgwhen_editor, pgwhen_viewer;

grant execute on function
pgwhen.version(),
pgwhen.status(),
pgwhen.tail(bigint, integer),
pgwhen.explain(bigint, text, bigint, text),
pgwhen.matches(jsonb, jsonb, timestamptz, text []),
pgwhen.validate_rule(jsonb),
pgwhen.next_runs(bigint, jsonb, integer, timestamptz),
_pgwhen.is_served(text),
_pgwhen.clock()
to pgwhen_admin, pgwhen_editor, pgwhen_viewer;
grant execute on function pgwhen.version(), pgwhen.status() to pgwhen_worker;

-- Writes events ---------------------------------------------------------------------------

grant select, insert, update, delete
on table pgwhen.line_user
to pgwhen_admin, pgwhen_editor, pgwhen_application;
grant insert
on table
pgwhen.form_submission, pgwhen.campaign_click, pgwhen.friend_track_event, pgwhen.booking_event
to pgwhen_admin, pgwhen_editor, pgwhen_application;
grant execute on function
pgwhen.emit(text, text, jsonb, text, text, timestamptz),
pgwhen.event_time(timestamptz),
pgwhen.mute(boolean),
pgwhen.schedule_action(text, text, jsonb, timestamptz, jsonb, text, text, text),
pgwhen.schedule_actions(text, text [], jsonb [], timestamptz, jsonb, text, text, text []),
_pgwhen.event_clock(),
_pgwhen.clock()
to pgwhen_admin, pgwhen_editor, pgwhen_application;

-- Makes effects once: applications, handlers of their own role, SQL actions as workers ---------

grant execute on function pgwhen.effect_once(text, text)
to pgwhen_admin, pgwhen_editor, pgwhen_worker, pgwhen_application;

-- Edits rules and audiences ---------------------------------------------------------------

grant insert, update on table pgwhen.trigger_rule to pgwhen_admin, pgwhen_editor;
grant insert, update, delete
on table pgwhen.audience, pgwhen.audience_member
to pgwhen_admin, pgwhen_editor;

-- Acts on actions -------------------------------------------------------------------------

grant execute on function
pgwhen.cancel_action(bigint, text),
pgwhen.retry_action(bigint, text),
pgwhen.reschedule_action(bigint, timestamptz),
pgwhen.run_action_now(bigint),
pgwhen.pause(text, text, text, bigint),
pgwhen.resume(text, text, text, bigint, text)
to pgwhen_admin, pgwhen_editor;

-- Works -----------------------------------------------------------------------------------

grant usage on schema _pgwhen to pgwhen_admin, pgwhen_worker;

grant execute on routine
pgwhen.process_events(text, text [], integer, integer, boolean, boolean),
pgwhen.claim_actions(text, integer, text []),
pgwhen.complete_actions(text, bigint [], uuid [], jsonb []),
pgwhen.exchange_actions(text, bigint [], uuid [], jsonb [], integer, text []),
pgwhen.fail_actions(text, bigint [], uuid [], jsonb []),
pgwhen.heartbeat_actions(text, bigint [], uuid [], jsonb []),
pgwhen.release_actions(text, bigint [], uuid []),
pgwhen.recover_stale_actions(integer),
pgwhen.expire_actions(integer),
pgwhen.tick(integer),
pgwhen.run_ticks(numeric, boolean, bigint),
pgwhen.maintain(integer),
pgwhen.try_sleep(),
pgwhen.wake_up(),
pgwhen.announce_worker(text, text []),
pgwhen.keep_body(uuid, bytea),
pgwhen.secret_names(text),
pgwhen.register_action(text, jsonb, jsonb),
_pgwhen.clock(),
_pgwhen.say(text, jsonb),
_pgwhen.check_pass(text, integer),
_pgwhen.check_worker(text),
_pgwhen.require_read_committed(text),
_pgwhen.next_turn(bigint []),
_pgwhen.yield_after(),
_pgwhen.patience(integer),
_pgwhen.take(text, integer),
_pgwhen.fire(text, bigint [], text [], integer),
_pgwhen.fire_alone(text, bigint),
_pgwhen.other_buckets(bigint []),
_pgwhen.next_due_seconds(text []),
_pgwhen.mark_suspect(text, integer),
_pgwhen.mark_batch(text),
_pgwhen.adopt_suspects(text),
_pgwhen.sql_types(),
_pgwhen.claim_sql_actions(text, integer),
_pgwhen.first_has_failed(text []),
_pgwhen.run_sql_actions(text, pgwhen.claimed_action []),
_pgwhen.own_claims(pgwhen.claimed_action []),
_pgwhen.run_builtin_actions(text, text, pgwhen.claimed_action []),
_pgwhen.run_claimed(text, pgwhen.claimed_action [], timestamptz),
_pgwhen.call_each(text, text, pgwhen.claimed_action []),
_pgwhen.call_batch(text, text, pgwhen.claimed_action []),
_pgwhen.context_of(pgwhen.claimed_action),
_pgwhen.action_context(bigint, integer, bigint, jsonb, uuid),
_pgwhen.tracking_id(uuid),
_pgwhen.cause_of_action(pgwhen.claimed_action),
_pgwhen.cause_of_actions(pgwhen.claimed_action []),
_pgwhen.put_off(pgwhen.claimed_action),
_pgwhen.lock_claimed(pgwhen.claimed_action),
_pgwhen.park_runaways(),
_pgwhen.lower_floors(),
_pgwhen.maintain_if_due(),
_pgwhen.check_home()
to pgwhen_admin, pgwhen_worker;

-- Administers -----------------------------------------------------------------------------

grant insert, update, delete on all tables in schema pgwhen to pgwhen_admin;
grant execute on function
pgwhen.register_sql_action(text, regprocedure, boolean, jsonb),
pgwhen.retry_event(bigint)
to pgwhen_admin;

grant execute on function
pgwhen.adopt(),
pgwhen.enable_cron(integer),
pgwhen.disable_cron(),
_pgwhen.require_home(),
_pgwhen.cron_findings(),
_pgwhen.copied_from(),
_pgwhen.cron_noted_at(),
_pgwhen.findings_on_jobs(),
_pgwhen.findings_on_my_job(timestamptz),
_pgwhen.findings_on_job(_pgwhen.cron_job),
_pgwhen.findings_on_runs(_pgwhen.cron_job, timestamptz),
_pgwhen.sees_all_jobs(),
_pgwhen.logs_cron_runs(),
_pgwhen.stamp(timestamptz),
_pgwhen.has_cron(),
_pgwhen.cron_command(),
_pgwhen.cron_job_name(),
_pgwhen.cron_jobs(),
_pgwhen.cron_job_will_do(_pgwhen.cron_job),
_pgwhen.schedule_cron_job(integer),
_pgwhen.call_cron_schedule(text),
_pgwhen.remove_cron_jobs(bigint []),
_pgwhen.note_cron(bigint),
_pgwhen.require_cron(),
_pgwhen.require_cron_role(),
_pgwhen.require_cron_usage(),
_pgwhen.hint_from_elsewhere(text),
_pgwhen.hint_to_install(),
_pgwhen.may_tick(text)
to pgwhen_admin;
