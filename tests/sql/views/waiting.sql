-- The view of what waits for a click.
begin;
\ir ../helpers.psql
select plan(2);

select t.it_is('2030-01-07 12:00+00');
select
    t.a_waiting_rule(
        'chase',
        '{"tracking": {"link": "quote"}, "onExpire": {"actionType": "log_message",
          "actionConfig": {"text": "Your quote"}}}'
    ),
    t.a_waiting_rule('offer', '{"after": "send"}', 'add_to_audience', '{"audience": "a"}'),
    t.a_rule('plain');
select pgwhen.emit('ordered', 'U1');
select t.process();
select results_eq(
    $$ select w.rule, w.user_id, w.action_type, w.click, w.sent, w.counts_from, w.expires_at,
        w.on_click, w.on_expire from pgwhen.waiting as w order by w.rule $$,
    $$
    values
    (
        'chase', 'U1', 'log_message', '{"link": "quote"}'::jsonb, false,
        '2030-01-07 12:00+00'::timestamptz, '2030-01-07 13:00+00'::timestamptz, null::jsonb,
        '{"actionType": "log_message", "actionConfig": {"text": "Your quote"}}'::jsonb
    ),
    (
        'offer', 'U1', 'add_to_audience', '{}', true, '2030-01-07 12:00+00',
        '2030-01-07 13:00+00', null, null
    )
    $$,
    'what waits, for whom, for which click and until when'
);
select t.a_click('U1', 'quote');
select t.process();
select is_empty('table pgwhen.waiting', 'and nothing that does not wait any more');

select finish();
rollback;
