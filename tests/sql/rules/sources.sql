-- _pgwhen.source_key, source_predicate: which events a source_config asks for.
begin;
select plan(60);

-- Whether an event satisfies what the key leaves to be asked.
create function pg_temp.takes(source_type text, source_config jsonb, event jsonb) returns boolean
language sql as $$
select pgwhen.matches(
    _pgwhen.source_predicate(source_type, source_config),
    jsonb_build_object('user', '{}'::jsonb, 'event', event)
);
$$;
create function pg_temp.fault(source_type text, source_config jsonb) returns text language sql as $$
select string_agg(f.code || ' ' || f.path, ', ' order by f.path)
from unnest(_pgwhen.source_faults(source_type, source_config)) as f;
$$;

-- Keys ------------------------------------------------------------------------------------

select
    is(
        _pgwhen.source_key(s.source_type, s.source_config),
        s.key,
        s.source_type || s.source_config::text
    )
from (
    values
    ('attribute_changed', '{"attribute": "tier"}'::jsonb, 'tier'),
    ('attribute_changed', '{"to": "gold"}', '*'),
    ('form_submitted', '{"formId": "quote"}', 'quote'),
    ('form_submitted', '{}', '*'),
    ('campaign_click', '{"campaign": "nov"}', 'campaign:nov'),
    ('campaign_click', '{"campaign": "nov", "link": "offer"}', 'link:offer'),
    ('campaign_click', '{"campaign": "nov", "link": "offer", "trackingId": "t"}', 'tracking:t'),
    ('campaign_click', '{}', '*'),
    ('friend_track_event_inserted', '{"event": "follow"}', 'follow'),
    ('booking_event', '{"status": "confirmed"}', 'confirmed'),
    ('order_paid', '{"key": "k", "condition": {}}', 'k'),
    ('order_paid', '{}', '*')
) as s (source_type, source_config, key);

select
    ok(
        _pgwhen.source_key(s.source_type, s.source_config) = any(
            _pgwhen.event_keys(s.source_type, s.event_key, s.data)
        ),
        'finds the event ' || s.source_type || s.source_config::text
    )
from (
    values
    ('attribute_changed', '{"attribute": "tier"}'::jsonb, 'tier', null::jsonb),
    ('attribute_changed', '{}', 'tier', null),
    ('campaign_click', '{"trackingId": "t", "link": "l"}', 'c', '{"trackingId": "t", "link": "l"}'),
    ('campaign_click', '{"link": "l"}', 'c', '{"trackingId": "t", "link": "l"}'),
    ('campaign_click', '{"campaign": "c"}', 'c', '{"campaign": "c"}'),
    ('order_paid', '{"key": "k"}', 'k', '{}')
) as s (source_type, source_config, event_key, data);

-- from and to -----------------------------------------------------------------------------

select is(
    _pgwhen.source_predicate(
        'attribute_changed', '{"attribute": "tier", "from": ["silver", null], "to": "gold"}'
    ),
    '{"event.old": {"$in": ["silver", null]}, "event.new": {"$eq": "gold"}}',
    'is a condition over the old and the new value'
);
select is(
    _pgwhen.source_predicate(
        'attribute_changed', '{"attribute": "tier", "condition": {"user.x": 1}}'
    ),
    '{}',
    'is empty where the key says it all'
);
select
    is(
        pg_temp.takes('attribute_changed', s.source_config, s.event), s.verdict,
        s.source_config::text || ' and ' || s.event::text
    )
from (
    values
    (
        '{"from": ["silver", null], "to": "gold"}'::jsonb,
        '{"old": "silver", "new": "gold"}'::jsonb,
        true
    ),
    ('{"from": ["silver", null], "to": "gold"}', '{"new": "gold"}', true),
    ('{"from": ["silver", null], "to": "gold"}', '{"old": "tin", "new": "gold"}', false),
    ('{"from": ["silver", null], "to": "gold"}', '{"old": "silver", "new": "tin"}', false),
    ('{"from": null}', '{"new": 1}', true),
    ('{"from": null}', '{"old": 0, "new": 1}', false),
    ('{"to": null}', '{"old": "gold"}', true),
    ('{"to": false}', '{"old": true, "new": false}', true),
    ('{"to": 0}', '{"old": true, "new": false}', false),
    ('{"to": "red"}', '{"new": ["blue", "red"]}', true)
) as s (source_config, event, verdict);

