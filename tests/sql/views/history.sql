-- pgwhen.rule_history, user_history, event, rule_counts: what has happened.
begin;
\ir ../helpers.psql
select plan(7);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r', action_type => 'add_to_audience', action_config => '{"audience": "a"}',
    frequency => 'once') as rule \gset
select pgwhen.emit('ordered', 'U1', key => 'web', at => '2030-01-01 00:00+00') as event \gset
select t.process();
select t.it_is('2030-01-07 12:01+00');
select pgwhen.emit('ordered', 'U1') as again \gset
select t.process();

select results_eq(
    format('select h.*
    from pgwhen.rule_history as h where h.rule_id = %s order by h.created_date', :rule),
    format(
        $$
        values
            (%1$s::bigint, 'r', '2030-01-07 12:00+00'::timestamptz, 'default', 'U1', 'ordered:web',
                '2030-01-01 00:00+00'::timestamptz, 'add_to_audience', 'success', null::text,
                    %2$s::bigint, null::bigint),
            (%1$s, 'r', '2030-01-07 12:01+00', 'default', 'U1', 'ordered', '2030-01-07 12:01+00',
                'add_to_audience',
                'suppressed', 'once: last fired at 2030-01-01T00:00:00Z, free again never', %3$s,
                    null)
        $$, :rule, :event, :again
    ),
    'rule_history has a row for each outcome of a rule'
);
select results_eq(
    $$
    select h.user_id, h.created_date, h.rule, h.trigger_on, h.status
    from pgwhen.user_history as h where h.user_id = 'U1' order by h.created_date
    $$,
    $$
    values
        ('U1', '2030-01-07 12:00+00'::timestamptz, 'r', 'ordered:web', 'success'),
        ('U1', '2030-01-07 12:01+00', 'r', 'ordered', 'suppressed')
    $$,
    'user_history has what happened to a user'
);
delete from pgwhen.trigger_rule;
select is(
    (select count(*) from pgwhen.rule_history as h where h.rule_id = :rule and h.rule is null),
        2::bigint,
    'the history outlives the rule'
);

select pgwhen.emit('ordered', 'U1') as waits \gset
select results_eq(
    'select e.id, e.processed_at from pgwhen.event as e order by e.id',
    format(
        $$
        values (%s::bigint, '2030-01-07 12:00+00'::timestamptz), (%s, '2030-01-07 12:01+00'), (%s,
            null)
        $$, :event, :again, :waits
    ),
    'event has those that wait and those that were processed'
);

select t.a_rule('false', 'asked', '{"condition": {"event.data.n": 1}}') as false \gset
select results_eq(
    'table pgwhen.rule_counts', format($$ values (%s::bigint, 'false', 'default', 0::numeric) $$,
        :false),
    'rule_counts counts from nought'
);
select pgwhen.emit('asked', 'U' || n, jsonb_build_object('n', n)) from generate_series(1, 5) as n;
select t.process();
select results_eq(
    'table pgwhen.rule_counts', format($$ values (%s::bigint, 'false', 'default', 4::numeric) $$,
        :false),
    'rule_counts has how often a condition was false'
);
select is_empty(
    $$ select from pgwhen.rule_history as h where h.rule = 'false' $$,
        'which is not logged one by one'
);

select finish();
rollback;
