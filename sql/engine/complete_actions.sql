create or replace function pgwhen.complete_actions(
    worker text,
    ids bigint[],
    tokens uuid[],
    results jsonb[] default null
)
returns setof bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    perform _pgwhen.require_read_committed('complete_actions');
    perform _pgwhen.check_worker(complete_actions.worker);
    perform _pgwhen.check_claims(ids, tokens, cardinality(results));
    perform _pgwhen.check_results(complete_actions.results);

    return query
    select s
    from _pgwhen.settle(array(
        select _pgwhen.ending_of_action(i.id, i.token, 'success', null, i.result)
        from unnest(ids, tokens, results) as i (id, token, result)
        order by i.id
    )) as s;
end;
$$;

comment on function pgwhen.complete_actions(text, bigint[], uuid[], jsonb[]) is
$doc$Report claimed actions as done, many at once; returns the ids that this call really ended.

An id that is missing from the answer was no longer this claim's: its deadline had passed, or it
was cancelled. Nothing was changed for it. results, where given, are kept with the actions.

Raises PW302 where the arrays differ in length or hold nulls, PW303 where a result has more bytes
than the setting resultLimit, PW202 outside READ COMMITTED.

  select pgwhen.complete_actions('w-1', '{7,8}', array[:token7, :token8]::uuid[]);
$doc$;

create or replace function _pgwhen.check_claims(ids bigint[], tokens uuid[], others integer)
returns void
language plpgsql
immutable
as $$
begin
    if cardinality(ids) is distinct from cardinality(tokens)
        or cardinality(ids) <> coalesce(others, cardinality(ids))
        or array_position(ids, null) is not null
        or array_position(tokens, null) is not null
    then
        raise exception 'every action needs its id, its token and its own entry in each array'
            using errcode = 'PW302',
                hint = 'Pass arrays of equal length, as claim_actions() gave them.';
    end if;
end;
$$;
