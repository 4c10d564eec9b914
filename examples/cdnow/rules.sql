-- What a CD shop wants to happen when its customers buy. Plain rows: change one, and the next
-- event goes by it.

insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
values
    (
        'welcome', 'attribute_changed',
        '{"attribute": "purchases", "from": null, "to": 1}',
        'log_message', '{"text": "Welcome, customer {user_id}"}', 'once'
    ),
    (
        'third purchase', 'attribute_changed',
        '{"attribute": "purchases", "to": 3}',
        'add_to_audience', '{"audience": "loyal"}', 'once'
    ),
    (
        'spent 100', 'attribute_changed',
        '{"attribute": "total_spent", "crosses": {"up": 100}}',
        'log_message', '{"text": "Customer {user_id} has spent 100 dollars"}', 'once'
    ),
    (
        'spent 500', 'attribute_changed',
        '{"attribute": "total_spent", "crosses": {"up": 500}}',
        'log_message', '{"text": "Customer {user_id} has spent 500 dollars"}', 'once'
    ),
    -- A rolling limit: however often somebody buys, at most one message in 7 days.
    (
        'thank you', 'attribute_changed',
        '{"attribute": "purchases"}',
        'log_message', '{"text": "Thank you, customer {user_id}"}', 'once_per_week'
    ),
    -- A condition on another attribute than the one that changed.
    (
        'big basket', 'attribute_changed',
        '{"attribute": "purchases", "condition": {"user.last_amount": {"$gte": 50}}}',
        'log_message', '{"text": "Customer {user_id} filled a basket"}', 'once_per_month'
    ),
    -- $now is the time of the event: here the day of the purchase, in 1997 and 1998.
    (
        'back again', 'attribute_changed',
        '{"attribute": "last_purchase", "condition": {"event.old": {"$lt": {"$now": "-180 days"}}}}',
        'log_message', '{"text": "Customer {user_id} is back"}', 'always'
    );
