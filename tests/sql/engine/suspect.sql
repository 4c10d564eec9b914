-- process_events(…, suspect => true): a batch that took its caller down is halved, to one event.
begin;
\ir ../helpers.psql
select plan(20);

select t.it_is('2030-01-07 12:00+00');
select
    t.a_rule('r', action_type => 'add_to_audience', action_config => '{"audience": "a"}') as rule
\gset
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 8) as n;
select min(o.id) as first from _pgwhen.outbox as o \gset
create view t.mark as
select s.worker, cardinality(s.trying) as trying, cardinality(s.remaining) as remaining
from _pgwhen.suspect as s;
create function t.suspect(worker text default 'w-1') returns pgwhen.pass language sql as $$
select pgwhen.process_events(worker, suspect => true);
$$;

select results_eq(
    'select p.events, p.more, p.actions from t.suspect() as p', $$ values (0, true, '[]'::jsonb) $$,
    'does nothing yet, and asks to be called again'
);
select results_eq('table t.mark', $$ values ('w-1', 8, 0) $$, 'marks the batch');
select t.suspect();
select
    results_eq('table t.mark', $$ values ('w-1', 4, 4) $$, 'halves what is marked, the next time');
select t.suspect();
select t.suspect();
select results_eq('table t.mark', $$ values ('w-1', 1, 7) $$, 'down to one event');

-- The call died with each of these; this one is alone now, and is the one. First it is tried with
-- nothing done at once.
select t.suspect();
select ok(s.alone, 'which is then tried alone') from _pgwhen.suspect as s;
select is_empty('select e.id from pgwhen.event as e where e.parked is not null', 'not yet parked');
select t.suspect();
select results_eq(
    'select e.id, e.parked from pgwhen.event as e where e.parked is not null',
    format(
        $$ values (%s::bigint, 'it ended the connection or ran out of statement_timeout') $$, :first
    ),
    'parks the one event that is left'
);
select results_eq(
    $$ select l.event_id, l.trigger_rule_id, l.status, l.error_message, l.trigger_on
        from pgwhen.trigger_log as l $$,
    format(
        $$
        values (
            %s::bigint, null::bigint, 'failed',
            'event parked: it ended the connection or ran out of statement_timeout', 'ordered'
        )
        $$, :first
    ),
    'and logs it'
);
select results_eq('table t.mark', $$ values ('w-1', 7, 0) $$, 'goes on to the rest');

-- A plain call tries exactly what is marked.
select is((pgwhen.process_events('w-1')).events, 7, 'the call after it takes what is marked');
select is_empty('table t.mark', 'after which nothing is suspect');
select is(cardinality(t.log_of(:rule)), 7, 'and the others have had their actions');

-- Half of it went well: the other half is next, before anything else.
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 4) as n;
select t.suspect();
select t.suspect();
select pgwhen.emit('ordered', 'U9');
select is((pgwhen.process_events('w-1')).events, 2, 'the first half');
select results_eq('table t.mark', $$ values ('w-1', 2, 0) $$, 'then the second is marked');
select is((pgwhen.process_events('w-2')).events, 3, 'which another worker need not mind');
select is((pgwhen.process_events('w-1')).events, 0, 'and then is gone');
select is_empty('table t.mark', 'with its mark');

select t.suspect('w-3');
select is_empty('table t.mark', 'marks nothing where nothing waits');

-- What is tried alone and lives has made its actions, as pending rows.
select pgwhen.emit('ordered', 'U10');
select t.suspect();
select t.suspect();
select is((pgwhen.process_events('w-1')).events, 1, 'tries alone what is marked so');
select results_eq(
    'select a.user_id, a.status from pgwhen.scheduled_action as a',
    $$ values ('U10', 'pending') $$,
    'whose actions wait, for somebody to run them one by one'
);

select finish();
rollback;
