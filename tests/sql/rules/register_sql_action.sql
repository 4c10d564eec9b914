-- pgwhen.register_sql_action: which functions it binds, and which not.
begin;
select plan(27);

set local client_min_messages = error;

create schema "my shop";
create function "my shop"."give Points"(
    text, text, jsonb, jsonb
) returns jsonb language sql as 'select $3';
create function "my shop".many(
    text[], text[], jsonb[], jsonb[]
) returns jsonb[] language sql as 'select $3';
create function "my shop".three(text, text, jsonb) returns jsonb language sql as 'select $3';
create function "my shop".other(text, text, json, jsonb) returns jsonb language sql as 'select $4';
create function "my shop".as_text(
    text, text, jsonb, jsonb
) returns text language sql as 'select $1';
create function "my shop".rows(
    text, text, jsonb, jsonb
) returns setof jsonb language sql as 'select $3';
create procedure "my shop".call_me(text, text, jsonb, jsonb) language sql as '';
create function pg_temp.gone(text, text, jsonb, jsonb) returns jsonb language sql as 'select $3';

create function pg_temp.bound(action_type text)
returns table (kind text, fn_schema text, fn_name text, batch boolean, config_schema jsonb)
language sql as $$
select t.kind, t.fn_schema, t.fn_name, t.batch, t.config_schema
from _pgwhen.action_type as t where t.name = action_type;
$$;

-- What it binds ---------------------------------------------------------------------------

select lives_ok(
    $$
    select pgwhen.register_sql_action(
        'give_points', '"my shop"."give Points"(text, text, jsonb, jsonb)',
        config_schema => '{"required": ["points"]}'
    )
    $$,
    'binds a function'
);
select results_eq(
    $$select * from pg_temp.bound('give_points')$$,
    $$values ('sql', 'my shop', 'give Points', false, '{"required": ["points"]}'::jsonb)$$,
    'keeps it by its bare schema and name'
);
select lives_ok(
    $$
    select pgwhen.register_sql_action(
        name => 'many', fn => '"my shop".many(text[], text[], jsonb[], jsonb[])', batch => true
    )
    $$,
    'binds a function of batches'
);
select results_eq(
    $$select fn_name, batch from pg_temp.bound('many')$$, $$values ('many', true)$$,
    'keeps that it takes batches'
);
select throws_ok(
    $$
    insert into pgwhen.trigger_rule (name, source_type, action_type)
    values ('r', 'form_submitted', 'give_points')
    $$,
    'PW003', 'action_config.points: is required', 'has configs checked from now on'
);

update _pgwhen.action_type set registered_at = '2000-01-01' where name = 'give_points';
select pgwhen.register_sql_action(
    'give_points',
    '"my shop"."give Points"(text, text, jsonb, jsonb)',
    false,
    '{"required": ["points"]}'
);
select is(registered_at, '2000-01-01', 'writes nothing where nothing differs')
from _pgwhen.action_type where name = 'give_points';
select pgwhen.register_sql_action(
    'give_points', '"my shop".many(text[], text[], jsonb[], jsonb[])', true
);
select results_eq(
    $$select fn_name, batch, config_schema is null from pg_temp.bound('give_points')$$,
    $$values ('many', true, true)$$, 'replaces what differs'
);

insert into pgwhen.trigger_rule (name, source_type, action_type) values (
    'early', 'form_submitted', 'unserved'
);
select pgwhen.register_sql_action('unserved', '"my shop"."give Points"(text, text, jsonb, jsonb)');
select results_eq(
    $$select kind from pg_temp.bound('unserved')$$,
    $$values ('sql')$$,
    'serves a type that waited for it'
);
select pgwhen.register_action('was_python', '{"type": "object"}', '{"batch": 5}');
select
    pgwhen.register_sql_action('was_python', '"my shop"."give Points"(text, text, jsonb, jsonb)');
select results_eq(
    $$
    select kind, config_schema is null, options
    from _pgwhen.action_type
    where name = 'was_python'
    $$,
    $$values ('sql', true, '{}'::jsonb)$$,
    'takes over what a handler served, and nothing of its options'
);
select throws_ok(
    $$select pgwhen.register_action('was_python')$$,
    'PW011',
    null,
    'does not let the handler take it back'
);

-- What it refuses -------------------------------------------------------------------------

select
    throws_ok(
        format('select pgwhen.register_sql_action(''x'', %L, %L)', bad.fn, bad.batch),
        'PW013',
        null,
        'refuses a function that ' || bad.what
    )
from (
    values
    ('"my shop".three(text, text, jsonb)', false, 'takes fewer arguments'),
    ('"my shop".other(text, text, json, jsonb)', false, 'takes others'),
    ('"my shop".as_text(text, text, jsonb, jsonb)', false, 'returns another type'),
    ('"my shop".rows(text, text, jsonb, jsonb)', false, 'returns a set'),
    ('"my shop".call_me(text, text, jsonb, jsonb)', false, 'is a procedure'),
    (
        '"my shop".many(text[], text[], jsonb[], jsonb[])',
        false,
        'takes batches, unless batch is said'
    ),
    ('"my shop"."give Points"(text, text, jsonb, jsonb)', true, 'takes one, where batch is said'),
    ('pg_temp.gone(text, text, jsonb, jsonb)', false, 'is temporary'),
    (null, false, 'is null'),
    ('4294967295', false, 'does not exist')
) as bad (fn, batch, what);
select throws_ok(
    $$
    select pgwhen.register_sql_action(
        'add_to_audience', '"my shop"."give Points"(text, text, jsonb, jsonb)'
    )
    $$,
    'PW011', 'the action type "add_to_audience" is built in', 'refuses a built-in SQL name'
);
select throws_ok(
    $$
    select pgwhen.register_sql_action(
        'log_message', '"my shop"."give Points"(text, text, jsonb, jsonb)'
    )
    $$,
    'PW011', null, 'refuses a built-in Python name'
);
select throws_ok(
    $$select pgwhen.register_sql_action('', '"my shop"."give Points"(text, text, jsonb, jsonb)')$$,
    'PW010', null, 'refuses an empty name'
);
select throws_ok(
    $$
    select pgwhen.register_sql_action(
        'x', '"my shop"."give Points"(text, text, jsonb, jsonb)', config_schema => '{"if": {}}'
    )
    $$,
    'PW012', null, 'refuses a schema that it would not check whole'
);
select results_eq(
    $$select fn_name from pg_temp.bound('add_to_audience')$$, $$values ('add_to_audience')$$,
    'leaves a built-in type as it is'
);
select is_empty($$select from pg_temp.bound('x')$$, 'binds nothing that it refuses');
drop function "my shop"."give Points"(text, text, jsonb, jsonb);
select results_eq(
    $$select fn_name from pg_temp.bound('unserved')$$, $$values ('give Points')$$,
    'does not stand in the way of a function that goes'
);

select finish();
rollback;
