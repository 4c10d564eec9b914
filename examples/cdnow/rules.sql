-- What a CD shop wants to happen when its customers buy. Plain rows: change one, and the next
-- event goes by it.

insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
values
    (
        'welcome', 'attribute_changed',
        '{"attribute": "purchases", "from": null, "to": 1}',
        'log_message', '{"text": "Welcome"}', 'once'
    ),
    (
        'third purchase', 'attribute_changed',
        '{"attribute": "purchases", "to": 3}',
        'add_to_audience', '{"audience": "loyal"}', 'once'
    ),
    (
        'spent 100', 'attribute_changed',
        '{"attribute": "total_spent", "crosses": {"up": 100}}',
        'log_message', '{"text": "You have spent 100 dollars with us"}', 'once'
    ),
    (
        'spent 500', 'attribute_changed',
        '{"attribute": "total_spent", "crosses": {"up": 500}}',
        'log_message', '{"text": "You have spent 500 dollars with us"}', 'once'
    ),
    -- A rolling limit: however often somebody buys, at most one message in 7 days.
    (
        'thank you', 'attribute_changed',
        '{"attribute": "purchases"}',
        'log_message', '{"text": "Thank you"}', 'once_per_week'
    ),
    -- A condition on another attribute than the one that changed.
    (
        'big basket', 'attribute_changed',
        '{"attribute": "purchases", "condition": {"user.last_amount": {"$gte": 50}}}',
        'log_message', '{"text": "What a basket"}', 'once_per_month'
    ),
    -- $now is the time of the event: here the day of the purchase, in 1997 and 1998.
    (
        'back again', 'attribute_changed',
        '{
            "attribute": "last_purchase",
            "condition": {"event.old": {"$lt": {"$now": "-180 days"}}}
        }',
        'log_message', '{"text": "Good to see you again"}', 'always'
    );
