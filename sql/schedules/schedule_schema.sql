-- What the source_config of a rule with source_type schedule may say; sources.sql adds what that of
-- every rule may.

create or replace function _pgwhen.schedule_schema()
returns jsonb
language sql
immutable
as $doc$
select $${
    "title": "schedule: a time, or many",
    "properties": {
        "at": {
            "type": "string", "maxLength": 40,
            "description": "Once: \"2026-11-30T09:00:00+07:00\", or a time of \"timezone\"."
        },
        "cron": {
            "type": "string", "maxLength": 1000,
            "description": "Minute, hour, day of month, month, day of week: \"0 9 * * 1\"."
        },
        "every": {
            "type": ["number", "string"],
            "description": "\"15 minutes\", \"2 weeks\" or a number of seconds; at most ten years."
        },
        "anchor": {
            "type": "string", "maxLength": 40,
            "description": "One of the times of \"every\", from which the others are counted."
        },
        "timezone": {
            "type": "string", "minLength": 1, "maxLength": 100,
            "description": "A name such as \"Asia/Bangkok\"; leave it out for UTC."
        },
        "dst": {
            "type": "object", "additionalProperties": false,
            "description": "What to do where clocks change, for example {\"gap\": \"skip\"}.",
            "properties": {
                "gap": {
                    "enum": ["shift", "skip"],
                    "description": "A time that does not exist: later (shift, the default), or not."
                },
                "overlap": {
                    "enum": ["first", "second", "both"],
                    "description": "Which of a time that comes twice; first is the default."
                }
            }
        },
        "start": {
            "type": "string", "maxLength": 40,
            "description": "Nothing before it, for example \"2026-11-30T09:00:00+07:00\"."
        },
        "end": {
            "type": "string", "maxLength": 40,
            "description": "Nothing at it or after it, for example \"2026-12-31T00:00:00+07:00\"."
        },
        "jitter": {
            "type": ["number", "string"], "minimum": 0, "maximum": 86400,
            "description": "At most so much later, \"5 minutes\" or a number of seconds, to a day."
        },
        "overlap": {
            "enum": ["skip", "queue", "allow"],
            "description": "Where the round before still runs; skip is the default."
        },
        "catchUp": {
            "type": ["string", "object"], "pattern": "^(none|last|all)$",
            "additionalProperties": false,
            "description": "\"none\", \"last\" or \"all\", or an object with \"policy\".",
            "properties": {
                "policy": {
                    "enum": ["none", "last", "all"],
                    "description": "Which rounds that were missed; last is the default."
                },
                "window": {
                    "type": ["number", "string"], "minimum": 1, "maximum": 315360000,
                    "description": "How late at most, \"1 hour\" or a number of seconds."
                },
                "cap": {
                    "type": "integer", "minimum": 1, "maximum": 10000,
                    "description": "How many at most, from 1 to 10000."
                }
            }
        },
        "audience": {
            "type": "string", "minLength": 1, "maxLength": 200, "pattern": "\\S",
            "description": "The audience's name, for example \"gold members\"."
        }
    }
}$$::pg_catalog.jsonb;
$doc$;
