-- pgwhen.register_action, and the registry that rules fill.
begin;
select plan(26);

create or replace function _pgwhen.clock() returns timestamptz language sql volatile as $$
select current_setting('test.now')::timestamptz;
$$;
select set_config('test.now', '2030-01-01 12:00 UTC', true) as now \gset
set local client_min_messages = error;

create function pg_temp.registered(action_type text)
returns table (kind text, config_schema jsonb, options jsonb, registered_at timestamptz)
language sql as $$
select t.kind, t.config_schema, t.options, t.registered_at
from _pgwhen.action_type as t where t.name = action_type;
$$;
create function pg_temp.a_rule(rule_name text, action_type text, action_config jsonb) returns text
language sql as $$
select format(
    'insert into pgwhen.trigger_rule (name, source_type, action_type, action_config) '
    'values (%L, ''form_submitted'', %L, %L)',
    rule_name, action_type, action_config
);
$$;

-- What rules bring ------------------------------------------------------------------------

select lives_ok(
    pg_temp.a_rule('early', 'send_sms', '{"txt": 1}'), 'a rule may use a type that nobody serves'
);
select results_eq(
    $$select kind from pg_temp.registered('send_sms')$$, $$values ('unserved')$$,
    'a type that nobody serves is listed as such'
);
insert into pgwhen.trigger_rule (name, source_type, action_type)
values ('two', 'form_submitted', 'send_fax'), ('three', 'form_submitted', 'send_fax');
update pgwhen.trigger_rule set action_type = 'send_wire' where name = 'two';
select results_eq(
    $$select name from _pgwhen.action_type where kind = 'unserved' order by name$$,
    $$values ('send_fax'), ('send_sms'), ('send_wire')$$,
    'each is listed once, also one that an update brings'
);

-- What is registered ----------------------------------------------------------------------

select lives_ok(
    $$
    select pgwhen.register_action(
        'send_sms', '{"type": "object", "required": ["text"]}', '{"batch": 100}'
    )
    $$,
    'registers a type that rules already use'
);
select results_eq(
    $$select * from pg_temp.registered('send_sms')$$,
    $$
    values (
        'python', '{"type": "object", "required": ["text"]}'::jsonb, '{"batch": 100}'::jsonb,
        '2030-01-01 12:00 UTC'::timestamptz
    )
    $$,
    'keeps kind, schema and options'
);
select throws_ok(
    pg_temp.a_rule('late', 'send_sms', '{"txt": 1}'),
    'PW003', 'action_config.text: is required', 'has configs checked from now on'
);
select lives_ok(
    pg_temp.a_rule('late', 'send_sms', '{"text": "hi", "delay": {"seconds": 5}}'),
    'hides the delay from the schema'
);
select isnt_empty(
    $$
    select from _pgwhen.rule as c
    inner join pgwhen.trigger_rule as r on c.trigger_rule_id = r.id
    where r.name = 'early'
    $$,
    'lets rules live on that do not satisfy the schema'
);

select set_config('test.now', '2030-01-01 13:00 UTC', true) as now \gset
select lives_ok(
    $$
    select pgwhen.register_action(
        config_schema => '{"required": ["text"], "type": "object"}', name => 'send_sms',
        options => '{"batch": 100}'
    )
    $$,
    'may be called again'
);
select results_eq(
    $$select registered_at from pg_temp.registered('send_sms')$$,
    $$values ('2030-01-01 12:00 UTC'::timestamptz)$$,
    'writes nothing where nothing differs'
);
select pgwhen.register_action('send_sms');
select results_eq(
    $$select * from pg_temp.registered('send_sms')$$,
    $$values ('python', null::jsonb, '{}'::jsonb, '2030-01-01 13:00 UTC'::timestamptz)$$,
    'replaces what differs: without a schema any config will do'
);
select lives_ok(pg_temp.a_rule('any', 'send_sms', '{"x": 1}'), 'checks nothing without a schema');

-- What it leaves alone --------------------------------------------------------------------

select pgwhen.register_action('log_message', '{"type": "null"}', '{"x": 1}');
select results_eq(
    $$select kind, config_schema, options from pg_temp.registered('log_message')$$,
    $$select 'python', _pgwhen.builtin_schemas() -> 'log_message', '{}'::jsonb$$,
    'leaves a built-in type as it is'
);
select throws_ok(
    $$select pgwhen.register_action('add_to_audience')$$,
    'PW011', 'the action type "add_to_audience" is served by a SQL function',
    'refuses the name of a SQL action'
);
select results_eq(
    $$
    select t.name, t.kind, t.fn_schema, t.fn_name, t.batch
    from _pgwhen.action_type as t where t.builtin order by t.name
    $$,
    $$
    values
        ('add_to_audience', 'sql', '_pgwhen', 'add_to_audience', true),
        ('emit_event', 'sql', '_pgwhen', 'emit_event', true),
        ('log_message', 'python', null, null, false),
        ('remove_from_audience', 'sql', '_pgwhen', 'remove_from_audience', true),
        ('set_attribute', 'sql', '_pgwhen', 'set_attribute', true)
    $$,
    'five types are built in'
);

-- What it refuses -------------------------------------------------------------------------

select
    throws_ok(
        format('select pgwhen.register_action(%L)', bad.name), 'PW010', null, bad.title
    )
from (
    values
    ('', 'refuses an empty name'), (E' \t', 'refuses a blank name'), (null, 'refuses no name'),
    (repeat('x', 201), 'refuses a name of 201 characters')
) as bad (name, title);
select
    lives_ok(
        format('select pgwhen.register_action(%L)', good.name), 'takes the name ' || good.name
    )
from (values ('it''s "quoted"; $x.y'), ('ส่งข้อความ')) as good (name);
select throws_ok(
    $$select pgwhen.register_action('x', '{"properties": {"a": {"oneOf": []}}}')$$,
    'PW012', 'config_schema.properties.a.oneOf: is not a key that is known here',
    'refuses a schema that it would not check whole'
);
select throws_ok(
    $$select pgwhen.register_action('x', options => '[]')$$,
    'PW014', 'options must be an object, got []', 'refuses options that are no object'
);
select throws_ok(
    $$select pgwhen.register_action('x', options => null)$$,
    'PW014', 'options must be an object, got nothing', 'refuses options that are null'
);
select throws_ok(
    $$select pgwhen.register_action('x', options => '{"send": "yes"}')$$,
    'PW014', 'options.send must be true or false, got "yes"', 'refuses a send that is no boolean'
);
select is_empty($$select from pg_temp.registered('x')$$, 'registers nothing that it refuses');

select finish();
rollback;
