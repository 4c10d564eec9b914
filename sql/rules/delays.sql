-- What action_config.delay may say. The delay is pgwhen's; the rest of the config is the action's.

create or replace function _pgwhen.delay_schema()
returns jsonb
language sql
immutable
as $doc$
select $${
    "title": "delay: when the action is executed, if not at once",
    "type": "object",
    "description": "Say when, for example {\"seconds\": 3600}; see docs/delays.md.",
    "additionalProperties": false,
    "minProperties": 1,
    "properties": {
        "seconds": {
            "type": "number", "minimum": 0, "maximum": 315360000,
            "description": "Seconds from the moment the rule fires, at most 315360000 (ten years)."
        },
        "delaySeconds": {
            "type": "number", "minimum": 0, "maximum": 315360000,
            "description": "The older name of \"seconds\": at most 315360000 (ten years)."
        },
        "at": {
            "type": "string",
            "pattern": "^[0-9]{4}-[0-9-]{5}[T ][0-9:.]+(Z|[+-][0-9:]{2,5})$",
            "description": "An instant with its offset, for example \"2026-11-30T09:00:00+07:00\"."
        },
        "until": {
            "type": "object", "additionalProperties": false, "required": ["field"],
            "description": "For example {\"field\": \"event.data.at\", \"offset\": \"-1 day\"}.",
            "properties": {
                "field": {
                    "type": "string", "minLength": 1,
                    "description": "The field that holds the time, for example \"event.data.at\"."
                },
                "offset": {
                    "type": ["string", "number"], "minimum": -315360000, "maximum": 315360000,
                    "description": "\"-1 day\", \"2 hours\" or seconds; at most ten years each way."
                }
            }
        },
        "waitForTracking": {
            "type": "boolean",
            "description": "true waits for a click of the user; or leave it out."
        },
        "tracking": {
            "type": "object", "additionalProperties": false, "minProperties": 1,
            "description": "For example {\"link\": \"offer\"}; leave it out for any tracked click.",
            "properties": {
                "campaign": {
                    "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                    "description": "The campaign's name, for example \"nov\"."
                },
                "link": {
                    "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                    "description": "The link's name, for example \"offer\"."
                },
                "trackingId": {
                    "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                    "description": "The tracking_id of one tracked link."
                }
            }
        },
        "expiresSeconds": {
            "type": "number", "minimum": 0, "maximum": 315360000,
            "description": "Seconds that the wait lasts, at most 315360000 (ten years)."
        },
        "onExpire": {
            "type": "object", "additionalProperties": false, "required": ["actionType"],
            "description": "What to do without a click: {\"actionType\": …, \"actionConfig\": …}.",
            "properties": {
                "actionType": {
                    "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                    "description": "An action such as \"add_to_audience\", or one that you serve."
                },
                "actionConfig": {
                    "type": "object", "description": "An object, for example {}."
                }
            }
        },
        "onClick": {
            "type": "object", "additionalProperties": false, "required": ["actionType"],
            "description": "What a click does: {\"actionType\": …, \"actionConfig\": …}.",
            "properties": {
                "actionType": {
                    "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
                    "description": "An action such as \"add_to_audience\", or one that you serve."
                },
                "actionConfig": {
                    "type": "object", "description": "An object, for example {}."
                }
            }
        },
        "after": {
            "enum": ["send"],
            "description": "\"send\" executes the action at once, then waits; or leave it out."
        },
        "reEvaluateConditions": {
            "type": "boolean",
            "description": "true judges the rule's condition again when the time has come."
        },
        "whenPending": {
            "enum": ["skip", "replace", "add"],
            "description": "Where the user has such an action pending already; skip is the default."
        },
        "onRuleDisabled": {
            "enum": ["cancel", "keep"],
            "description": "What becomes of it if the rule is disabled; cancel is the default."
        }
    }
}$$::pg_catalog.jsonb;
$doc$;
