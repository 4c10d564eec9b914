-- _pgwhen.resolve_clicks: which clicks end which waits, and which come too late.
begin;
\ir ../helpers.psql
select plan(28);

select t.it_is('2030-01-07 12:00+00');
insert into pgwhen.account (line_oa_id) values ('shop');

-- Each click alone, on waits that ask for one thing each.
create function t.clicked_by(click text) returns text[] language plpgsql as $$
declare
    v_states text[];
begin
    perform pgwhen.emit('ordered', 'U1');
    perform t.process();
    execute clicked_by.click;
    perform t.process();
    v_states := array(
        select r.name
        from pgwhen.scheduled_action as a
        inner join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
        where a.outcome = 'clicked'
        order by r.name
    );
    raise exception using errcode = 'PW000', message = v_states::text;
exception
    when sqlstate 'PW000' then
        return v_states;
end;
$$;
select t.a_waiting_rule('any');
select t.a_waiting_rule('campaign', '{"tracking": {"campaign": "nov"}}');
select t.a_waiting_rule('link', '{"tracking": {"link": "offer"}}');
select t.a_waiting_rule('both', '{"tracking": {"campaign": "nov", "link": "offer"}}');
select t.a_waiting_rule('id', '{"tracking": {"trackingId": "T9"}}');

select is(t.clicked_by(c.click), c.rules::text[], c.click || ' is for ' || c.rules)
from (values
    ('select t.a_click()', '{any}'),
    ($$select t.a_click(campaign => 'nov')$$, '{any,campaign}'),
    ($$select t.a_click(link => 'offer')$$, '{any,link}'),
    ($$select t.a_click(campaign => 'nov', link => 'offer')$$, '{any,both,campaign,link}'),
    ($$select t.a_click(campaign => 'dec', link => 'offer')$$, '{any,link}'),
    ($$select t.a_click(tracking_id => 'T9')$$, '{any,id}'),
    ($$select t.a_click(tracking_id => 't9')$$, '{any}'),
    ($$select t.a_click(link => 'offer', data => '{"bot": true}')$$, '{}'),
    ($$select t.a_click(link => 'offer', data => '{"bot": false}')$$, '{any,link}'),
    ($$select t.a_click('U2', 'offer')$$, '{}'),
    ($$select t.a_click('U1', 'offer', 'shop')$$, '{}'),
    ($$select t.a_click(at => '2030-01-07 11:59:59+00')$$, '{}'),
    ($$select t.a_click(at => '2030-01-07 12:00:00+00')$$, '{any}'),
    ($$select pgwhen.emit('campaign_click', 'U1', '{"link": "offer"}')$$, '{any,link}'),
    ($$select pgwhen.emit('form_submitted', 'U1', '{"link": "offer"}')$$, '{}')
) as c (click, rules);

-- Order in one batch, of one user and of several.
delete from pgwhen.trigger_rule;
select t.a_waiting_rule('wait', '{"expiresSeconds": 600}') as wait \gset
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 3) as n;
select t.a_click('U' || n) from generate_series(1, 2) as n;
select t.process();
select is(
    t.states(:wait), '{pending clicked,pending clicked,waiting}',
    'a click after the event in one batch ends what the event began'
);

-- Processed before the wait came to be: order of commits, not of ids.
select t.it_is('2030-01-07 12:01+00');
select
    t.a_click('U4', at => '2030-01-07 12:00:30+00'), t.a_click('U5', at => '2030-01-07 11:00+00');
select t.process();
select pgwhen.emit('ordered', 'U' || n, at => '2030-01-07 12:00+00')
from generate_series(4, 5) as n;
select t.process();
select is(
    (t.states(:wait))[4:], '{pending clicked,waiting}',
    'a click that was processed before its wait began is not lost, where it counts'
);

-- The event that fired the rule is no click that ends its wait.
delete from pgwhen.trigger_rule;
select
    t.a_rule(
        'nudge', 'campaign_click', '{"link": "offer"}', action_config => '{
            "text": "Still there?", "delay": {"waitForTracking": true, "expiresSeconds": 600}}'
    ) as nudge
\gset
select t.a_click('U1', 'offer');
select t.process();
select is(t.states(:nudge), '{waiting}', 'the click that began a wait does not end it');
select t.a_click('U1', 'other');
select t.process();
select is(t.states(:nudge), '{pending clicked}', 'the next one does');

-- A send is announced after the click that it led to was processed.
delete from pgwhen.trigger_rule;
select t.a_waiting_rule('sent', '{"after": "send"}') as sent \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select t.it_is('2030-01-07 12:05+00');
select c.id, c.token from pgwhen.claim_actions('w-1') as c \gset
select t.a_click();
select t.process();
select is(t.states(:sent), '{processing}', 'a click finds nothing while the send is under way');
select t.it_is('2030-01-07 12:06+00');
select pgwhen.complete_actions('w-1', array[:id]::bigint[], array[:'token']::uuid[]);
select t.process();
select is(t.states(:sent), '{done clicked}', 'but its wait finds the click');
select t.it_is('2030-01-07 12:07+00');
select pgwhen.emit('ordered', 'U1');
select t.process();
select c.id, c.token from pgwhen.claim_actions('w-1') as c where c.rule = :sent \gset
select pgwhen.complete_actions('w-1', array[:id]::bigint[], array[:'token']::uuid[]);
select t.process();
select is(
    t.states(:sent), '{done clicked,waiting}', 'a click before the send began does not count'
);

-- Late.
delete from pgwhen.trigger_rule;
select t.a_waiting_rule('late', '{"expiresSeconds": 600}') as late \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select t.it_is('2030-01-07 12:20+00');
select pgwhen.expire_actions();
select t.it_is('2030-01-07 12:21+00');
select t.a_click();
select t.process();
select is(
    t.log_of(:late),
    array[
        'expired: no click until 2030-01-07T12:17:00Z',
        'late_click: clicked at 2030-01-07T12:21:00Z, the wait had ended at 2030-01-07T12:20:00Z'
    ],
    'a click after the expiry is logged as late'
);
select is(
    (select l.action_id from pgwhen.trigger_log as l where l.status = 'late_click'),
    (select a.id from pgwhen.scheduled_action as a where a.trigger_rule_id = :late),
    'beside the action that it was late for'
);
select t.a_click();
select t.process();
select is(cardinality(t.log_of(:late)), 2, 'once for each wait');
select is(t.states(:late), '{cancelled not_clicked}', 'and changes nothing');

-- Nobody ticked for hours: the click finds the wait still waiting, but its time is over.
select t.it_is('2030-01-07 12:22+00');
select pgwhen.emit('ordered', 'U1');
select t.process();
select t.it_is('2030-01-07 18:00+00');
select t.a_click();
select t.process();
select is(
    (t.log_of(:late))[3:],
    array[
        'expired: no click until 2030-01-07T12:32:00Z',
        'late_click: clicked at 2030-01-07T18:00:00Z, the wait had ended at 2030-01-07T18:00:00Z'
    ],
    'a late click lets an overdue wait expire first'
);

-- Clicks are kept for waits to come, even where events are not.
insert into pgwhen.setting (name, value) values ('eventRetention', '0');
select t.a_click('U7'), pgwhen.emit('ordered', 'U8');
select t.process();
select results_eq(
    $$ select e.type from pgwhen.event as e where e.user_id in ('U7', 'U8') $$,
    array['campaign_click'], 'a click is kept though eventRetention is 0'
);

select finish();
rollback;
