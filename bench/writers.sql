-- Rules and users of the writers measure. Each event holds the id of the transaction that wrote it.

create schema bench;

insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
values
    ('gold', 'attribute_changed',
        '{"attribute": "writer", "condition": {"user.tier": "gold"}}',
        'add_to_audience', '{"audience": "gold"}', 'once_per_day'),
    ('silver', 'attribute_changed',
        '{"attribute": "writer", "condition": {"user.tier": "silver"}}',
        'add_to_audience', '{"audience": "silver"}', 'always'),
    ('some', 'attribute_changed',
        '{"attribute": "writer", "condition": {"user.group": 0}}',
        'note_start', '{}', 'always');

create procedure bench.load(users integer)
language plpgsql
as $$
begin
    perform pgwhen.mute();
    insert into pgwhen.line_user (user_id, attributes)
    select
        'U' || i,
        jsonb_build_object(
            'tier', (array['gold', 'silver'])[1 + i % 2],
            'group', i % 20,
            'display_name', 'Customer ' || i,
            'city', (array['Bangkok', 'Chiang Mai', 'Phuket'])[1 + i % 3],
            'total_spent', i * 7919 % 100000 / 100.0
        )
    from generate_series(1, load.users) as i;
end;
$$;
