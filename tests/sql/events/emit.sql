-- pgwhen.emit: an event of any name.
begin;
\ir ../helpers.psql
select plan(35);

select t.it_is('2030-01-07 12:00+00');
select t.a_user('U1', '{"tier": "gold"}');
delete from _pgwhen.outbox;

select pgwhen.emit(
    'order paid', 'U1', '{"total": 990}', key => 'web', at => '2029-11-30 09:00+07'
) as id \gset
select results_eq(
    $$
    select o.type, o.user_id, o.line_oa_id, o.data, o.key, o.keys, o.at, o.created_at, o.facts,
        o.chain
    from _pgwhen.outbox as o
    $$,
    $$
    values (
        'order paid', 'U1', 'default', '{"total": 990}'::jsonb, 'web', '{*,web}'::text[],
        '2029-11-30 02:00+00'::timestamptz, '2030-01-07 12:00+00'::timestamptz,
        '{"tier": "gold"}'::jsonb, '{}'::bigint[]
    )
    $$,
    'writes the event with the user''s facts of this moment'
);
select is(:id::bigint, (select o.id from _pgwhen.outbox as o), 'returns the id of the event');
select is(
    (select o.bucket from _pgwhen.outbox as o), _pgwhen.bucket('default', 'U1'),
    'puts it into the user''s bucket'
);
delete from _pgwhen.outbox;

select pgwhen.emit('ordered', 'a stranger', null, line_oa_id => 'shop 2');
select results_eq(
    'select o.data, o.keys, o.at, o.facts, o.line_oa_id from _pgwhen.outbox as o',
    $$
    values (
        '{}'::jsonb, '{*}'::text[], '2030-01-07 12:00+00'::timestamptz, '{}'::jsonb, 'shop 2'
    )
    $$,
    'needs neither data, nor key, nor time, nor a user that exists'
);
delete from _pgwhen.outbox;

savepoint before;
select pgwhen.emit('ordered', 'U1');
rollback to savepoint before;
select is_empty('table _pgwhen.outbox', 'leaves nothing of a transaction that was rolled back');

select throws_ok(w.call, 'PW203', w.message, w.call || ' is refused')
from (values
    (
        $$ select pgwhen.emit('pgwhen.wait_opened', 'U1', '{"action": 1}') $$,
        'event types that begin with "pgwhen." are pgwhen''s own'
    ),
    ($$ select pgwhen.emit('', 'U1') $$, 'an event needs an event_type of 1 to 200 characters'),
    ($$ select pgwhen.emit(' ', 'U1') $$, 'an event needs an event_type of 1 to 200 characters'),
    ($$ select pgwhen.emit(null, 'U1') $$, 'an event needs an event_type of 1 to 200 characters'),
    (
        $$ select pgwhen.emit(repeat('x', 201), 'U1') $$,
        'an event needs an event_type of 1 to 200 characters'
    ),
    (
        $$ select pgwhen.emit('attribute_changed', 'U1') $$,
        'attribute_changed is written by the trigger on pgwhen.line_user'
    ),
    (
        $$ select pgwhen.emit('schedule', 'U1') $$,
        'schedule is not an event: schedules make their own rounds'
    ),
    ($$ select pgwhen.emit('ordered', null) $$, 'an event needs a user_id and a line_oa_id'),
    (
        $$ select pgwhen.emit('ordered', 'U1', line_oa_id => null) $$,
        'an event needs a user_id and a line_oa_id'
    ),
    ($$ select pgwhen.emit('ordered', 'U1', '[1]') $$, 'data must be a JSON object, not array'),
    ($$ select pgwhen.emit('ordered', 'U1', 'null') $$, 'data must be a JSON object, not null'),
    (
        $$ select pgwhen.emit('ordered', repeat('x', 201)) $$,
        'a user_id of 201 characters is no id'
    ),
    (
        $$ select pgwhen.emit('ordered', 'U1', at => 'infinity') $$,
        'an event cannot happen at infinity'
    )
) as w (call, message);
select is(
    t.hint_of($$ select pgwhen.emit('attribute_changed', 'U1') $$),
    'Update pgwhen.line_user.attributes; for a time in the past, call pgwhen.event_time(…) first.',
    'the hint says what to do instead'
);
select is_empty('table _pgwhen.outbox', 'what is refused leaves nothing');

-- What JSON and text can hold, an event can.
select lives_ok(
    format('select pgwhen.emit(%L, %L, %L, %L, %L)', n.name, n.name, '{}', n.name, n.name),
    format('takes %s for a name', to_json(left(n.name, 14)))
)
from unnest(array[
    'a "quoted" name', 'it''s', 'a.b.c', '$1 $$ $', '%s %I', 'ลูกค้าทอง', repeat('ก', 100), E'a\nb',
    '*'
]) as n (name);
select is(t.process(), 9, 'which the engine then processes');
select t.a_rule('once', 'long', frequency => 'once', action_type => 'add_to_audience',
    action_config => '{"audience": "a"}');
select pgwhen.emit('long', string_agg(chr(3585 + n * n % 41), '')) from generate_series(1,
    200) as n;
select t.process();
select is(
    (select length(l.user_id) || l.status from pgwhen.trigger_log as l), '200success',
    'takes a user_id of 200 characters all the way'
);

select throws_ok(
    $$ select pgwhen.emit('ordered', 'U1', '{"x": "\u0000"}') $$, '22P05', null,
    'NUL is refused where it is written'
);
select throws_ok(
    $$ select pgwhen.emit('ordered', 'U1', '{"x": "\ud800"}') $$, '22P02', null,
    'and so is half of a surrogate pair'
);
select pgwhen.emit(
    'ordered', 'U1',
    ('{"huge": 1e400, "tiny": 1e-400, "deep": ' || repeat('[', 200) || repeat(']',
        200) || '}')::jsonb
    || jsonb_build_object('long', repeat('x', 10000000))
);
select is(t.process(), 1, 'takes 1e400, 200 levels and 10 MB');
select is(
    (
        select array[length(e.data ->> 'long')::numeric, (e.data -> 'huge')::numeric]
        from pgwhen.event as e where e.data ? 'huge'
    ),
    array[10000000, 1e400], 'and keeps them'
);

select finish();
rollback;
