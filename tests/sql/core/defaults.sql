-- Column defaults that read the clock, and what stands in tables from the start.
begin;
\ir ../helpers.psql
select plan(6);

select t.it_is('2030-01-07 12:00+00');

-- Public columns of time that may be left out of an INSERT.
select bag_eq(
    $$
    select c.relname || '.' || a.attname || ': ' || pg_get_expr(d.adbin, d.adrelid)
    from pg_attrdef as d
    inner join pg_attribute as a on d.adrelid = a.attrelid and d.adnum = a.attnum
    inner join pg_class as c on d.adrelid = c.oid
    where
        c.relnamespace = 'pgwhen'::regnamespace
        and c.relispartition is false
        and a.atttypid = 'timestamptz'::regtype
    $$,
    $$
    values
        ('account.created_date: _pgwhen.clock()'),
        ('line_user.created_date: _pgwhen.clock()'),
        ('line_user.updated_date: _pgwhen.clock()'),
        ('audience.created_date: _pgwhen.clock()'),
        ('audience_member.added_date: _pgwhen.clock()'),
        ('form_submission.at: _pgwhen.event_clock()'),
        ('campaign_click.at: _pgwhen.event_clock()'),
        ('friend_track_event.at: _pgwhen.event_clock()'),
        ('booking_event.at: _pgwhen.event_clock()'),
        ('workflow.created_date: _pgwhen.clock()'),
        ('workflow.updated_date: _pgwhen.clock()'),
        ('workflow_version.created_date: _pgwhen.clock()'),
        ('trigger_rule.created_date: _pgwhen.clock()'),
        ('trigger_rule.updated_date: _pgwhen.clock()'),
        ('scheduled_action.execute_at: _pgwhen.clock()'),
        ('scheduled_action.created_date: _pgwhen.clock()'),
        ('scheduled_action.updated_at: _pgwhen.clock()'),
        ('trigger_log.created_date: _pgwhen.clock()')
    $$,
    'the columns that default to the clock are these'
);

insert into pgwhen.audience (name) values ('gold members');
select is(
    (select a.created_date from pgwhen.audience as a), '2030-01-07 12:00+00',
    'a row that says no time has the clock''s'
);

select pgwhen.event_time('1997-01-18 00:00+00');
insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote');
select is(
    (select f.at from pgwhen.form_submission as f), '1997-01-18 00:00+00',
    'a source row that says no time has the event time'
);

select results_eq(
    $$ select line_oa_id, organization_id, time_zone from pgwhen.account $$,
    $$ values ('default', 'default', 'UTC') $$,
    'there is the account that one need not think of'
);
select has_trigger('pgwhen', 'setting', 'check_setting', 'settings are checked');
insert into pgwhen.trigger_rule (name, source_type, action_type, action_config)
values ('r', 'ordered', 'log_message', '{"text": "hello"}');
select results_eq(
    $$ select line_oa_id, organization_id, enabled, frequency from pgwhen.trigger_rule $$,
    $$ values ('default', 'default', true, 'once_per_hour') $$,
    'a rule needs no more than when and what'
);

select finish();
rollback;
