create or replace function pgwhen.exchange_actions(
    worker text,
    ids bigint[],
    tokens uuid[],
    results jsonb[] default null,
    batch_size integer default null,
    action_types text[] default null
)
returns setof pgwhen.claimed_action
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    perform _pgwhen.require_read_committed('exchange_actions');
    -- Only before the transaction has an id, and it gets one as soon as anything is settled.
    perform _pgwhen.raise_due_floors(_pgwhen.types_of(exchange_actions.action_types));
    return query
    select
        late.id, null::uuid, null::integer, null::timestamptz, null, null::jsonb, null, null, null,
        null::bigint, null::jsonb, null::uuid, null::bigint, null::text[], null::timestamptz,
        null::float8, null::jsonb, null::boolean, null::uuid,
        null::boolean
    from (
        select u from unnest(exchange_actions.ids) as u
        except
        select d
        from pgwhen.complete_actions(
            exchange_actions.worker,
            exchange_actions.ids,
            exchange_actions.tokens,
            exchange_actions.results
        ) as d
    ) as late (id)
    order by late.id;
    return query
    select c.*
    from pgwhen.claim_actions(
        exchange_actions.worker,
        exchange_actions.batch_size,
        exchange_actions.action_types
    ) as c;
end;
$$;

comment on function pgwhen.exchange_actions(
    text, bigint[], uuid[], jsonb[], integer, text[]
) is
$doc$Report claimed actions as done and claim the next ones: one call, one transaction, one commit.

Does what complete_actions() and then claim_actions() do, with their arguments. Returns the claims,
oldest due first, and before them, for each action that was no longer this claim's and was not
ended, a row of nothing but its id: a claim has a token, this has none. Where the call fails,
neither has happened.

Raises what those two raise.

  select * from pgwhen.exchange_actions(
      'w-1', '{7,8}', array[:token7, :token8]::uuid[], action_types => '{send_message}'
  );
$doc$;
