-- _pgwhen.when_pending: a rule fires again for a user of whom it has an action pending.
begin;
\ir ../helpers.psql
select plan(22);

select t.it_is('2030-01-07 12:00+00');

create function t.a_timer(name text, delay jsonb default '{}', frequency text default 'always')
returns bigint
language sql
as $$
select t.a_rule(
    name, name, '{}', 'log_message',
    jsonb_build_object('text', 'x', 'delay', '{"seconds": 60}'::jsonb || delay), frequency
);
$$;
create procedure t.fire(event text, user_id text default 'U1', line_oa_id text default 'default')
language plpgsql
as $$
begin
    perform pgwhen.emit(fire.event, fire.user_id, line_oa_id => fire.line_oa_id);
    perform t.process();
end;
$$;
create function t.due(rule bigint) returns text[] language sql as $$
select array(
    select a.user_id || ' ' || a.status || ' ' || to_char(a.execute_at at time zone 'UTC', 'MI:SS')
    from pgwhen.scheduled_action as a
    where a.trigger_rule_id = due.rule
    order by a.id
);
$$;

-- skip --------------------------------------------------------------------------------------

select t.a_timer('skips', frequency => 'once_per_minute') as skips \gset
call t.fire('skips');
select min(a.id) as first_id from pgwhen.scheduled_action as a \gset
select t.it_is('2030-01-07 12:00:30+00');
select t.force($$ update pgwhen.scheduled_action set execute_at = '2030-01-07 12:05+00' $$);
select t.it_is('2030-01-07 12:01:30+00');
call t.fire('skips');
select is(t.due(:skips), array['U1 pending 05:00'], 'makes no other, where nothing is said');
select is(
    t.log_of(:skips),
    array[format('suppressed: pending: action %s is due at 2030-01-07T12:05:00Z', :first_id)],
    'and says which one waits, until when'
);
select is(
    (select r.last_at from _pgwhen.reservation as r where r.trigger_rule_id = :skips),
    '2030-01-07 12:00+00', 'the frequency does not count it'
);
call t.fire('skips', 'U2');
select is(
    t.due(:skips), array['U1 pending 05:00', 'U2 pending 02:30'], 'another user is not in the way'
);
select t.a_timer('skips too') as skips_too \gset
call t.fire('skips too');
select is(t.due(:skips_too), array['U1 pending 02:30'], 'nor is another rule');

select t.a_timer('said', '{"whenPending": "skip"}') as said \gset
call t.fire('said');
call t.fire('said');
select is(t.due(:said), array['U1 pending 02:30'], 'skip can be said');

select t.it_is('2030-01-07 12:02:30+00');
select c.id, c.token from pgwhen.claim_actions('w-1') as c where c.rule = :said \gset
call t.fire('said');
select is(
    t.due(:said), array['U1 processing 02:30', 'U1 pending 03:30'],
    'what a worker has taken is not pending'
);
select is(
    pgwhen.fail_actions('w-1', array[:id], array[:'token'::uuid], array['{}'::jsonb]), :id::bigint
);
select
    t.force($$ delete from pgwhen.scheduled_action where execute_at = '2030-01-07 12:03:30+00' $$);
call t.fire('said');
select is(t.due(:said), array['U1 pending 02:40'], 'what is tried again is');

-- Actions that were to be done at once are no timers.
select t.a_rule('at once', 'at once') as at_once \gset
call t.fire('at once');
call t.fire('at once');
select is(
    t.due(:at_once), array['U1 pending 02:30', 'U1 pending 02:30'],
    'an action that was to be done at once is not asked, and is not in the way'
);
update pgwhen.trigger_rule
set action_config = '{"text": "x", "delay": {"seconds": 60}}' where id = :at_once;
call t.fire('at once');
select is((t.due(:at_once))[3], 'U1 pending 03:30', 'nor in the way of one that has a delay');

select t.a_timer('zero', '{"seconds": 0}') as zero \gset
call t.fire('zero');
call t.fire('zero');
select is(t.due(:zero), array['U1 pending 02:30'], 'a delay of nothing is a delay');

-- Two events of one user in one pass.
select t.a_timer('twice') as twice \gset
select pgwhen.emit('twice', 'U1'), pgwhen.emit('twice', 'U1'), pgwhen.emit('twice', 'U2');
select t.process();
select is(
    t.due(:twice), array['U1 pending 03:30', 'U2 pending 03:30'],
    'of two events in one pass, the second finds what the first made'
);

-- replace -----------------------------------------------------------------------------------

select t.a_timer('replaces', '{"whenPending": "replace"}') as replaces \gset
call t.fire('replaces');
call t.fire('replaces', 'U2');
select t.it_is('2030-01-07 12:02:50+00');
call t.fire('replaces');
select is(
    t.due(:replaces), array['U1 cancelled 03:30', 'U2 pending 03:30', 'U1 pending 03:50'],
    'replace lets the time start anew'
);
select is(t.log_of(:replaces), array['cancelled: replaced'], 'and logs it');

select t.force(format(
    $$
    update pgwhen.scheduled_action
    set status = 'processing', claim_token = gen_random_uuid(), deadline = _pgwhen.clock()
    where trigger_rule_id = %s and user_id = 'U2'
    $$, :replaces
));
call t.fire('replaces', 'U2');
select is(
    t.due(:replaces),
    array[
        'U1 cancelled 03:30', 'U2 processing 03:30', 'U1 pending 03:50', 'U2 pending 03:50'
    ],
    'what a worker has taken is not replaced'
);

select t.a_timer('once', '{"whenPending": "replace"}', 'once') as once \gset
call t.fire('once');
call t.fire('once');
select alike((t.log_of(:once))[1], 'suppressed: once: %', 'frequency comes first');
select is(t.due(:once), array['U1 pending 03:50'], 'and what it stops replaces nothing');

-- add ---------------------------------------------------------------------------------------

select t.a_timer('adds', '{"whenPending": "add"}') as adds \gset
call t.fire('adds');
call t.fire('adds');
select is(t.due(:adds), array['U1 pending 03:50', 'U1 pending 03:50'], 'add adds one');

-- All of them in one call, and actions without a rule.
update pgwhen.trigger_rule set source_type = 'both' where id in (:adds, :replaces, :said);
select pgwhen.schedule_action('log_message', 'U9', '{"text": "x"}', delay => '{"seconds": 60}');
call t.fire('both', 'U9');
select is(
    array[
        cardinality(t.due(:adds)), cardinality(t.due(:replaces)), cardinality(t.due(:said))
    ],
    array[3, 5, 2], 'an action without a rule is in nobody''s way'
);
call t.fire('both', 'U9');
select is(
    array[
        cardinality(t.due(:adds)), cardinality(t.due(:replaces)), cardinality(t.due(:said))
    ],
    array[4, 6, 2], 'each rule as it says, in one pass'
);
select is(
    (
        select array_agg(a.status order by a.id)
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :replaces and a.user_id = 'U9'
    ),
    array['cancelled', 'pending'], 'the first of the two was replaced'
);

select finish();
rollback;
