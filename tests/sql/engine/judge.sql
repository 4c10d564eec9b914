-- _pgwhen.judge: what becomes of each matched rule before frequency.
begin;
\ir ../helpers.psql
select plan(46);

select t.it_is('2030-01-07 12:00+00');
select t.a_user('U1', '{"tier": "gold", "points": 5}');

-- The verdicts about the latest event, by rule.
create function t.verdicts() returns text[] language sql as $$
select array(
    select r.name || ': ' || j.verdict
    from (select array[o] from _pgwhen.outbox as o order by o.id desc limit 1) as e (events)
    cross join lateral _pgwhen.judge(e.events) as j
    inner join pgwhen.trigger_rule as r on j.trigger_rule_id = r.id
    order by r.name
);
$$;

-- Attribute sources: from one value to another, and over a number.
create function t.verdict_on(
    source_config jsonb, old jsonb, new jsonb
) returns text language plpgsql
as $$
declare
    v_verdicts text[];
begin
    delete from pgwhen.line_user where user_id = 'A';
    perform t.a_user('A', jsonb_strip_nulls(jsonb_build_object('x', old)));
    perform t.a_rule('a', 'attribute_changed', '{"attribute": "x"}' || verdict_on.source_config);
    update pgwhen.line_user set attributes = case when new is null then '{}'
        else jsonb_build_object('x', new) end
    where user_id = 'A';
    v_verdicts := t.verdicts();
    delete from pgwhen.trigger_rule where name = 'a';
    return substr(v_verdicts[1], 4);
end;
$$;
select is(
    t.verdict_on(c.source_config, c.old, c.new), c.verdict,
    format('%s: from %s to %s: %s', c.source_config, c.old, c.new, c.verdict)
)
from (values
    ('{"to": "gold"}'::jsonb, '"silver"'::jsonb, '"gold"'::jsonb, 'fire'),
    ('{"to": "gold"}', '"gold"', '"silver"', 'source_false'),
    ('{"to": ["gold", "platinum"]}', '"silver"', '"platinum"', 'fire'),
    ('{"to": null}', '"silver"', null, 'fire'),
    ('{"to": null}', '"silver"', 'null', 'fire'),
    ('{"to": null}', '"silver"', '"gold"', 'source_false'),
    ('{"from": "silver", "to": "gold"}', '"silver"', '"gold"', 'fire'),
    ('{"from": "silver", "to": "gold"}', '"iron"', '"gold"', 'source_false'),
    ('{"from": ["silver", null], "to": "gold"}', null, '"gold"', 'fire'),
    ('{"from": ["silver", null], "to": "gold"}', '"iron"', '"gold"', 'source_false'),
    ('{"from": null}', null, '"gold"', 'fire'),
    ('{"from": null}', '"iron"', '"gold"', 'source_false'),
    ('{"to": 1}', '0', '1.0', 'fire'),
    ('{"to": "1"}', '0', '1', 'source_false'),
    ('{"to": true}', 'false', 'true', 'fire'),
    ('{"crosses": {"up": 500}}', '499.99', '500', 'fire'),
    ('{"crosses": {"up": 500}}', '500', '501', 'source_false'),
    ('{"crosses": {"up": 500}}', '400', '499', 'source_false'),
    ('{"crosses": {"up": 500}}', null, '600', 'fire'),
    ('{"crosses": {"up": 500}}', '"text"', '600', 'fire'),
    ('{"crosses": {"up": 500}}', '400', '"600"', 'source_false'),
    ('{"crosses": {"up": 500}}', '400', null, 'source_false'),
    ('{"crosses": {"up": 500}}', '600', '400', 'source_false'),
    ('{"crosses": {"down": 500}}', '501', '500', 'fire'),
    ('{"crosses": {"down": 500}}', '500', '499', 'source_false'),
    ('{"crosses": {"down": 500}}', '501', null, 'source_false'),
    ('{"crosses": {"down": 500}}', null, '400', 'source_false'),
    ('{"crosses": {"up": -0.5}}', '-1e400', '1e400', 'fire')
) as c (source_config, old, new, verdict);

-- Clicks: all that is asked must be there.
create function t.verdict_on_click(source_config jsonb) returns text language plpgsql as $$
declare
    v_verdicts text[];
