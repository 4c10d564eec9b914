-- _pgwhen.carry_out: from verdicts to actions and log rows.
begin;
\ir ../helpers.psql
select plan(8);

select t.it_is('2030-01-07 12:00+00');

create function t.counts(rule bigint) returns bigint language sql as $$
select c.condition_false::bigint from pgwhen.rule_counts as c where c.rule_id = counts.rule;
$$;

-- What was false is counted, and logged where the rule says so.
select t.a_rule('quiet', 'asked', '{"condition": {"event.data.n": {"$gt": 5}}}') as quiet \gset
select
    t.a_rule('loud', 'asked', '{"condition": {"event.data.n": {"$gt": 5}}, "log": "all"}') as loud
\gset
select t.a_rule('other', 'asked', '{"condition": {"event.data.n": {"$gte": 0}}}') as other \gset
select pgwhen.emit('asked', 'U1', jsonb_build_object('n', n)) from generate_series(1, 7) as n;
select t.process();
select is(t.counts(:quiet), 5::bigint, 'counts what was false for a rule');
select is(t.log_of(:quiet), '{}', 'and does not log it');
select is(t.counts(:loud), 5::bigint, 'counts it where it is logged too');
select is(
    t.log_of(:loud),
    array_fill('suppressed: condition false'::text, array[5]),
    'logs it for "log": "all"'
);
select is(t.counts(:other), 0::bigint, 'counts nothing for a rule that was true');
select pgwhen.emit('asked', 'U2', '{"n": 1}');
select t.process();
select is(t.counts(:quiet), 6::bigint, 'goes on counting');

-- What stopped is said in one place, whoever asks.
select
    t.a_rule('echo', 'echo', action_type => 'emit_event', action_config => '{"type": "echo"}')
        as echo
\gset
select t.a_rule('once', 'echo', frequency => 'once') as once \gset
select pgwhen.emit('echo', 'U3');
select t.process();
select is(
    t.log_of(:echo),
    array['success', 'suppressed: loop: the rule is in its own chain, or the chain is too long'],
    'logs a loop'
);
select is(
    (
        select array_agg(l.status || ': ' || left(l.error_message, 19))
        from pgwhen.trigger_log as l
        where l.trigger_rule_id = :once
    ),
    array['suppressed: once: last fired at'], 'logs what the frequency suppressed'
);

select finish();
rollback;
