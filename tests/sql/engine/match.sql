-- _pgwhen.match: the rules that ask for an event.
begin;
\ir ../helpers.psql
select plan(18);

select t.it_is('2030-01-07 12:00+00');

-- The names of the rules that the latest event finds.
create function t.found() returns text[] language sql as $$
select array(
    select r.name
    from (select o from _pgwhen.outbox as o order by o.id desc limit 1) as e (event)
    cross join lateral _pgwhen.match(
        (e.event).type, (e.event).line_oa_id, (e.event).keys, (e.event).created_at
    ) as m
    inner join pgwhen.trigger_rule as r on m.trigger_rule_id = r.id
    order by r.name
);
$$;

select t.a_rule('any order');
select t.a_rule('web order', source_config => '{"key": "web"}');
select t.a_rule('other account', line_oa_id => 'shop');
select t.a_rule('disabled', enabled => false);
select pgwhen.emit('ordered', 'U1', key => 'web');
select is(t.found(), array['any order', 'web order'], 'finds by type, account and key');
select pgwhen.emit('ordered', 'U1', key => 'app');
select is(t.found(), array['any order'], 'finds no rule with another key');
select pgwhen.emit('ordered', 'U1', line_oa_id => 'shop');
select is(t.found(), array['other account'], 'finds no rule of another account');
select pgwhen.emit('ordered too', 'U1');
select is(t.found(), '{}', 'finds no rule for another type');

select t.a_rule('tier', 'attribute_changed', '{"attribute": "tier"}');
select t.a_rule('any attribute', 'attribute_changed');
select t.a_user('U1', '{"tier": "gold"}');
select is(t.found(), array['any attribute', 'tier'], 'finds by attribute');
update pgwhen.line_user set attributes = attributes || '{"points": 1}';
select is(t.found(), array['any attribute'], 'finds no rule for another attribute');

select t.a_rule('click: ' || c.source_config::text, 'campaign_click', c.source_config)
from unnest(array[
    '{}', '{"campaign": "nov"}', '{"link": "offer"}', '{"trackingId": "T9"}', '{"campaign": "dec"}'
]::jsonb[]) as c (source_config);
insert into pgwhen.campaign_click (user_id, campaign, link, tracking_id) values (
    'U1', 'nov', 'offer', 'T9'
);
select is(
    t.found(),
    array[
        'click: {"campaign": "nov"}',
        'click: {"link": "offer"}',
        'click: {"trackingId": "T9"}',
        'click: {}'
    ],
    'finds a click by campaign, link, tracking id, and by being one'
);

-- Forward-looking.
select t.a_rule('late', 'asked', enabled => false) as late \gset
create function t.asked_at(at timestamptz) returns text[] language plpgsql as $$
begin
    perform t.it_is(asked_at.at);
    perform pgwhen.emit('asked', 'U1');
    return t.found();
end;
$$;
select t.it_is('2030-01-07 13:00+00');
select is(t.asked_at('2030-01-07 13:00+00'), '{}', 'does not find a rule that is disabled');
select t.it_is('2030-01-07 13:00:01+00');
update pgwhen.trigger_rule set enabled = true where id = :late;
select is(t.found(), '{}', 'does not find one that was enabled after the event');
select is(t.asked_at('2030-01-07 13:00:01+00'), '{late}', 'finds it from that moment on');
update pgwhen.trigger_rule set frequency = 'once', action_config = '{"text": "new"}'
where id = :late;
select is(t.found(), '{late}', 'still finds it when its action or frequency has changed');
select t.it_is('2030-01-07 13:00:02+00');
update pgwhen.trigger_rule set source_config = '{"condition": {"user.tier": "gold"}}'
where id = :late;
select is(t.found(), '{}', 'does not when what it listens to has changed');
select is(t.asked_at('2030-01-07 13:00:03+00'), '{late}', 'but for what comes after');
update pgwhen.trigger_rule set deleted_date = '2030-01-07 13:00+00' where id = :late;
select is(t.found(), '{}', 'does not find one that is deleted');
update pgwhen.trigger_rule set deleted_date = null where id = :late;
select is(t.asked_at('2030-01-07 13:00:04+00'), '{late}', 'finds one that was brought back');
select pgwhen.emit('asked', 'U1', at => '1997-01-18');
select is(t.found(), '{late}', 'goes by when an event was written, not by when it happened');
delete from pgwhen.trigger_rule where id = :late;
select is(t.found(), '{}', 'does not find one that is gone');

select is_empty(
    $$ select from _pgwhen.match(null, null, null, null) $$, 'finds nothing for nothing'
);

select finish();
rollback;
