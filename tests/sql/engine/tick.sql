-- pgwhen.tick: one bounded pass over everything that time has made due.
begin;
\ir ../helpers.psql
select plan(20);

select t.it_is('2030-01-07 12:00+00');
select results_eq(
    'select t.events, t.actions, t.recovered, t.more from pgwhen.tick() as t',
    $$ values (0, 0, 0, false) $$, 'does nothing where nothing is due'
);

select
    t.a_rule('sql', action_type => 'add_to_audience', action_config => '{"audience": "a"}') as sql
\gset
select t.a_rule('python') as python \gset
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 5) as n;
select results_eq(
    'select t.events, t.actions, t.recovered, t.more from pgwhen.tick(3) as t',
    $$ values (3, 0, 0, true) $$,
    'processes no more events than asked, and says that there are more'
);
select results_eq(
    'select t.events, t.actions, t.recovered, t.more from pgwhen.tick(3) as t',
    $$ values (2, 0, 0, false) $$, 'then the rest'
);
select is(t.log_of(:sql), array_fill('success'::text, array[5]), 'does SQL actions');
select set_eq(
    'select a.status from pgwhen.scheduled_action as a',
    array['pending'],
    'and leaves Python''s to workers'
);
truncate pgwhen.scheduled_action;

select t.an_action('2030-01-07 12:01+00', 'add_to_audience', '{"audience": "a"}', 'U' || n)
from generate_series(1, 4) as n;
select t.it_is('2030-01-07 12:01+00');
select results_eq(
    'select t.actions, t.more from pgwhen.tick(3) as t', $$ values (3, true) $$,
    'runs no more SQL actions than asked, and says that more are due'
);
select results_eq(
    'select t.actions, t.more from pgwhen.tick(3) as t', $$ values (1, false) $$, 'then the rest'
);
truncate pgwhen.scheduled_action;
select t.an_action();
select count(*) from pgwhen.claim_actions('w-1');
select t.it_is('2030-01-07 12:07+00');
select is((pgwhen.tick()).recovered, 1, 'takes back what passed its deadline');
select is((pgwhen.tick()).recovered, 0, 'once');
truncate pgwhen.scheduled_action;

-- A loop that no chain shows: a function that writes the event through another session, say.
insert into pgwhen.setting (name, value) values ('loopGuardPerMinute', '3');
delete from pgwhen.trigger_log;
create function t.run_away(
    times integer, user_id text default 'U1'
) returns text language plpgsql as $$
begin
    perform pgwhen.emit('ordered', run_away.user_id) from generate_series(1, times);
    perform t.process();
    perform pgwhen.tick();
    return (select r.parked_reason from pgwhen.trigger_rule as r where r.name = 'sql');
end;
$$;
select t.it_is('2030-01-07 13:00+00');
select is(t.run_away(3), null, 'lets a rule fire as often as the guard allows');
select t.it_is('2030-01-07 13:00:11+00');
select is(
    t.run_away(1),
    'fired 4 times for user U1 within a minute: a loop?',
    'parks a rule that fires more often'
);
select results_eq(
    $$ select r.name, r.enabled from pgwhen.trigger_rule as r order by r.name $$,
    $$ values ('python', true), ('sql', false) $$, 'which disables it, and no other'
);
select t.process();
select is(cardinality(t.log_of(:sql)), 4, 'it does not fire any more');
select t.it_is('2030-01-07 13:00:22+00');
update pgwhen.trigger_rule set enabled = true where id = :sql;
select is(t.run_away(1), null, 'enabling it gives it another minute');
select is(cardinality(t.log_of(:sql)), 5, 'in which it fires');
select t.it_is('2030-01-07 13:01:23+00');
select is(t.run_away(3), null, 'what lies more than a minute back does not count');
select t.it_is('2030-01-07 13:05:00+00');
select t.run_away(1, 'V' || n) from generate_series(1, 5) as n;
select t.it_is('2030-01-07 13:05:11+00');
select is(t.run_away(0), null, 'nor do firings for other users');
update pgwhen.trigger_rule set frequency = 'once' where id = :sql;
select t.run_away(20, 'W');
select t.it_is('2030-01-07 13:05:22+00');
select is(t.run_away(0), null, 'nor what was suppressed');
select
    t.a_waiting_rule(
        'chase',
        '{"whenPending": "add",
            "onExpire": {"actionType": "add_to_audience", "actionConfig": {"audience": "x"}}}'
    ) as chase
\gset
select pgwhen.emit('ordered', 'X') from generate_series(1, 3) as n;
select t.process();
select t.it_is('2030-01-07 14:30+00');
select pgwhen.tick() from generate_series(1, 2) as n;
select t.it_is('2030-01-07 14:30:11+00');
select pgwhen.tick();
select is(
    (
        select array[r.enabled::text, count(*)::text]
        from pgwhen.trigger_rule as r
        inner join pgwhen.trigger_log as l on l.trigger_rule_id = r.id
        where r.id = :chase
        group by r.id
    ),
    '{true,6}', 'and counts a firing once, however many rows of the log come of it'
);
select is(
    (
        select count(*)
        from pgwhen.scheduled_action as a
        where a.trigger_rule_id = :python and a.status = 'pending'
    )
    > 20, true, 'nor what nobody has done yet'
);

select finish();
rollback;
