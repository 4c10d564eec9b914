-- What the shop says after a purchase. Plain rows, with the real times: three days and 24 hours.

insert into pgwhen.trigger_rule
    (name, source_type, source_config, action_type, action_config, frequency)
values
    -- Three days after a purchase, unless the customer has bought again: each purchase replaces
    -- the message that waits, so the last one is followed up.
    (
        'follow up', 'attribute_changed',
        '{"attribute": "purchases"}',
        'log_message',
        '{
            "text": "How do you like it?",
            "delay": {"seconds": 259200, "whenPending": "replace"}
        }',
        'always'
    ),
    -- To whom is new a link; who has not clicked it within 24 hours is sent it again, once: what
    -- follows a wait has none of its own.
    (
        'offer', 'attribute_changed',
        '{"attribute": "purchases", "from": null, "to": 1}',
        'log_message',
        '{
            "text": "Ten per cent off: https://cds.example/offer",
            "delay": {
                "waitForTracking": true,
                "after": "send",
                "tracking": {"link": "offer"},
                "expiresSeconds": 86400,
                "onExpire": {
                    "actionType": "log_message",
                    "actionConfig": {"text": "Once more, ten per cent off: https://cds.example/offer"}
                }
            }
        }',
        'once'
    );
