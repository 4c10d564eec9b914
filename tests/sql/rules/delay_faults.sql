-- _pgwhen.delay_faults: the language of delays.
begin;
\ir ../helpers.psql
select plan(148);

create function t.faults(delay jsonb) returns text[] language sql as $$
select array(
    select f.path || ': ' || f.message
    from unnest(
        _pgwhen.delay_faults(faults.delay, 'delay')
    ) with ordinality as f
    order by f.ordinality
);
$$;
create function t.paths(delay jsonb) returns text[] language sql as $$
select array(
    select f.code || ' ' || f.path
    from unnest(_pgwhen.delay_faults(paths.delay, 'delay')) as f
    order by f.path collate "C"
);
$$;
-- A good wait with some keys more.
create function t.a_wait(keys jsonb) returns jsonb language sql as $$
select '{"waitForTracking": true, "expiresSeconds": 86400}'::jsonb || a_wait.keys;
$$;

-- What means something --------------------------------------------------------------------

select is(t.faults(good.delay), '{}', 'takes ' || good.delay::text)
from (
    values
    -- One time.
    ('{"seconds": 0}'::jsonb), ('{"seconds": 0.5}'), ('{"seconds": 1e-9}'),
    ('{"seconds": 315360000}'), ('{"delaySeconds": 60}'),
    ('{"at": "2030-01-01T09:00:00+07:00"}'), ('{"at": "1999-01-01 00:00Z"}'),
    ('{"at": "2030-01-01T09:00:00.123456-0330"}'), ('{"at": "2028-02-29T00:00Z"}'),
    ('{"seconds": 60, "waitForTracking": false}'),
    -- A time of the event's or the user's.
    ('{"until": {"field": "event.data.at"}}'), ('{"until": {"field": "event.at", "offset": 60}}'),
    ('{"until": {"field": "event.new", "offset": "1 month"}}'),
    ('{"until": {"field": "user.trial.ends", "offset": "-1 day"}}'),
    ('{"until": {"field": "user.ชื่อ", "offset": "P-1DT-12H"}}'),
    ('{"until": {"field": "user.a", "offset": "-1 day 12:00"}}'),
    ('{"until": {"field": "user.a", "offset": "1.5 hours"}}'),
    ('{"until": {"field": "user.a", "offset": "10 years"}}'),
    ('{"until": {"field": "user.a", "offset": "-60 months +1826 days"}}'),
    ('{"until": {"field": "user.a", "offset": -315360000}}'),
    ('{"until": {"field": "user.a", "offset": "1 day ago"}}'),
    ('{"until": {"field": "user.2nd.x1"}}'),
    -- A click.
    ('{"waitForTracking": true, "expiresSeconds": 86400}'),
    ('{"waitForTracking": true, "seconds": 86400}'),
    ('{"waitForTracking": true, "delaySeconds": 0.5}'),
    ('{"waitForTracking": true, "expiresSeconds": 60, "seconds": 0}'),
    ('{"waitForTracking": true, "expiresSeconds": 60, "delaySeconds": 30}'),
    (t.a_wait('{"tracking": {"campaign": "nov", "link": "offer", "trackingId": "x"}}')),
    (t.a_wait('{"onExpire": {"actionType": "log_message", "actionConfig": {"text": "hi"}}}')),
    (t.a_wait('{"onExpire": {"actionType": "nobody_serves_this"}}')),
    (t.a_wait('{"after": "send"}')),
    (t.a_wait(
        '{"after": "send", "onClick": {"actionType": "add_to_audience",
            "actionConfig": {"audience": "warm"}}}'
    )),
    -- Beside any of them.
    ('{"seconds": 60, "reEvaluateConditions": true}'),
    ('{"until": {"field": "user.a"}, "whenPending": "replace"}'),
    ('{"at": "2030-01-01T09:00:00Z", "onRuleDisabled": "keep"}'),
    (t.a_wait('{"reEvaluateConditions": false, "whenPending": "add", "onRuleDisabled": "cancel"}'))
) as good (delay);

