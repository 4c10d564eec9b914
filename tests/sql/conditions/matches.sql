-- pgwhen.matches: a condition and a document, judged as a rule would be.
begin;
\ir ../helpers.psql
select plan(10);

select ok(
    pgwhen.matches(
        condition => '{"user.points": {"$gte": 100}, "event.data.city": "Bangkok"}',
        facts => '{"user": {"points": 100}, "event": {"data": {"city": "Bangkok"}}}'
    ),
    'matches a document of which the condition holds'
);
select ok(
    not pgwhen.matches('{"user.points": {"$gte": 100}}', '{"user": {"points": "100"}}'),
    'matches not where it does not hold'
);
select ok(pgwhen.matches(null, '{}'), 'matches without a condition');
select ok(
    pgwhen.matches('{"$audience": "vip"}', '{}', audiences => '{vip}'),
    'matches a member of an audience'
);
select ok(not pgwhen.matches('{"$audience": "vip"}', '{}'), 'matches no member unless told of one');

select t.it_is('2024-03-31 12:00Z');
select ok(
    pgwhen.matches('{"user.at": {"$eq": {"$now": 0}}}', '{"user": {"at": "2024-03-31T12:00:00Z"}}'),
    'matches as of the clock'
);
select ok(
    pgwhen.matches(
        '{"user.at": {"$eq": {"$now": 0}}}', '{"user": {"at": "2024-02-29"}}',
        as_of => '2024-02-29 00:00Z'
    ),
    'matches as of another moment'
);

select throws_ok(
    $$ select pgwhen.matches('{"user.a": {"$foo": 1}}', '{}') $$,
    'PW102', 'condition["user.a"].$foo: unknown operator $foo',
    'matches refuses a faulty condition'
);
select throws_ok(
    $$ select pgwhen.matches('{}', '[]') $$,
    'PW110', 'facts is an object, not array',
    'matches refuses facts that are no document'
);
select throws_ok(
    $$ select pgwhen.matches('{}', null) $$,
    'PW110', 'facts is an object, not NULL',
    'matches refuses facts that are NULL'
);

select finish();
rollback;
