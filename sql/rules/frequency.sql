-- Frequencies: how often one rule may fire for one user.
--
-- A rolling period runs from one event's time to the next one's; days are 24 hours and months 30
-- days, so that a period is as long in March as in November. A calendar period ends at midnight
-- in the user's time zone. `once` needs neither: one reservation stands for ever.

create or replace function _pgwhen.frequencies()
returns jsonb
language sql
immutable
as $$
select '[
    "always", "once", "once_per_minute", "once_per_hour", "once_per_day", "once_per_week",
    "once_per_month", "once_per_calendar_day", "once_per_calendar_week", "once_per_calendar_month"
]'::pg_catalog.jsonb;
$$;

-- Null where neither frequency nor cooldown makes a rolling period; of two, the longer.
create or replace function _pgwhen.frequency_period(frequency text, cooldown_seconds integer)
returns interval
language sql
immutable
as $$
select greatest(
    case frequency_period.frequency
        when 'once_per_minute' then interval '1 minute'
        when 'once_per_hour' then interval '1 hour'
        when 'once_per_day' then interval '24 hours'
        when 'once_per_week' then interval '168 hours'
        when 'once_per_month' then interval '720 hours'
    end,
    make_interval(secs => nullif(frequency_period.cooldown_seconds, 0))
);
$$;

create or replace function _pgwhen.frequency_calendar(frequency text)
returns text
language sql
immutable
as $$
select substring(frequency_calendar.frequency from '^once_per_calendar_(.*)$');
$$;
