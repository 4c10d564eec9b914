-- _pgwhen.compiled_delay: a delay as the engine reads it.
begin;
\ir ../helpers.psql
select plan(25);

select is(
    _pgwhen.compiled_delay(c.delay), c.compiled, 'compiles ' || coalesce(c.delay::text, 'null')
)
from (
    values
    (null::jsonb, null::jsonb),
    ('{"seconds": 90.5}', '{"seconds": 90.5}'),
    ('{"delaySeconds": 60}', '{"seconds": 60}'),
    ('{"seconds": 60, "waitForTracking": false}', '{"seconds": 60}'),
    ('{"at": "2030-01-01T09:00:00.123456+07:00"}', '{"at": "2030-01-01T02:00:00.123456Z"}'),
    (
        '{"until": {"field": "event.data.at"}}',
        '{"until": {"field": "event.data.at", "path": "{event,data,at}",
            "months": 0, "days": 0, "seconds": 0}}'
    ),
    (
        '{"until": {"field": "user.trial, \"x\".ends",
            "offset": "-1 year -2 months 3 days -04:30"}}',
        '{"until": {"field": "user.trial, \"x\".ends", "path": "{user,\"trial, \\\"x\\\"\",ends}",
            "months": -14, "days": 3, "seconds": -16200}}'
    ),
    (
        '{"until": {"field": "user.a", "offset": "36 hours"}}',
        '{"until": {"field": "user.a", "path": "{user,a}", "months": 0, "days": 0,
            "seconds": 129600}}'
    ),
    (
        '{"until": {"field": "user.a", "offset": -0.5}}',
        '{"until": {"field": "user.a", "path": "{user,a}", "months": 0, "days": 0,
            "seconds": -0.5}}'
    ),
    (
        '{"waitForTracking": true, "expiresSeconds": 5, "seconds": 6, "delaySeconds": 7}',
        '{"wait": {"expires": 5}}'
    ),
    ('{"waitForTracking": true, "seconds": 6}', '{"wait": {"expires": 6}}'),
    ('{"waitForTracking": true, "delaySeconds": 7}', '{"wait": {"expires": 7}}'),
    (
        '{"waitForTracking": true, "seconds": 6, "tracking": {"link": "quote"}}',
        '{"wait": {"expires": 6, "tracking": {"link": "quote"}}}'
    ),
    (
        '{"waitForTracking": true, "seconds": 6,
            "onExpire": {"actionType": "set_attribute",
                "actionConfig": {"attribute": "a", "value": null}}}',
        '{"wait": {"expires": 6, "onExpire": {"actionType": "set_attribute",
            "actionConfig": {"attribute": "a", "value": null}}}}'
    ),
    (
        '{"waitForTracking": true, "seconds": 6, "after": "send", "onClick": {"actionType": "x"}}',
        '{"wait": {"expires": 6, "after": "send",
            "onClick": {"actionType": "x", "actionConfig": {}}}}'
    ),
    (
        '{"seconds": 6, "reEvaluateConditions": true}',
        '{"seconds": 6, "reEvaluateConditions": true}'
    ),
    ('{"seconds": 6, "reEvaluateConditions": false}', '{"seconds": 6}'),
    ('{"seconds": 6, "whenPending": "skip"}', '{"seconds": 6}'),
    ('{"seconds": 6, "whenPending": "replace"}', '{"seconds": 6, "whenPending": "replace"}'),
    ('{"seconds": 6, "whenPending": "add"}', '{"seconds": 6, "whenPending": "add"}'),
    ('{"seconds": 6, "onRuleDisabled": "cancel"}', '{"seconds": 6}'),
    (
        '{"waitForTracking": true, "seconds": 6, "onRuleDisabled": "keep"}',
        '{"wait": {"expires": 6}, "onRuleDisabled": "keep"}'
    )
) as c (delay, compiled);

-- The same in every session, so that compiling anew changes nothing.
create view t.compiled as
select
    _pgwhen.compiled_delay('{"at": "2030-07-01T09:00:00Z"}') as at,
    _pgwhen.compiled_delay('{"until": {"field": "user.a", "offset": "-1 day 12:00"}}') as until;
create table t.here as table t.compiled;
set local timezone = 'Asia/Bangkok';
set local intervalstyle = 'sql_standard';
set local datestyle = 'SQL, DMY';
select results_eq('table t.compiled', 'table t.here', 'compiles the same in every session');

-- It is what a rule is kept with, its follow-ups known as action types.
select t.a_rule(
    'until', action_config => '{"text": "x", "delay": {"until": {"field": "event.data.at"}}}'
) as rule \gset
select results_eq(
    format(
        'select r.delay, r.action_config from _pgwhen.rule as r where r.trigger_rule_id = %s', :rule
    ),
    $$ select _pgwhen.compiled_delay('{"until": {"field": "event.data.at"}}'),
        '{"text": "x"}'::jsonb $$,
    'is kept with the rule, apart from its config'
);
-- The types of what follows are known and warned of like the rule's own.
alter table pgwhen.trigger_rule disable trigger rule_to_insert;
insert into pgwhen.trigger_rule (
    name, source_type, action_type, action_config, created_date, updated_date, enabled_date
)
select
    'chase', 'x', 'a1', '{"delay": {"waitForTracking": true, "seconds": 5, "after": "send",
        "onExpire": {"actionType": "a2", "actionConfig": {"text": "x"}},
        "onClick": {"actionType": "a3"}}}', _pgwhen.clock(), _pgwhen.clock(), _pgwhen.clock();
select results_eq(
    'select t.name from _pgwhen.action_type as t where t.kind = ''unserved'' order by t.name',
    $$ values ('a1'), ('a2'), ('a3') $$, 'lists the action types of what follows'
);

select finish();
rollback;