begin
    perform t.a_rule('c', 'campaign_click', verdict_on_click.source_config);
    insert into pgwhen.campaign_click (user_id, campaign, link, tracking_id)
    values ('U1', 'nov', 'offer', 'T9');
    v_verdicts := t.verdicts();
    delete from pgwhen.trigger_rule where name = 'c';
    return substr(v_verdicts[1], 4);
end;
$$;
select is(
    t.verdict_on_click(c.source_config),
    c.verdict,
    format('a click for %s: %s', c.source_config, c.verdict)
)
from (values
    ('{"campaign": "nov", "link": "offer"}'::jsonb, 'fire'),
    ('{"campaign": "dec", "link": "offer"}', 'source_false'),
    ('{"link": "home", "trackingId": "T9"}', 'source_false'),
    ('{"link": "offer", "trackingId": "T9", "campaign": "nov"}', 'fire')
) as c (source_config, verdict);

-- Conditions see the event, and the user as the event left them.
create function t.verdict_when(condition jsonb) returns text language plpgsql as $$
declare
    v_verdicts text[];
begin
    perform t.a_rule('w', 'ordered', jsonb_build_object('condition', verdict_when.condition));
    perform pgwhen.emit('ordered', 'U1', '{"total": 990}', key => 'web',
        at => '2030-01-06 12:00+00');
    update pgwhen.line_user set attributes = '{"tier": "iron"}' where user_id = 'U1';
    v_verdicts := t.verdicts_of('ordered');
    update pgwhen.line_user set attributes = '{"tier": "gold", "points": 5}' where user_id = 'U1';
    delete from pgwhen.trigger_rule where name = 'w';
    return substr(v_verdicts[1], 4);
end;
$$;
create function t.verdicts_of(type text) returns text[] language sql as $$
select array(
    select r.name || ': ' || j.verdict
    from (
        select array[o] from _pgwhen.outbox as o where o.type = verdicts_of.type
            order by o.id desc limit 1
    ) as e (events)
    cross join lateral _pgwhen.judge(e.events) as j
    inner join pgwhen.trigger_rule as r on j.trigger_rule_id = r.id
);
$$;
select
    t.a_rule(
        'loyal', 'joins', action_type => 'add_to_audience', action_config => '{"audience": "loyal"}'
    );
select pgwhen.emit('joins', 'U1');
select t.process();
select is(t.verdict_when(c.condition), c.verdict, format('when %s: %s', c.condition, c.verdict))
from (values
    ('{"user.tier": "gold"}'::jsonb, 'fire'),
    ('{"user.tier": "iron"}', 'condition_false'),
    ('{"event.data.total": {"$gt": 100}, "event.key": "web", "event.type": "ordered"}', 'fire'),
    ('{"event.old": {"$exists": true}}', 'condition_false'),
    ('{"user.nothing": null}', 'fire'),
    ('{"$audience": "loyal"}', 'fire'),
    ('{"$audience": "nobody"}', 'condition_false'),
    ('{"event.at": {"$lte": {"$now": "0 seconds"}}}', 'fire'),
    ('{"event.at": {"$lt": {"$now": "-1 second"}}}', 'condition_false')
) as c (condition, verdict);

-- Loops come after the source and before the condition.
select t.a_rule('x', 'chained') as x \gset
select pgwhen.emit('chained', 'U1');
create function t.chained(chain bigint[]) returns text[] language sql as $$
update _pgwhen.outbox set chain = chained.chain where type = 'chained';
select t.verdicts_of('chained');
$$;
select is(t.chained('{}'), '{"x: fire"}', 'a rule fires where nothing caused the event');
select is(t.chained(array[:x]), '{"x: loop"}', 'a rule does not fire in its own chain');
select is(t.chained(array[-1, :x, -2]::bigint[]), '{"x: loop"}', 'wherever it stands in it');
select
    is(
        t.chained('{-1,-2,-3,-4,-5,-6,-7,-8,-9}'), '{"x: fire"}', 'another rule''s chain is no loop'
    );
select is(
    t.chained('{-1,-2,-3,-4,-5,-6,-7,-8,-9,-10}'),
    '{"x: loop"}',
    'until it is as long as maxChainDepth'
);

select finish();
rollback;
