-- remove_from_audience {"audience": name}: who is not a member, or no such audience, is no error.
-- Lock order: members by (audience, user).

create or replace function _pgwhen.remove_from_audience(
    line_oa_id text[],
    user_id text[],
    config jsonb[]
)
returns jsonb[]
language plpgsql
volatile
as $$
declare
    v_audiences constant bigint[] := _pgwhen.audience_ids(
        remove_from_audience.line_oa_id, remove_from_audience.config
    );
begin
    perform
    from pgwhen.audience_member as m
    where (m.audience_id, m.user_id) in (
        select i.audience_id, i.user_id
        from unnest(v_audiences, remove_from_audience.user_id) as i (audience_id, user_id)
    )
    order by m.audience_id, m.user_id
    for update;

    delete from pgwhen.audience_member as m
    using unnest(v_audiences, remove_from_audience.user_id) as i (audience_id, user_id)
    where m.audience_id = i.audience_id and m.user_id = i.user_id;

    return array(
        select jsonb_strip_nulls(jsonb_build_object('audienceId', i.id))
        from unnest(v_audiences) with ordinality as i (id, n)
        order by i.n
    );
end;
$$;
