-- Column defaults that read the clock, and the guard on settings.

do $$
begin
    perform
        _pgwhen.ensure_default(
            c.relation::regclass, c.column_name,
            case c.column_name when 'at' then '_pgwhen.event_clock()' else '_pgwhen.clock()' end
        )
    from (values
        ('pgwhen.account', 'created_date'),
        ('pgwhen.line_user', 'created_date'),
        ('pgwhen.line_user', 'updated_date'),
        ('pgwhen.audience', 'created_date'),
        ('pgwhen.audience_member', 'added_date'),
        ('pgwhen.form_submission', 'at'),
        ('pgwhen.campaign_click', 'at'),
        ('pgwhen.friend_track_event', 'at'),
        ('pgwhen.booking_event', 'at'),
        ('pgwhen.workflow', 'created_date'),
        ('pgwhen.workflow', 'updated_date'),
        ('pgwhen.workflow_version', 'created_date'),
        ('pgwhen.trigger_rule', 'created_date'),
        ('pgwhen.trigger_rule', 'updated_date'),
        ('pgwhen.scheduled_action', 'execute_at'),
        ('pgwhen.scheduled_action', 'created_date'),
        ('pgwhen.scheduled_action', 'updated_at'),
        ('pgwhen.trigger_log', 'created_date')
    ) as c (relation, column_name);

    perform _pgwhen.ensure_trigger(
        'pgwhen.setting', 'check_setting', 'before insert or update',
        'for each row execute function _pgwhen.check_setting()'
    );
end;
$$;

insert into pgwhen.account (line_oa_id)
values ('default')
on conflict on constraint account_pkey do nothing;