-- crosses ---------------------------------------------------------------------------------

select
    is(
        pg_temp.takes('attribute_changed', jsonb_build_object('crosses', s.crosses), s.event),
        s.verdict,
        s.crosses::text || ' and ' || s.event::text
    )
from (
    values
    ('{"up": 500}'::jsonb, '{"old": 499, "new": 500}'::jsonb, true),
    ('{"up": 500}', '{"old": 499, "new": 499.99}', false),
    ('{"up": 500}', '{"old": 500, "new": 600}', false),
    ('{"up": 500}', '{"new": 600}', true),
    ('{"up": 500}', '{"new": 400}', false),
    ('{"up": 500}', '{"old": "none", "new": 600}', true),
    ('{"up": 500}', '{"old": 400, "new": "600"}', false),
    ('{"up": 500}', '{"old": 600}', false),
    ('{"up": 500}', '{"old": 600, "new": 400}', false),
    ('{"up": -1.5}', '{"old": -2, "new": -1.5}', true),
    ('{"down": 0}', '{"old": 1, "new": 0}', true),
    ('{"down": 0}', '{"old": 0, "new": -1}', false),
    ('{"down": 500}', '{"old": 500.01, "new": 3}', true),
    ('{"down": 500}', '{"new": 400}', false),
    ('{"down": 500}', '{"old": 600}', false),
    ('{"down": 500}', '{"old": 400, "new": 600}', false)
) as s (crosses, event, verdict);

-- The rest of a click ---------------------------------------------------------------------

select
    is(
        _pgwhen.source_predicate('campaign_click', s.source_config),
        s.predicate,
        s.source_config::text
    )
from (
    values
    ('{"campaign": "c"}'::jsonb, '{}'::jsonb),
    ('{"campaign": "c", "link": "l"}', '{"event.data.campaign": {"$eq": "c"}}'),
    ('{"link": "l", "trackingId": "t"}', '{"event.data.link": {"$eq": "l"}}')
) as s (source_config, predicate);

-- What is refused -------------------------------------------------------------------------

select
    is(pg_temp.fault(s.source_type, s.source_config), s.fault, 'refuses ' || s.source_config::text)
from (
    values
    ('attribute_changed', '{"crosses": {"up": 1}, "to": 5}'::jsonb, 'PW002 source_config.crosses'),
    ('attribute_changed', '{"crosses": {"up": 1, "down": 2}}', 'PW002 source_config.crosses'),
    ('attribute_changed', '{"to": {"$gt": 1}}', 'PW002 source_config.to'),
    ('attribute_changed', '{"to": [["a"]]}', 'PW002 source_config.to[0]'),
    ('attribute_changed', '{"to": []}', 'PW002 source_config.to'),
    ('attribute_changed', '{"attribute": "*"}', 'PW002 source_config'),
    ('form_submitted', '{"attribute": "tier"}', 'PW002 source_config.attribute'),
    ('order_paid', '{"key": "*"}', 'PW002 source_config'),
    (
        'attribute_change', '{"attribute": "tier"}',
        'PW002 source_config.attribute, PW002 source_type'
    )
) as s (source_type, source_config, fault);

select
    matches(
        pg_temp.fault('attribute_changed', jsonb_build_object('to', s.wanted)),
        '^PW108 source_config$', 'refuses values that no condition can hold: ' || s.title
    )
from (
    values
    (to_jsonb(repeat('x', 10001)), 'too long'),
    (to_jsonb(array(select generate_series(1, 1001))), 'too many')
) as s (wanted, title);

select finish();
rollback;
