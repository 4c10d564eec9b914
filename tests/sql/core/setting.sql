-- pgwhen.setting and _pgwhen.setting: a row that is missing means the default.
begin;
\ir ../helpers.psql
select plan(41);

select is(_pgwhen.setting('maxRetries'), '3', 'is the default where there is no row');
insert into pgwhen.setting (name, value) values ('maxRetries', '5');
select is(_pgwhen.setting('maxRetries'), '5', 'is the row where there is one');
update pgwhen.setting set value = '0' where name = 'maxRetries';
select is(_pgwhen.setting('maxRetries'), '0', 'follows the row');
delete from pgwhen.setting;
select is(_pgwhen.setting('maxRetries'), '3', 'is the default again when the row is gone');

select is(
    array[
        _pgwhen.setting('batchSize'), _pgwhen.setting('maxRetries'),
        _pgwhen.setting('staleProcessingMinute')
    ],
    array['500', '3', '5']::jsonb[], 'defaults to what people know'
);

prepare a_setting as insert into pgwhen.setting (name, value) values ($1, $2);

select throws_ok(
    $$ execute a_setting('batchsize', '5') $$, 'PW201', 'there is no setting "batchsize"',
    'a name that no function reads is refused'
);
select alike(
    t.hint_of($$ execute a_setting('batchsize', '5') $$), 'The settings are: %batchSize, %',
    'the hint lists the names'
);
select throws_ok(
    format('execute a_setting(%L, %L)', b.name, b.value), 'PW201',
    format('setting "%s" cannot be %s', b.name, b.value),
    format('%s = %s is refused', b.name, b.value)
)
from (values
    ('batchSize', '0'),
    ('batchSize', '10001'),
    ('batchSize', '"many"'),
    ('batchSize', 'null'),
    ('maxRetries', '-1'),
    ('eventRetention', '"a while"'),
    ('eventRetention', '"-1 day"'),
    ('eventRetention', '[]'),
    ('staleProcessingMinute', '{}'),
    ('staleProcessingMinute', '0'),
    ('staleProcessingMinute', '1000000'),
    ('loopGuardPerMinute', '0'),
    ('maxRetries', '2.5'),
    ('retrySeconds', '31536001'),
    ('eventRetention', '"1000 years"'),
    ('resultLimit', '0'),
    ('resultLimit', '1.5'),
    ('resultLimit', '2097153'),
    ('effectRetention', '"23 hours"'),
    ('effectRetention', '"for ever"'),
    ('effectRetention', '[]')
) as b (name, value);
select is(
    t.hint_of($$ execute a_setting('eventRetention', '[]') $$),
    'Write something like its default, "7 days".', 'the hint shows the default'
);
select is(
    t.hint_of($$ execute a_setting('effectRetention', '0') $$),
    'Write a day at least, "400 days", or null for ever.', 'of effects, what null means'
);
select lives_ok(
    format('execute a_setting(%L, %L)', g.name, g.value),
    format('%s = %s is accepted', g.name, g.value)
)
from (values
    ('batchSize', '10000'),
    ('resultLimit', '2097152'),
    ('maxRetries', '0'),
    ('eventRetention', '0'),
    ('logRetention', '"1 year"'),
    ('effectRetention', '"1 day"')
) as g (name, value);

select lives_ok(
    $$ update pgwhen.setting set value = 'null' where name = 'effectRetention' $$,
    'effectRetention = null is accepted'
);
select throws_ok(
    $$ update pgwhen.setting set value = 'null' where name = 'eventRetention' $$, 'PW201', null,
    'of no other retention'
);
select throws_ok(
    $$ update pgwhen.setting set value = '-1' where name = 'batchSize' $$, 'PW201', null,
    'an update is checked too'
);
select is(_pgwhen.span('1.5'), interval '1.5 seconds', 'a span is a number of seconds');
select is(_pgwhen.span('"2 days"'), interval '2 days', 'or interval text');

select finish();
rollback;
