-- The one place where time is read. Tests replace it: pgTAP inside its transaction, a test with
-- several sessions by a committed replacement in a database of its own. Not a setting: in a
-- SECURITY DEFINER function that would let any caller forge time.

create or replace function _pgwhen.clock()
returns timestamptz
language sql
volatile
as $$
select pg_catalog.clock_timestamp();
$$;
