-- line_user.is_friend follows the friend events: a `follow` makes a friend, an `unfollow` ends it,
-- whether or not the user had a row, and whether or not events are muted. Goes by the time of the
-- events, because a webhook that is delivered again comes late.

create or replace function _pgwhen.keep_friendship()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
begin
    insert into pgwhen.line_user as u (line_oa_id, user_id, is_friend, friend_changed_at)
    select distinct on (n.line_oa_id, n.user_id)
        n.line_oa_id, n.user_id, n.event = 'follow', n.at
    from new_rows as n
    where n.event in ('follow', 'unfollow')
    order by n.line_oa_id, n.user_id, n.at desc, n.id desc
    on conflict on constraint line_user_pkey do update
    set
        is_friend = excluded.is_friend,
        friend_changed_at = excluded.friend_changed_at,
        updated_date = excluded.updated_date
    where
        excluded.friend_changed_at >= u.friend_changed_at
        or u.friend_changed_at is null;
    return null;
end;
$$;

do $$
begin
    perform _pgwhen.ensure_trigger(
        'pgwhen.friend_track_event', 'keep_friendship', 'after insert',
        'referencing new table as new_rows '
        'for each statement execute function _pgwhen.keep_friendship()'
    );
end;
$$;
