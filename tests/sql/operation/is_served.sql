-- _pgwhen.is_served: whether anybody does what a rule asks for.
begin;
\ir ../helpers.psql
select plan(4);

select t.it_is('2030-01-07 12:00+00');
create function t.fn(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$ select '{}'::jsonb $$;

select t.a_rule('r', action_type => 'mine', action_config => '{}');
select is(_pgwhen.is_served('mine'), false, 'is false where a rule names what nobody serves');
select pgwhen.register_action('mine');
select is(_pgwhen.is_served('mine'), false, 'nor does a declaration serve it');
select pgwhen.register_sql_action('mine', 't.fn(text, text, jsonb, jsonb)');
select is(_pgwhen.is_served('mine'), true, 'is true where a SQL function serves it');
select is(_pgwhen.is_served(null), false, 'is false for nothing');

select finish();
rollback;
