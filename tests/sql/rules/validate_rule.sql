-- pgwhen.validate_rule: every fault of a rule, whatever it is given.
begin;
select plan(69);

create function pg_temp.faults(rule jsonb) returns text[] language sql as $$
select array(
    select concat_ws(' ', f.code, nullif(f.path, ''))
    from pgwhen.validate_rule(rule) as f
    order by f.path collate "C", f.code
);
$$;
-- A good rule with some columns replaced.
create function pg_temp.a_rule(columns jsonb) returns jsonb language sql as $$
select '{"name": "a rule", "source_type": "form_submitted", "action_type": "log_message",
    "action_config": {"text": "hi"}}'::jsonb || columns;
$$;
create function pg_temp.delay(delay jsonb) returns jsonb language sql as $$
select pg_temp.a_rule(
    jsonb_build_object('action_config', jsonb_build_object('text', 'hi', 'delay', delay))
);
$$;

-- Good rules ------------------------------------------------------------------------------

select
    is_empty(
        format('select * from pgwhen.validate_rule(%L)', pg_temp.a_rule(good.columns)),
        good.title
    )
from (
    values
    ('{}'::jsonb, 'finds no fault in a good rule'),
    (
        '{"action_type": "nobody_serves_this", "action_config": {"x": 1}}',
        'takes a type that nobody serves'
    ),
    ('{"source_type": "order_paid", "source_config": {"key": "k"}}', 'takes an event of any name'),
    ('{"cooldown_seconds": 315360000}', 'takes a cooldown of ten years'),
    ('{"workflow_id": 5, "workflow_node_path": ["a", "clicked"]}', 'takes a place in a workflow'),
    ('{"workflow_id": null, "workflow_node_path": null}', 'takes none'),
    ('{"source_config": {"condition": {}}}', 'takes a condition that asks for nothing'),
    ('{"source_config": {"log": "all"}}', 'takes log: all')
) as good (columns, title);

select
    is_empty(
        format('select * from pgwhen.validate_rule(%L)', pg_temp.delay(d.delay)),
        'takes the delay ' || d.delay::text
    )
from (
    values
    ('{"seconds": 0}'::jsonb), ('{"seconds": 0.5}'), ('{"seconds": 315360000}'),
    ('{"at": "2030-01-01T09:00:00+07:00"}'), ('{"at": "2030-01-01 09:00Z"}'),
    ('{"at": "2030-01-01T09:00:00.123456-0330"}'), ('{"at": "2028-02-29T00:00Z"}'),
    ('{"until": {"field": "event.data.at", "offset": "-1 day"}}')
) as d (delay);

insert into pgwhen.trigger_rule (name, source_type, action_type, action_config)
values ('stands', 'form_submitted', 'log_message', '{"text": "hi"}');
select
    is_empty(
        format('select * from pgwhen.validate_rule(%L)', to_jsonb(r)),
        'finds no fault in a row that stands'
    )
from pgwhen.trigger_rule as r where r.name = 'stands';
select
    is(
        pg_temp.faults(pg_temp.a_rule('{"name": "stands"}')),
        '{23505 name}',
        'tells that a name is taken'
    );
select is(
    pg_temp.faults(pg_temp.a_rule('{"name": "stands", "line_oa_id": "other"}')), '{}',
    'lets another account have the name'
);

-- Columns ---------------------------------------------------------------------------------

select
    is(
        pg_temp.faults(pg_temp.a_rule(bad.columns)),
        bad.faults,
        'finds ' || left(bad.columns::text, 60)
    )
from (
    values
    ('{"name": ""}'::jsonb, '{PW001 name}'::text[]),
    ('{"name": " \t\n "}', '{PW001 name}'),
    ('{"name": null}', '{PW001 name}'),
    ('{"name": 7}', '{PW001 name}'),
    (jsonb_build_object('name', repeat('x', 201)), '{PW001 name}'),
    ('{"source_type": ""}', '{PW001 source_type}'),
    ('{"source_type": {"a": 1}}', '{PW001 source_type}'),
    ('{"source_type": "schedule", "source_config": {"cron": "* * * * *"}}', '{PW005 source_type}'),
    ('{"source_type": "pgwhen.wait_opened"}', '{PW001 source_type}'),
    ('{"source_config": []}', '{PW001 source_config}'),
    ('{"source_config": null}', '{PW001 source_config}'),
    ('{"action_type": " "}', '{PW001 action_type}'),
    ('{"action_config": "text"}', '{PW001 action_config}'),
    ('{"frequency": "hourly"}', '{PW001 frequency}'),
    ('{"cooldown_seconds": -1}', '{PW001 cooldown_seconds}'),
    ('{"cooldown_seconds": 1.5}', '{PW001 cooldown_seconds}'),
    ('{"cooldown_seconds": 1e400}', '{PW001 cooldown_seconds}'),
    ('{"enabled": "yes"}', '{PW001 enabled}'),
    ('{"workflow_id": 0}', '{PW001 workflow_id}'),
    ('{"workflow_node_path": ["a", ""]}', '{PW001 workflow_node_path[1]}'),
    ('{"line_oa_id": ""}', '{PW001 line_oa_id}'),
    ('{"freqency": "once"}', '{PW001 freqency}'),
    ('{"source_config": {"logs": "all"}}', '{PW002 source_config.logs}'),
    ('{"source_config": {"log": true}}', '{PW002 source_config.log}'),
    ('{"source_config": {"condition": []}}', '{PW002 source_config.condition}'),
    ('{"source_config": {"condition": {"$near": 1}}}', '{PW102 source_config.condition.$near}'),
    ('{"action_config": {}}', '{PW003 action_config.text}'),
    ('{"action_config": {"text": "hi", "txt": "hi"}}', '{PW003 action_config.txt}'),
    (
        jsonb_build_object('source_config', jsonb_build_object('x', repeat('x', 1048577))),
        '{PW002 source_config}'
    ),
    (
        jsonb_build_object('action_config', jsonb_build_object('text', repeat('x', 1048577))),
        '{PW003 action_config}'
    ),
    (
        '{"name": "", "frequency": "x", "source_config": {"formId": 1}, "action_config": {}}',
        '{PW003 action_config.text,PW001 frequency,PW001 name,PW002 source_config.formId}'
    )
) as bad (columns, faults);

