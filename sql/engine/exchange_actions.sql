create or replace function pgwhen.exchange_actions(
    worker text,
    ids bigint[],
    tokens uuid[],
    results jsonb[] default null,
    batch_size integer default null,
    action_types text[] default null
)
returns table (settled bigint[], actions json[])
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
    settled := array(
        select s
        from pgwhen.complete_actions(
            exchange_actions.worker,
            exchange_actions.ids,
            exchange_actions.tokens,
            exchange_actions.results
        ) as s
    );
    actions := array(
        select to_json(c)
        from pgwhen.claim_actions(
            exchange_actions.worker,
            exchange_actions.batch_size,
            exchange_actions.action_types
        ) as c
    );
    return next;
end;
$$;

comment on function pgwhen.exchange_actions(
    text, bigint[], uuid[], jsonb[], integer, text[]
) is
$doc$Report claimed actions as done and claim the next ones: one call, one transaction, one commit.

Does what complete_actions() and then claim_actions() do, with their arguments. settled are the ids
that were really ended, actions the claims, oldest due first, each an object with the columns of
claim_actions(). Where the call fails neither has happened.

Raises what those two raise.

  select * from pgwhen.exchange_actions(
      'w-1', '{7,8}', array[:token7, :token8]::uuid[], action_types => '{send_message}'
  );
$doc$;
