-- _pgwhen.delay_faults: what a delay may say in this version.
begin;
select plan(10);

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
    ('{"until": {"field": "event.data.at"}}'),
    ('{"waitForTracking": true, "expiresSeconds": 60}')
) as good (delay);

select is(
    pg_temp.faults(jsonb_build_object('seconds', 60, later.key, 1)),
    array['PW005 delay.' || later.key],
    'does not serve ' || later.key
)
from unnest(_pgwhen.later_delay_keys()) as later (key);

-- What is not served is not offered either.
select is(
    (_pgwhen.delay_faults('{"second": 1}', 'delay'))[1],
    row(
        'delay.second', 'is not a key that is known here',
        'Known keys: after, at, delaySeconds, expiresSeconds, onClick, onExpire, seconds, '
        'tracking, until, waitForTracking.', 'PW004'
    )::_pgwhen.fault,
    'knows the keys that are served'
);
select is(
    (_pgwhen.delay_faults('{"whenPending": "skip"}', 'delay'))[1].hint,
    'Leave it out: this version serves after, at, delaySeconds, expiresSeconds, onClick, onExpire, '
    'seconds, tracking, until, waitForTracking.',
    'tells which they are'
);

select finish();
rollback;