-- Delays ----------------------------------------------------------------------------------

select
    is(pg_temp.faults(pg_temp.delay(bad.delay)), bad.faults, 'finds the delay ' || bad.delay::text)
from (
    values
    ('{}'::jsonb, '{PW004 action_config.delay}'::text[]),
    ('60', '{PW004 action_config.delay}'),
    ('{"seconds": -1}', '{PW004 action_config.delay.seconds}'),
    ('{"seconds": "60"}', '{PW004 action_config.delay.seconds}'),
    ('{"seconds": 1, "at": "2030-01-01T09:00:00Z"}', '{PW004 action_config.delay}'),
    ('{"second": 1}', '{PW004 action_config.delay.second}'),
    ('{"at": "2030-01-01T09:00:00"}', '{PW004 action_config.delay.at}'),
    ('{"at": "tomorrow"}', '{PW004 action_config.delay.at}'),
    ('{"at": "infinity"}', '{PW004 action_config.delay.at}'),
    ('{"at": "2030-02-30T09:00:00Z"}', '{PW004 action_config.delay.at}'),
    ('{"until": {"field": "at"}}', '{PW004 action_config.delay.until.field}'),
    (
        '{"seconds": 1, "tracking": {"link": "a"}}',
        '{PW004 action_config.delay.tracking}'
    ),
    (
        '{"waitForTracking": true, "whenPending": "skip"}',
        '{PW004 action_config.delay.expiresSeconds}'
    )
) as bad (delay, faults);

-- Anything --------------------------------------------------------------------------------

select
    is(
        pg_temp.faults(odd.rule),
        '{PW001}',
        'finds that a rule is no object: ' || coalesce(odd.rule::text, 'null')
    )
from (values ('[]'::jsonb), ('"x"'), ('null'), (null)) as odd (rule);

select is(
    pg_temp.faults('{}'),
    '{PW001 action_type,PW001 name,PW001 source_type}',
    'finds what is missing'
);

-- Every value, of every kind, in every place.
select lives_ok(
    $$
    select count(pg_temp.faults(
        jsonb_set(
            pg_temp.a_rule('{"source_type": "attribute_changed",
                "source_config": {"attribute": "a", "from": 1, "to": [1], "crosses": {"up": 1},
                    "condition": {"user.a": {"$gt": 1}}, "log": "all"},
                "action_config": {"text": "hi", "delay": {"seconds": 1, "at": "2030-01-01Z"}}}'),
            p.path, v.value
        )
    ))
    from (values
        ('{name}'::text[]), ('{source_type}'), ('{source_config}'), ('{source_config,attribute}'),
        ('{source_config,from}'), ('{source_config,to,0}'), ('{source_config,crosses}'),
        ('{source_config,crosses,up}'), ('{source_config,condition}'),
        ('{source_config,condition,user.a}'), ('{source_config,condition,user.a,$gt}'),
        ('{source_config,log}'), ('{action_type}'), ('{action_config}'), ('{action_config,delay}'),
        ('{action_config,delay,seconds}'), ('{action_config,delay,at}'), ('{frequency}'),
        ('{cooldown_seconds}'), ('{workflow_id}'), ('{workflow_node_path}'), ('{id}'),
        ('{deleted_date}')
    ) as p (path)
    cross join (values
        ('null'::jsonb), ('true'), ('0'), ('-1'), ('1e400'), ('""'), ('" "'), ('"*"'),
        ('"ก\"''$\\"'), ('"infinity"'), ('"9999-99-99T99:99:99Z"'), ('[]'), ('[[]]'), ('{}'),
        ('{"": {}}'), ('{"$": []}'),
        ((repeat('[', 2000) || repeat(']', 2000))::jsonb),
        ((repeat('{"a":', 2000) || '1' || repeat('}', 2000))::jsonb),
        (to_jsonb(repeat('x', 100000)))
    ) as v (value)
    $$,
    'raises for nothing'
);

select finish();
rollback;
