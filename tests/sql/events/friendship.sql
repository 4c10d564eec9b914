-- _pgwhen.keep_friendship: line_user.is_friend follows the friend events.
begin;
\ir ../helpers.psql
select plan(10);

create function t.friends() returns text[] language sql as $$
select array(
    select u.line_oa_id || ' ' || u.user_id || ' ' || u.is_friend
    from pgwhen.line_user as u
    order by 1
);
$$;
select t.a_user('U1', '{"tier": "gold"}');
delete from _pgwhen.outbox;

insert into pgwhen.friend_track_event (user_id, event)
values ('U1', 'unfollow'), ('U2', 'unfollow');
select is(
    t.friends(), array['default U1 false', 'default U2 false'],
    'an unfollow ends a friendship, also of a user who had no row'
);
select is(
    (select u.attributes from pgwhen.line_user as u where u.user_id = 'U1'), '{"tier": "gold"}',
    'attributes stay'
);
select results_eq(
    'select o.type, o.key, o.user_id from _pgwhen.outbox as o order by o.id',
    $$ values ('friend_track_event_inserted', 'unfollow', 'U1'),
        ('friend_track_event_inserted', 'unfollow', 'U2') $$,
    'it is one event each, as before'
);

insert into pgwhen.friend_track_event (user_id, event) values ('U1', 'follow');
select is(t.friends(), array['default U1 true', 'default U2 false'], 'a follow begins one');
insert into pgwhen.friend_track_event (user_id, event) values ('U1', 'blocked a while');
select is(t.friends(), array['default U1 true', 'default U2 false'], 'other events say nothing');

insert into pgwhen.friend_track_event (user_id, event, at) values
('U1', 'unfollow', now() - interval '1 day');
select is((t.friends())[1], 'default U1 true', 'one that comes late changes nothing');
insert into pgwhen.friend_track_event (user_id, event, at) values
('U1', 'follow', now() + interval '2 hours'),
('U1', 'unfollow', now() + interval '3 hours'),
('U1', 'follow', now() + interval '1 hour');
select is((t.friends())[1], 'default U1 false', 'of several, the latest counts');

insert into pgwhen.friend_track_event (line_oa_id, user_id, event) values ('other', 'U1', 'follow');
select is(
    t.friends(), array['default U1 false', 'default U2 false', 'other U1 true'],
    'an account''s friends are its own'
);

select pgwhen.mute();
insert into pgwhen.friend_track_event (user_id, event) values ('U2', 'follow');
select is((t.friends())[2], 'default U2 true', 'muted events count: they are facts');

update pgwhen.line_user set is_friend = false, friend_changed_at = null where user_id = 'U2';
insert into pgwhen.friend_track_event (user_id, event, at) values ('U2', 'follow', '2001-01-01');
select is((t.friends())[2], 'default U2 true', 'where no event is known, any counts');

select finish();
rollback;