-- Keys and types --------------------------------------------------------------------------

select is(t.paths(bad.delay), array['PW004 delay' || bad.path], 'refuses ' || bad.delay::text)
from (
    values
    ('{}'::jsonb, ''), ('60', ''), ('null', ''), ('"1 hour"', ''), ('[{"seconds": 1}]', ''),
    ('{"second": 1}', '.second'), ('{"seconds": 1, "until_": {}}', '.until_'),
    ('{"seconds": -1}', '.seconds'), ('{"seconds": -0.001}', '.seconds'),
    ('{"seconds": 315360000.001}', '.seconds'), ('{"seconds": 1e400}', '.seconds'),
    ('{"seconds": "60"}', '.seconds'), ('{"seconds": "infinity"}', '.seconds'),
    ('{"seconds": "NaN"}', '.seconds'), ('{"seconds": null}', '.seconds'),
    ('{"seconds": true}', '.seconds'), ('{"seconds": [1]}', '.seconds'),
    ('{"delaySeconds": -1}', '.delaySeconds'), ('{"delaySeconds": 1e30}', '.delaySeconds'),
    ('{"at": "2030-01-01T09:00:00"}', '.at'), ('{"at": "2030-01-01"}', '.at'),
    ('{"at": "tomorrow"}', '.at'), ('{"at": "infinity"}', '.at'), ('{"at": 1764468000}', '.at'),
    ('{"at": "2030-02-30T09:00:00Z"}', '.at'), ('{"at": "2030-01-01T25:00:00Z"}', '.at'),
    ('{"until": "event.data.at"}', '.until'), ('{"until": {}}', '.until.field'),
    ('{"until": {"offset": "1 day"}}', '.until.field'),
    ('{"until": {"field": ""}}', '.until.field'), ('{"until": {"field": 1}}', '.until.field'),
    ('{"until": {"field": "event.data.at", "time": "09:00"}}', '.until.time'),
    ('{"until": {"field": "event.data.at", "offset": null}}', '.until.offset'),
    ('{"until": {"field": "event.data.at", "offset": {"days": 1}}}', '.until.offset'),
    ('{"until": {"field": "event.data.at", "offset": 315360001}}', '.until.offset'),
    ('{"until": {"field": "event.data.at", "offset": -1e400}}', '.until.offset'),
    ('{"waitForTracking": "true", "expiresSeconds": 1}', '.waitForTracking'),
    ('{"waitForTracking": 1, "expiresSeconds": 1}', '.waitForTracking'),
    ('{"waitForTracking": true, "expiresSeconds": "1 day"}', '.expiresSeconds'),
    ('{"waitForTracking": true, "expiresSeconds": -1}', '.expiresSeconds'),
    (t.a_wait('{"tracking": {}}'), '.tracking'), (t.a_wait('{"tracking": "offer"}'), '.tracking'),
    (t.a_wait('{"tracking": null}'), '.tracking'),
    (t.a_wait('{"tracking": {"link": " "}}'), '.tracking.link'),
    (t.a_wait('{"tracking": {"link": ["a"]}}'), '.tracking.link'),
    (t.a_wait('{"tracking": {"links": "a"}}'), '.tracking.links'),
    (t.a_wait('{"onExpire": null}'), '.onExpire'),
    (t.a_wait('{"onExpire": {}}'), '.onExpire.actionType'),
    (t.a_wait('{"onExpire": {"actionType": ""}}'), '.onExpire.actionType'),
    (
        t.a_wait('{"onExpire": {"actionType": "x", "actionConfig": []}}'),
        '.onExpire.actionConfig'
    ),
    (t.a_wait('{"onExpire": {"actionType": "x", "frequency": "once"}}'), '.onExpire.frequency'),
    (t.a_wait('{"after": "click"}'), '.after'), (t.a_wait('{"after": true}'), '.after'),
    (t.a_wait('{"after": "send", "onClick": {"actionConfig": {}}}'), '.onClick.actionType'),
    ('{"seconds": 1, "reEvaluateConditions": "yes"}', '.reEvaluateConditions'),
    ('{"seconds": 1, "whenPending": "keep"}', '.whenPending'),
    ('{"seconds": 1, "whenPending": null}', '.whenPending'),
    ('{"seconds": 1, "onRuleDisabled": true}', '.onRuleDisabled')
) as bad (delay, path);

