-- _pgwhen.secret_faults: {"$secret": "name"} in an action_config, well said or not.
begin;
\ir ../helpers.psql
select plan(40);

select pgwhen.register_action('send');
create function t.faults(config jsonb, action_type text default 'send')
returns text[] language sql as $$
select array(
    select f.code || ' ' || f.path || ': ' || f.message
    from unnest(_pgwhen.config_faults(faults.action_type, faults.config, 'c')) as f
    where f.hint <> ''
);
$$;

select is(t.faults(good.config), '{}', 'takes ' || left(good.config::text, 60))
from (values
    ('{}'::jsonb),
    ('{"token": {"$secret": "line-token"}}'),
    ('{"a": [{"b": {"$secret": "x"}}, {"$secret": "_9.a-b"}]}'),
    ('{"text": "$secret", "list": ["$secret"]}'),
    ('{"$Secret": 5, "secret": {}}'),
    (jsonb_build_object('token', jsonb_build_object('$secret', repeat('n', 200))))
) as good (config);

select is(t.faults(bad.config), array['PW003 c' || bad.fault], 'refuses ' || bad.config::text)
from (values
    ('{"$secret": "x"}'::jsonb, ': cannot be a secret as a whole'),
    ('{"token": {"$secret": 5}}', '.token: names a secret by a number'),
    ('{"token": {"$secret": null}}', '.token: names a secret by null'),
    ('{"token": {"$secret": ["x"]}}', '.token: names a secret by an array'),
    ('{"token": {"$secret": {"$secret": 5}}}', '.token: names a secret by an object'),
    ('{"token": {"$secret": "x", "or": "y"}}', '.token: has keys beside "$secret"'),
    ('{"token": {"$secret": ""}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": "../x"}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": ".x"}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": "-x"}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": "a/b"}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": "a b"}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": "x\n"}}', '.token: names a secret as none can be named'),
    ('{"token": {"$secret": "ชื่อ"}}', '.token: names a secret as none can be named'),
    ('{"a": [1, {"b": [{"$secret": true}]}]}', '.a[1].b[0]: names a secret by a boolean')
) as bad (config, fault);
select is(
    t.faults(jsonb_build_object('token', jsonb_build_object('$secret', repeat('n', 201)))),
    array['PW003 c.token: names a secret as none can be named'], 'refuses a long name'
);
select is(
    t.faults('{"z": {"$secret": 1}, "a": {"$secret": 2}, "m": {"$secret": "good"}}'),
    array['PW003 c.a: names a secret by a number', 'PW003 c.z: names a secret by a number'],
    'tells all that is wrong'
);
select unalike(
    (
        select string_agg(concat(f.path, f.message, f.hint), ' ')
        from unnest(
            _pgwhen.secret_faults('send', '{"token": {"$secret": "Bearer s3cr3t=="}}', 'c')
        ) as f
    ),
    '%s3cr3t%', 'never repeats what stands there: it may be the secret itself'
);

-- Deep, and many ------------------------------------------------------------------------------

create function t.nested(levels integer, leaf text) returns jsonb language sql as $$
select (
    repeat('{"a": ', nested.levels) || nested.leaf || repeat('}', nested.levels)
)::jsonb;
$$;
select is(t.faults(t.nested(49, '{"$secret": "x"}')), '{}', 'looks 50 levels deep');
select is(
    cardinality(t.faults(t.nested(49, '{"$secret": 5}'))), 1, 'and finds what is wrong there'
);
select alike(
    (t.faults(t.nested(50, '{"$secret": "x"}')))[1], '%: holds a secret deeper than 50 levels',
    'but no deeper'
);
select is(t.faults(t.nested(200, '"x"')), '{}', 'where nothing has secrets, any depth is right');
select is(
    cardinality(t.faults((
        select jsonb_build_object('a', jsonb_agg('{"$secret": 5}'::jsonb))
        from generate_series(1, 300)
    ))),
    100, 'tells no more faults than anybody reads'
);

-- Whom a secret can be given ------------------------------------------------------------------

create function t.echo(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb language sql as 'select config';
select pgwhen.register_sql_action('echo', 't.echo(text, text, jsonb, jsonb)');
select alike(
    (t.faults('{"a": {"$secret": "x"}}', 'echo'))[1], 'PW003 c: cannot hold a secret: a SQL %',
    'refuses it of a SQL action'
);
select is(
    t.faults('{"audience": {"$secret": "x"}}', 'add_to_audience'),
    array['PW003 c: cannot hold a secret: a SQL function serves this type, '
        'and only the listener knows secrets'],
    'and of a built-in one, once'
);
select is(
    t.faults('{"text": {"$secret": "x"}}', 'log_message'), '{}', 'not of the listener''s own'
);
select is(t.faults('{"a": {"$secret": "x"}}', 'nobody''s'), '{}', 'nor where nobody serves it yet');

-- Where it can stand --------------------------------------------------------------------------

select throws_ok(
    $$ select t.a_rule('r', action_type => 'send', action_config => '{"a": {"$secret": 5}}') $$,
    'PW003', 'action_config.a: names a secret by a number', 'a rule is checked'
);
select throws_ok(
    $$ select t.a_waiting_rule('w', '{"onExpire": {"actionType": "send",
        "actionConfig": {"a": {"$secret": 5}}}}') $$,
    'PW003', 'action_config.delay.onExpire.actionConfig.a: names a secret by a number',
    'what follows a wait is'
);
select throws_ok(
    $$ select pgwhen.schedule_action('send', 'U1', '{"a": {"$secret": 5}}') $$,
    'PW003', 'action_config.a: names a secret by a number', 'an action without a rule is'
);
select t.an_action(action_type => 'send') as action \gset
select throws_ok(
    format(
        $$
        update pgwhen.scheduled_action set action_config = '{"a": {"$secret": 5}}' where id = %s
        $$, :action
    ),
    'PW003', 'action_config.a: names a secret by a number', 'and so is one changed by hand'
);
select throws_ok(
    $$ select t.a_rule('p', action_type => 'send',
        action_config => '{"retryPolicy": {"nonRetryableErrorTypes": [{"$secret": "x"}]}}') $$,
    'PW006', null, 'what pgwhen itself reads is no place for one'
);

-- Unresolved in all rows ----------------------------------------------------------------------

select t.a_rule('s', action_type => 'send', action_config => '{"token": {"$secret": "line-token"}}')
as rule \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select is(
    (select a.action_config from pgwhen.scheduled_action as a where a.trigger_rule_id = :rule),
    '{"token": {"$secret": "line-token"}}', 'an action keeps it as it was written'
);
select is(
    (
        select c.action_config from pgwhen.claim_actions('w-1', action_types => '{send}') as c
        where c.rule = :rule
    ),
    '{"token": {"$secret": "line-token"}}', 'and so is it claimed'
);

select finish();
rollback;
