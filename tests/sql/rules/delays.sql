-- _pgwhen.delay_schema: what a delay may say.
begin;
select plan(11);

create function pg_temp.faults(delay jsonb) returns text[] language sql as $$
select array(
    select f.code || ' ' || f.path
    from unnest(_pgwhen.delay_faults(faults.delay, 'delay')) as f
    order by f.path collate "C"
);
$$;

select is(pg_temp.faults(good.delay), '{}', 'serves ' || good.delay::text)
from (
    values
    ('{"seconds": 60}'::jsonb), ('{"delaySeconds": 60}'), ('{"at": "2030-01-01T09:00:00Z"}'),
    ('{"until": {"field": "event.data.at"}}'), ('{"seconds": 60, "reEvaluateConditions": true}'),
    ('{"seconds": 60, "whenPending": "add"}'), ('{"seconds": 60, "onRuleDisabled": "keep"}'),
    ('{"waitForTracking": true, "expiresSeconds": 60}'),
    ('{"waitForTracking": true, "expiresSeconds": 60, "after": "send", "whenPending": "replace"}'),
    ('{"waitForTracking": true, "seconds": 60, "tracking": {"link": "a"}}')
) as good (delay);

select is(
    (_pgwhen.delay_faults('{"second": 1}', 'delay'))[1],
    row(
        'delay.second', 'is not a key that is known here',
        'Known keys: after, at, delaySeconds, expiresSeconds, onClick, onExpire, onRuleDisabled, '
        'reEvaluateConditions, seconds, tracking, until, waitForTracking, whenPending.', 'PW004'
    )::_pgwhen.fault,
    'knows its keys'
);

select finish();
rollback;
