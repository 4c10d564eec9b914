-- Which table is which event.

do $$
declare
    v_source record;
begin
    perform _pgwhen.ensure_trigger(
        'pgwhen.line_user', t.name, t.timing,
        t.tables || ' for each statement execute function _pgwhen.write_attribute_events()'
    )
    from (values
        ('attribute_events_insert', 'after insert', 'referencing new table as new_rows'),
        ('attribute_events_update', 'after update',
            'referencing old table as old_rows new table as new_rows'),
        ('attribute_events_delete', 'after delete', 'referencing old table as old_rows')
    ) as t (name, timing, tables);

    for v_source in
        select *
        from (values
            ('form_submission', 'form_submitted', 'form_id', '{}'),
            ('campaign_click', 'campaign_click', 'campaign',
                '{"campaign": "campaign", "link": "link", "tracking_id": "trackingId"}'),
            ('friend_track_event', 'friend_track_event_inserted', 'event', '{}'),
            ('booking_event', 'booking_event', 'status',
                '{"booking_id": "bookingId", "status": "status"}')
        ) as s (relation, event_type, key_column, names)
    loop
        perform _pgwhen.ensure_trigger(
            format('pgwhen.%I', v_source.relation)::regclass, 'row_events_insert', 'after insert',
            format(
                'referencing new table as new_rows for each statement '
                'execute function _pgwhen.write_row_events(%L, %L, %L)',
                v_source.event_type, v_source.key_column, v_source.names
            )
        );
    end loop;
end;
$$;
