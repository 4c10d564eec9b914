-- docs/schema: the files say what the functions check. Run at the root of the repository; where a
-- file differs, docs/schema/write.psql writes it anew.
begin;
select plan(18);

create function pg_temp.agrees(document text, schema jsonb, title text) returns text
language sql as $$
select is(nullif(document, '')::jsonb - '$schema', schema, title);
$$;

\set document `cat docs/schema/rule.json`
select pg_temp.agrees(:'document', _pgwhen.rule_schema(), 'rule.json');
\set document `cat docs/schema/delay.json`
select pg_temp.agrees(:'document', _pgwhen.delay_schema(), 'delay.json');
\set document `cat docs/schema/retry_policy.json`
select pg_temp.agrees(:'document', _pgwhen.retry_policy_schema(), 'retry_policy.json');
\set document `cat docs/schema/config_schema.json`
select pg_temp.agrees(:'document', _pgwhen.schema_of_schemas(), 'config_schema.json');

\set document `cat docs/schema/source/attribute_changed.json`
select pg_temp.agrees(:'document', _pgwhen.source_schema('attribute_changed'), 'attribute_changed');
\set document `cat docs/schema/source/form_submitted.json`
select pg_temp.agrees(:'document', _pgwhen.source_schema('form_submitted'), 'form_submitted');
\set document `cat docs/schema/source/campaign_click.json`
select pg_temp.agrees(:'document', _pgwhen.source_schema('campaign_click'), 'campaign_click');
\set document `cat docs/schema/source/friend_track_event_inserted.json`
select pg_temp.agrees(
    :'document', _pgwhen.source_schema('friend_track_event_inserted'), 'friend_track_event_inserted'
);
\set document `cat docs/schema/source/booking_event.json`
select pg_temp.agrees(:'document', _pgwhen.source_schema('booking_event'), 'booking_event');
\set document `cat docs/schema/source/schedule.json`
select pg_temp.agrees(:'document', _pgwhen.source_schema('schedule'), 'schedule');
\set document `cat docs/schema/source/any_other.json`
select pg_temp.agrees(:'document', _pgwhen.source_schema('order_paid'), 'any_other');

create function pg_temp.built_in(action_type text) returns jsonb language sql as $$
select t.config_schema from _pgwhen.action_type as t where t.name = action_type and t.builtin;
$$;
\set document `cat docs/schema/action/add_to_audience.json`
select pg_temp.agrees(:'document', pg_temp.built_in('add_to_audience'), 'add_to_audience');
\set document `cat docs/schema/action/remove_from_audience.json`
select
    pg_temp.agrees(:'document', pg_temp.built_in('remove_from_audience'), 'remove_from_audience');
\set document `cat docs/schema/action/set_attribute.json`
select pg_temp.agrees(:'document', pg_temp.built_in('set_attribute'), 'set_attribute');
\set document `cat docs/schema/action/emit_event.json`
select pg_temp.agrees(:'document', pg_temp.built_in('emit_event'), 'emit_event');
\set document `cat docs/schema/action/log_message.json`
select pg_temp.agrees(:'document', pg_temp.built_in('log_message'), 'log_message');

select set_eq(
    $$select a.attname::text from pg_attribute as a
    where a.attrelid = 'pgwhen.trigger_rule'::regclass and a.attnum > 0 and not a.attisdropped$$,
    $$select jsonb_object_keys(_pgwhen.rule_schema() -> 'properties')$$,
    'rule.json knows the columns of pgwhen.trigger_rule'
);
\set readme `cat docs/schema/README.md`
select is(
    array(
        select k
        from jsonb_object_keys(_pgwhen.schema_of_schemas() -> 'properties') as k
        where position('`' || k || '`' in :'readme') = 0
    ),
    '{}', 'README.md names each keyword'
);

select finish();
rollback;
