-- _pgwhen.fire_alone: one event on its own, rule by rule, each in a block of its own: what raises
-- becomes a failed row, the others go on. Nothing is done now, so that an action which raises
-- becomes an ordinary pending row and is retried. If not even that works, the event is parked.
--
-- False where it needs rows that somebody else has locked: nothing has happened, and the event's
-- turn comes later.
create or replace function _pgwhen.fire_alone(worker text, event_id bigint)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_events _pgwhen.outbox[];
    v_rule _pgwhen.rule;
    v_why text;
begin
    v_events := _pgwhen.withdraw(array[fire_alone.event_id]);
    perform _pgwhen.resolve_clicks(v_events);
    for v_rule in
        select m.*
        from unnest(v_events) as e
        cross join lateral _pgwhen.match(e.type, e.line_oa_id, e.keys, e.created_at) as m
        order by m.trigger_rule_id
    loop
        begin
            perform _pgwhen.carry_out(
                _pgwhen.verdicts(v_events, v_rule.trigger_rule_id),
                fire_alone.worker, '{}', 0, true
            );
            set constraints all immediate;
        exception
            when lock_not_available or deadlock_detected then
                raise;
            when assert_failure or others then
                get stacked diagnostics v_why = message_text;
                perform _pgwhen.settle(array[
                    _pgwhen.ending_of(
                        _pgwhen.firing_of(v_events[1], v_rule), 'failed', sqlstate || ': ' || v_why
                    )
                ]);
        end;
    end loop;
    return true;
exception
    when lock_not_available or deadlock_detected then
        return false;
    when assert_failure or others then
        get stacked diagnostics v_why = message_text;
        perform _pgwhen.park_event(fire_alone.event_id, sqlstate || ': ' || v_why);
        return true;
end;
$$;

-- The ids without those that share the first one's bucket, and so may have to wait for it.
create or replace function _pgwhen.other_buckets(ids bigint[])
returns bigint[]
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select array(
    select o.id
    from _pgwhen.outbox as o
    where
        o.id = any(other_buckets.ids)
        and o.bucket <> (
            select f.bucket from _pgwhen.outbox as f where f.id = other_buckets.ids[1]
        )
    order by o.id
);
$$;
