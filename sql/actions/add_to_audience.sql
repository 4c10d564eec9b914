-- add_to_audience {"audience": name}: an audience that does not exist yet is made; a member stays
-- one. Lock order: audiences by (account, name), then members by (audience, user).

create or replace function _pgwhen.add_to_audience(
    line_oa_id text[],
    user_id text[],
    config jsonb[]
)
returns jsonb[]
language plpgsql
volatile
as $$
declare
    v_audiences bigint[];
begin
    insert into pgwhen.audience (line_oa_id, name)
    select i.line_oa_id, i.name
    from (
        select distinct i.line_oa_id, i.config ->> 'audience' as name
        from unnest(add_to_audience.line_oa_id, add_to_audience.config) as i (line_oa_id, config)
    ) as i
    where not exists (
        select from pgwhen.audience as a where a.line_oa_id = i.line_oa_id and a.name = i.name
    )
    order by i.line_oa_id, i.name
    on conflict on constraint uq_audience_name do nothing;

    v_audiences := _pgwhen.audience_ids(add_to_audience.line_oa_id, add_to_audience.config);

    insert into pgwhen.audience_member (audience_id, user_id)
    select distinct i.audience_id, i.user_id
    from unnest(v_audiences, add_to_audience.user_id) as i (audience_id, user_id)
    order by 1, 2
    on conflict on constraint audience_member_pkey do nothing;

    return array(
        select jsonb_build_object('audienceId', i.id)
        from unnest(v_audiences) with ordinality as i (id, n)
        order by i.n
    );
end;
$$;

-- The ids of audiences by name, null where there is none. Each is looked up once, however many ask
-- for it; a full join adds no row, and cannot be planned as a nested loop.
create or replace function _pgwhen.audience_ids(line_oa_id text[], config jsonb[])
returns bigint[]
language plpgsql
stable
as $$
begin
    return array(
        with asked as materialized (
            select i.n, i.line_oa_id, i.config ->> 'audience' as name
            from
                unnest(audience_ids.line_oa_id, audience_ids.config)
                with ordinality as i (line_oa_id, config, n)
        ),
        found as (
            select
                d.line_oa_id,
                d.name,
                (
                    select a.id
                    from pgwhen.audience as a
                    where a.line_oa_id = d.line_oa_id and a.name = d.name
                ) as id
            from (select distinct a.line_oa_id, a.name from asked as a) as d
        )
        select f.id
        from asked as a
        full join found as f on f.line_oa_id = a.line_oa_id and f.name = a.name
        order by a.n
    );
end;
$$;
