-- _pgwhen.recompile_rules: compiled rules follow a new version of the compiler.
begin;
select plan(5);

set local client_min_messages = error;

insert into pgwhen.trigger_rule (name, source_type, source_config, action_type, action_config)
values
('good', 'form_submitted', '{"condition": {"user.a": 1}}', 'log_message', '{"text": "hi"}'),
('bad', 'form_submitted', '{"condition": {"user.a": 1}}', 'log_message', '{"text": "hi"}'),
('off', 'form_submitted', '{"condition": {"user.a": 1}}', 'log_message', '{"text": "hi"}');
update pgwhen.trigger_rule set enabled = false where name = 'off';

-- As an older version may have left them.
update _pgwhen.rule set condition_path = '$.older';
set local session_replication_role = replica;
update pgwhen.trigger_rule set frequency = 'hourly' where name in ('bad', 'off');
set local session_replication_role = origin;

select _pgwhen.recompile_rules();
select results_eq(
    $$
    select r.name
    from _pgwhen.rule as c
    inner join pgwhen.trigger_rule as r on c.trigger_rule_id = r.id
    where c.condition_path::text <> '$.older'
    $$,
    $$values ('good')$$, 'compiles the live rules anew'
);
select
    is(
        parked_reason,
        'not valid in this version: frequency: must be one of '
        || btrim(_pgwhen.frequencies()::text, '[]') || ', got "hourly"',
        'parks a rule that this version refuses, with the reason'
    )
from pgwhen.trigger_rule where name = 'bad';
select is(count(*), 1::bigint, 'takes the parked rule out') from _pgwhen.rule;
select is(parked_reason, null, 'leaves a rule alone that was not live')
from pgwhen.trigger_rule where name = 'off';

select c.ctid as place from _pgwhen.rule as c \gset
select _pgwhen.recompile_rules();
select is(c.ctid, :'place', 'writes no row that does not differ') from _pgwhen.rule as c;

select finish();
rollback;
