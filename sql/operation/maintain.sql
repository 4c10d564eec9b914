create or replace function pgwhen.maintain(batch_size integer default 5000)
returns jsonb
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_old_timeout constant text := current_setting('lock_timeout');
    v_report jsonb;
begin
    if maintain.batch_size < 1 then
        raise exception 'batch_size must be 1 or more, not %', maintain.batch_size
            using errcode = 'PW301', hint = 'Leave it out for 5000.';
    end if;
    if not pg_try_advisory_xact_lock(_pgwhen.lock_class(), _pgwhen.maintain_lock()) then
        return '{"busy": true}';
    end if;

    perform set_config('lock_timeout', '200', true);
    v_report := jsonb_build_object(
        'partitionsMade',
        _pgwhen.make_all_partitions(),
        'partitionsDropped',
        _pgwhen.drop_partitions('_pgwhen.processed_event', 'eventRetention', interval '1 day')
        + _pgwhen.drop_partitions('pgwhen.trigger_log', 'logRetention'),
        'actionsDeleted',
        _pgwhen.delete_ended_actions(maintain.batch_size),
        'effectsDeleted',
        _pgwhen.delete_old_effects(maintain.batch_size),
        'cronRunsDeleted',
        _pgwhen.delete_cron_runs(maintain.batch_size)
    );
    perform _pgwhen.fold_false_counts();
    perform _pgwhen.forget_the_past();
    perform set_config('lock_timeout', v_old_timeout, true);

    -- A full batch leaves more to do, and the chore still due.
    if greatest(
        (v_report -> 'actionsDeleted')::integer,
        (v_report -> 'cronRunsDeleted')::integer,
        (v_report -> 'effectsDeleted')::integer
    ) < maintain.batch_size then
        insert into _pgwhen.chore as c (name, done_at)
        values ('maintain', _pgwhen.clock())
        on conflict on constraint chore_pkey do update set done_at = excluded.done_at;
    end if;
    return v_report;
end;
$$;

comment on function pgwhen.maintain(integer) is
$doc$Make partitions ahead, drop those past their retention, delete finished actions.

Retention is by the settings eventRetention, logRetention, actionRetention and, for the notes of
effect_once(), effectRetention, where it is set; by cronRetention go pg_cron's records of its runs
of pgwhen, where the role that deployed pgwhen may delete them. Never touches an action that is
pending or processing. Deletes at most batch_size of each a call, and waits for no lock longer than
200 ms: what it cannot have now it leaves for the next call.
run_ticks() calls it once an hour, and again at its next run while there is more to delete. Returns
{"busy": true} where another call is at it.

  select pgwhen.maintain();
$doc$;

create or replace function _pgwhen.maintain_if_due()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (
        select
        from _pgwhen.chore as c
        where
            c.name = 'maintain'
            and c.done_at > _pgwhen.clock() - interval '1 hour'
            and c.done_at <= _pgwhen.clock()
    ) then
        perform pgwhen.maintain();
    end if;
end;
$$;

create or replace function _pgwhen.delete_ended_actions(batch_size integer)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant timestamptz :=
        _pgwhen.clock() - _pgwhen.span(_pgwhen.setting('actionRetention'));
    v_ids bigint[];
    v_keys uuid[];
    v_batches uuid[];
begin
    v_ids := array(
        select e.id
        from pgwhen.scheduled_action as e
        where e.status in ('done', 'failed', 'cancelled') and e.updated_at < v_before
        order by e.updated_at
        limit delete_ended_actions.batch_size
        for update skip locked
    );
    delete from _pgwhen.heartbeat as b where b.action_id = any(v_ids);
    with gone as (
        delete from pgwhen.scheduled_action as a where a.id = any(v_ids)
        returning a.key, a.batch_id
    )
    select array_agg(g.key), array_agg(distinct g.batch_id) filter (where g.batch_id is not null)
    into v_keys, v_batches
    from gone as g;
    perform _pgwhen.forget_bodies(v_keys || _pgwhen.keys_of_ended(v_batches));
    return cardinality(v_ids);
end;
$$;

-- One row for each rule again.
create or replace function _pgwhen.fold_false_counts()
returns void
language sql
volatile
as $$
with gone as (
    delete from _pgwhen.false_count returning trigger_rule_id, counted_at, n
)
insert into _pgwhen.false_count (trigger_rule_id, counted_at, n)
select g.trigger_rule_id, max(g.counted_at), sum(g.n)
from gone as g
group by g.trigger_rule_id;
$$;

create or replace function _pgwhen.forget_the_past()
returns void
language sql
volatile
as $$
delete from _pgwhen.floor as f
where f.id < (select max(m.id) from _pgwhen.floor as m where m.name = f.name);

delete from _pgwhen.worker as w
where w.seen_at < _pgwhen.clock() - interval '1 day';

-- So few that they can be kept for longer than anything waits for a worker.
delete from _pgwhen.past_pause as p
where p.resumed_at < _pgwhen.clock() - interval '1 year';

-- Of workers that never came back; their events wait in the outbox for anybody.
delete from _pgwhen.suspect as s
where s.marked_at < _pgwhen.clock() - interval '1 day';
$$;
