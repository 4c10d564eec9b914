-- set_attribute {"attribute": name, "value": any}: several for one user are merged, the later one
-- wins. What changes nothing writes nothing, and so is no event. Lock order: users by (account,
-- user).

create or replace function _pgwhen.set_attribute(
    line_oa_id text[],
    user_id text[],
    config jsonb[]
)
returns jsonb[]
language plpgsql
volatile
as $$
begin
    perform
    from pgwhen.line_user as u
    where (u.line_oa_id, u.user_id) in (
        select i.line_oa_id, i.user_id
        from unnest(set_attribute.line_oa_id, set_attribute.user_id) as i (line_oa_id, user_id)
    )
    order by u.line_oa_id, u.user_id
    for no key update;

    update pgwhen.line_user as u
    set attributes = u.attributes || p.patch, updated_date = _pgwhen.clock()
    from (
        select
            i.line_oa_id,
            i.user_id,
            jsonb_object_agg(i.config ->> 'attribute', i.config -> 'value' order by i.n) as patch
        from
            unnest(set_attribute.line_oa_id, set_attribute.user_id, set_attribute.config)
            with ordinality as i (line_oa_id, user_id, config, n)
        group by i.line_oa_id, i.user_id
    ) as p
    where
        u.line_oa_id = p.line_oa_id
        and u.user_id = p.user_id
        and u.attributes || p.patch is distinct from u.attributes;

    return array(
        select case when u.user_id is null
            then '{"error": "there is no such user in pgwhen.line_user"}'::jsonb else '{}' end
        from
            unnest(set_attribute.line_oa_id, set_attribute.user_id)
            with ordinality as i (line_oa_id, user_id, n)
        left join pgwhen.line_user as u on u.line_oa_id = i.line_oa_id and u.user_id = i.user_id
        order by i.n
    );
end;
$$;