-- What makes no sense ---------------------------------------------------------------------

select is(t.faults(bad.delay), bad.faults, 'refuses ' || bad.delay::text)
from (
    values
    (
        '{"seconds": 1, "at": "2030-01-01T09:00:00Z"}'::jsonb,
        array['delay: says more than once when: "seconds" and "at"']
    ),
    (
        '{"seconds": 1, "delaySeconds": 1}',
        array['delay: says more than once when: "seconds" and "delaySeconds"']
    ),
    (
        '{"at": "2030-01-01T09:00:00Z", "until": {"field": "user.a"}}',
        array['delay: says more than once when: "at" and "until"']
    ),
    ('{"reEvaluateConditions": true}', array['delay: does not say when']),
    ('{"whenPending": "add", "onRuleDisabled": "keep"}', array['delay: does not say when']),
    ('{"waitForTracking": false}', array['delay: does not say when']),
    (
        '{"waitForTracking": true}',
        array['delay.expiresSeconds: is required beside "waitForTracking"']
    ),
    (
        '{"waitForTracking": true, "at": "2030-01-01T09:00:00Z"}',
        array[
            'delay.at: cannot stand beside "waitForTracking"',
            'delay.expiresSeconds: is required beside "waitForTracking"'
        ]
    ),
    (
        t.a_wait('{"until": {"field": "user.a"}}'),
        array['delay.until: cannot stand beside "waitForTracking"']
    ),
    (
        '{"waitForTracking": true, "seconds": 1, "delaySeconds": 1}',
        array['delay.delaySeconds: is the older name of "seconds", which is there too']
    ),
    (
        '{"waitForTracking": true, "expiresSeconds": 0, "seconds": 5}',
        array['delay.waitForTracking: waits for a click, and no time to click is given']
    ),
    (
        '{"seconds": 5, "tracking": {"link": "offer"}}',
        array['delay.tracking: has no meaning without "waitForTracking": true']
    ),
    (
        '{"seconds": 5, "waitForTracking": false, "expiresSeconds": 5}',
        array['delay.expiresSeconds: has no meaning without "waitForTracking": true']
    ),
    (
        '{"expiresSeconds": 5}',
        array[
            'delay.expiresSeconds: has no meaning without "waitForTracking": true',
            'delay: does not say when'
        ]
    ),
    (
        '{"seconds": 5, "after": "send"}',
        array['delay.after: has no meaning without "waitForTracking": true']
    ),
    (
        '{"seconds": 5, "onExpire": {"actionType": "x"}}',
        array['delay.onExpire: has no meaning without "waitForTracking": true']
    ),
    (
        t.a_wait('{"onClick": {"actionType": "x"}}'),
        array['delay.onClick: has no meaning without "after": "send"']
    ),
    (
        '{"at": "2030-02-29T09:00:00Z"}',
        array['delay.at: is no date that exists, got "2030-02-29T09:00:00Z"']
    ),
    (
        t.a_wait(
            '{"onExpire": {"actionType": "x", "actionConfig": {"delay": {"seconds": 1}}}}'
        ),
        array['delay.onExpire.actionConfig.delay: cannot stand here']
    ),
    -- What follows is checked as the rule's own action is, its own code included.
    (
        t.a_wait('{"onExpire": {"actionType": "log_message", "actionConfig": {"txt": "hi"}}}'),
        array[
            'delay.onExpire.actionConfig.text: is required',
            'delay.onExpire.actionConfig.txt: is not a key that is known here'
        ]
    ),
    (
        t.a_wait('{"onExpire": {"actionType": "add_to_audience"}}'),
        array['delay.onExpire.actionConfig.audience: is required']
    ),
    (
        t.a_wait('{"after": "send", "onClick": {"actionType": "log_message"}}'),
        array['delay.onClick.actionConfig.text: is required']
    )
) as bad (delay, faults);
select is(
    t.paths(t.a_wait('{"onExpire": {"actionType": "log_message"}}')),
    '{PW003 delay.onExpire.actionConfig.text}', 'what follows has the code of configs'
);

