create or replace function pgwhen.matches(
    condition jsonb,
    facts jsonb,
    as_of timestamptz default null,
    audiences text[] default '{}'
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_compiled constant _pgwhen.compiled := _pgwhen.compile_condition(matches.condition);
begin
    if jsonb_typeof(matches.facts) is distinct from 'object' then
        raise exception 'facts is an object, not %', coalesce(jsonb_typeof(matches.facts), 'NULL')
            using
                errcode = 'PW110',
                hint = 'Pass the whole document: {"user": {"tier": "gold"}, "event": {…}}.';
    end if;
    return _pgwhen.holds(
        v_compiled.path, v_compiled.vars, v_compiled.needs,
        matches.facts, coalesce(matches.as_of, _pgwhen.clock()), matches.audiences
    );
end;
$$;

comment on function pgwhen.matches(jsonb, jsonb, timestamptz, text[]) is
$doc$Tell whether a condition holds of a document: true or false, never NULL.

condition is MongoDB query syntax (docs/conditions.md); {} and NULL hold always. facts is the whole
document {"user": {…}, "event": {…}}. as_of is what {"$now": …} counts from, by default the clock.
audiences names those that the user is a member of, for {"$audience": "…"}. The same code judges
rules. It compiles the condition on every call: for many rows, put the condition into a rule.

Raises PW101 to PW109, with the place of the fault, for a condition that a rule could not have
either; PW110 where facts is not an object.

  select pgwhen.matches(
      condition => '{"user.points": {"$gte": 100}, "user.tier": {"$in": ["gold", "silver"]}}',
      facts => '{"user": {"tier": "gold", "points": 120}}'
  );
$doc$;
