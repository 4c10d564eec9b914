-- _pgwhen.ending_of, _pgwhen.firing_of, _pgwhen.ending_of_action: what settle() is told.
begin;
\ir ../helpers.psql
select plan(5);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r', source_config => '{"log": "all"}', frequency => 'once_per_hour') as rule \gset
select pgwhen.emit('ordered', 'U1', '{"n": 1}', key => 'web', line_oa_id => 'shop');
create view t.firing as
select _pgwhen.firing_of(o, r) as f
from _pgwhen.outbox as o
cross join _pgwhen.rule as r;

select results_eq(
    'select (x.f).user_id, (x.f).key, (x.f).trigger_rule_id, (x.f).frequency, (x.f).period,
    (x.f).log_all, (x.f).verdict
    from t.firing as x',
    format(
        $$ values ('U1', 'web', %s::bigint, 'once_per_hour', interval '1 hour', true,
            null::text) $$,
        :rule
    ),
    'firing_of is an event and a rule that nobody has judged'
);
select results_eq(
    $$ select (_pgwhen.firing_of(o, null)).user_id, (_pgwhen.firing_of(o, null)).trigger_rule_id
        from _pgwhen.outbox as o $$,
    $$ values ('U1', null::bigint) $$, 'or an event alone'
);
select results_eq(
    $$
    select e.action_id, e.trigger_rule_id, e.audience_id, e.line_oa_id, e.user_id, e.trigger_on,
        e.event_id,
        e.action_type, e.action_config, e.status, e.error_message, e.origin, e.give_back
    from t.firing as x
    cross join lateral _pgwhen.ending_of(x.f, 'success', 'why', 5) as e
    $$,
    format(
        $$
        select null::bigint, %s::bigint, 5::bigint, 'shop', 'U1', 'ordered:web', o.id,
            'log_message',
            '{"text": "hello"}'::jsonb, 'success', 'why', o.uuid, false
        from _pgwhen.outbox as o
        $$, :rule
    ),
    'ending_of says of what is no row all that the log will'
);
select ok(
    (select (_pgwhen.ending_of(x.f, 'failed')).give_back from t.firing as x),
    'what fails at once was certainly not delivered'
);
select results_eq(
    $$ select e.action_id, e.status, e.error_message, e.result, e.give_back, e.audience_id,
        e.user_id from _pgwhen.ending_of_action(3, null, 'failed', 'why', '1', true, 5) as e $$,
    $$ values (3::bigint, 'failed', 'why', '1'::jsonb, true, 5::bigint, null::text) $$,
    'ending_of_action says of a row what the row does not'
);

select finish();
rollback;
