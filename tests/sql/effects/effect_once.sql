-- pgwhen.effect_once: true for the first, in the transaction that makes the effect.
begin;
\ir ../helpers.psql
select plan(25);

select ok(pgwhen.effect_once('T-1', 'credit'), 'is true the first time');
select ok(not pgwhen.effect_once('T-1', 'credit'), 'is false the second time');
select ok(not pgwhen.effect_once(kind => 'credit', key => 'T-1'), 'and for good, by name too');
select ok(pgwhen.effect_once('T-2', 'credit'), 'knows keys apart');
select ok(pgwhen.effect_once('T-1', 'receipt'), 'knows kinds apart');
select ok(pgwhen.effect_once('T-1'), 'has a kind of its own for whoever names none');
select ok(not pgwhen.effect_once('T-1', 'default'), 'whose name is default');
select ok(pgwhen.effect_once('t-1', 'credit'), 'takes a key as it is written');
select results_eq(
    $$
    select pgwhen.effect_once(k.key, 'many') from unnest(array['a', 'b', 'a', 'c', 'b']) as k (key)
    $$,
    array[true, true, false, true, false],
    'answers each row of a statement'
);

-- What is rolled back has not happened --------------------------------------------------------

savepoint a_savepoint;
select ok(pgwhen.effect_once('T-3', 'credit'), 'is true in a savepoint');
rollback to a_savepoint;
select ok(pgwhen.effect_once('T-3', 'credit'), 'and again, when that was rolled back');

-- A SQL action makes its effect in the transaction that settles it ----------------------------

create table t.ledger (transaction_id text, entry_type text, amount bigint);
create function t.credit(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as $$
insert into t.ledger (transaction_id, entry_type, amount)
select config ->> 'id', 'credit', (config -> 'satang')::bigint
where pgwhen.effect_once(config ->> 'id', 'credit')
returning to_jsonb(amount);
$$;
select pgwhen.register_sql_action('credit', 't.credit(text, text, jsonb, jsonb)');
select pgwhen.schedule_actions(
    'credit', array['U1', 'U2', 'U1'], array_fill('{"id": "T-4", "satang": 500}'::jsonb, array[3])
);
select pgwhen.tick();
select results_eq(
    'table t.ledger', $$ values ('T-4', 'credit', 500::bigint) $$,
    'lets one of three SQL actions do it'
);
select is(
    (select count(*) from pgwhen.trigger_log as l where l.status = 'success'), 3::bigint,
    'and all three succeed'
);

-- Refused -------------------------------------------------------------------------------------

select throws_ok(
    format('select pgwhen.effect_once(%L, %L)', b.key, b.kind), 'PW211', b.message,
    format('refuses %s', b.title)
)
from (values
    (null, 'credit', 'key: needs 1 to 200 characters, got NULL', 'no key'),
    ('', 'credit', 'key: needs 1 to 200 characters, got 0', 'an empty key'),
    (repeat('ก', 201), 'credit', 'key: needs 1 to 200 characters, got 201', 'a long key'),
    ('T-5', null, 'kind: needs 1 to 200 characters, got NULL', 'no kind'),
    ('T-5', repeat('k', 201), 'kind: needs 1 to 200 characters, got 201', 'a long kind')
) as b (key, kind, message, title);
select ok(
    pgwhen.effect_once(repeat('ก', 200), repeat('😀', 200)), 'takes the longest in any script'
);
select alike(
    t.hint_of($$ select pgwhen.effect_once(null) $$), 'Pass the id of what must not happen twice%',
    'says what a key is'
);
select alike(
    t.hint_of($$ select pgwhen.effect_once('T-5', '') $$), 'Name the effect in a word%',
    'says what a kind is'
);

-- Forgotten, or not ---------------------------------------------------------------------------

delete from _pgwhen.effect;
select t.it_is('2030-07-01 12:00:00.2+00');
select pgwhen.effect_once('third');
select t.it_is('2030-07-01 12:00:00+00');
select pgwhen.effect_once('first');
select t.it_is('2030-07-01 12:00:00.1+00');
select pgwhen.effect_once('second');
select t.it_is('2090-07-01 12:00+00');
select pgwhen.maintain();
select is((select count(*) from _pgwhen.effect), 3::bigint, 'is kept for ever by default');

insert into pgwhen.setting (name, value) values ('effectRetention', '"60 years"');
select is(
    pgwhen.maintain() ->> 'effectsDeleted', '0', 'to the last moment of effectRetention'
);
select t.it_is('2090-07-01 12:00:01+00');
select pgwhen.effect_once('new');
select is(pgwhen.maintain(2) ->> 'effectsDeleted', '2', 'then goes, no more than asked at a time');
select bag_eq(
    'select e.key from _pgwhen.effect as e', array['third', 'new'], 'and the oldest first'
);

select finish();
rollback;
