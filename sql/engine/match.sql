-- _pgwhen.match: the rules that ask for an event. By the index (key, source_type, line_oa_id), so
-- the cost depends on the rules that match and not on the rules that exist: the key comes first, as
-- `= any` on a later column may be left to a filter where statistics are stale. A rule looks
-- forward only: events from before it was enabled are none of its business.
--
-- Inlined where it is called, so that a batch of events is one nested loop over the index.

create or replace function _pgwhen.match(
    event_type text,
    line_oa_id text,
    keys text[],
    created_at timestamptz
)
returns setof _pgwhen.rule
language sql
stable
as $$
select r.*
from _pgwhen.rule as r
where
    r.source_type = match.event_type
    and r.line_oa_id = match.line_oa_id
    and r.key = any(match.keys)
    and r.enabled_date <= match.created_at;
$$;