-- Fields and offsets ----------------------------------------------------------------------

select is(
    t.paths(jsonb_build_object('until', jsonb_build_object('field', bad.field))),
    '{PW004 delay.until.field}', 'refuses the field ' || left(bad.field, 30)
)
from (
    values
    ('at'), ('event'), ('user'), ('user.'), ('.user'), ('user..a'), ('event.date'),
    ('Event.data.at'), ('user.list.0'), ('user.list.-1'), ('user.list. 1'), ('user.+1.x'),
    ('$.user.a'),
    ('user.' || repeat('x', 1000))
) as bad (field);
select is(
    (_pgwhen.until_faults('{"field": "event.at_time"}', 'u'))[1],
    row(
        'u.field', 'an event has no "at_time"',
        'There are event.type, key, old, new, data and at; did you mean "event.data.at_time"?',
        'PW004'
    )::_pgwhen.fault,
    'says what to write instead'
);

select is(
    t.paths(
        jsonb_build_object('until', jsonb_build_object('field', 'user.a', 'offset', bad.span))
    ),
    '{PW004 delay.until.offset}', 'refuses the offset ' || bad.span
)
from (
    values
    (''), ('soon'), ('infinity'), ('-infinity'), ('NaN'), ('1 fortnight'), ('2030-01-01'),
    ('11 years'), ('-121 months'), ('4000 days'), ('-87700 hours'), ('999999999999 years'),
    ('9 years 300 days 2000 hours'), ('99 years -36159 days'), ('1 day; drop table x')
) as bad (span);

-- Anything --------------------------------------------------------------------------------

select lives_ok(
    $$
    select count(t.faults(jsonb_set(d.delay, p.path, v.value)))
    from (values
        (t.a_wait('{"tracking": {"link": "a"}, "after": "send", "whenPending": "add",
            "onExpire": {"actionType": "x", "actionConfig": {"a": 1}},
            "onClick": {"actionType": "x", "actionConfig": {"a": 1}}}')),
        ('{"until": {"field": "user.a", "offset": 1}, "onRuleDisabled": "keep",
            "reEvaluateConditions": true}')
    ) as d (delay)
    cross join (values
        ('{waitForTracking}'::text[]), ('{expiresSeconds}'), ('{seconds}'), ('{delaySeconds}'),
        ('{at}'), ('{tracking}'), ('{tracking,link}'), ('{after}'), ('{whenPending}'),
        ('{onExpire}'), ('{onExpire,actionType}'), ('{onExpire,actionConfig}'), ('{onClick}'),
        ('{onClick,actionConfig,delay}'), ('{until}'), ('{until,field}'), ('{until,offset}'),
        ('{onRuleDisabled}'), ('{reEvaluateConditions}')
    ) as p (path)
    cross join (values
        ('null'::jsonb), ('true'), ('0'), ('-1'), ('1e400'), ('-1e-400'), ('""'), ('" "'),
        ('"ก\"''$\\"'), ('"infinity"'), ('"9999-99-99T99:99:99Z"'), ('"user.a"'), ('[]'), ('{}'),
        ('{"": {}}'), ((repeat('[', 2000) || repeat(']', 2000))::jsonb),
        (to_jsonb(repeat('x', 100000)))
    ) as v (value)
    $$,
    'raises for nothing'
);

select finish();
rollback;
