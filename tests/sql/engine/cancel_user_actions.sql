-- _pgwhen.cancel_user_actions: users who are deleted take their pending actions with them.
begin;
\ir ../helpers.psql
select plan(10);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r', frequency => 'once') as rule \gset
insert into pgwhen.line_user (user_id) select 'U' || n from generate_series(1, 4) as n;
insert into pgwhen.line_user (line_oa_id, user_id) values ('other', 'U2');
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 5) as n;
select t.process();
select t.an_action(user_id => 'U2', execute_at => '2031-01-01 00:00+00');
select t.an_action(user_id => 'U2', retry_count => 1, trigger_rule_id => :rule);

create function t.state(of_user text) returns text[] language sql as $$
select array(
    select concat_ws(': ', a.status, a.error_message)
    from pgwhen.scheduled_action as a where a.user_id = state.of_user order by a.id
);
$$;

delete from pgwhen.line_user where line_oa_id = 'other';
select is(
    t.state('U2'), array['pending', 'pending', 'pending'], 'another account''s user is not meant'
);

select c.id, c.token from pgwhen.claim_actions('w-1', 1) as c \gset
select is(t.state('U1'), array['processing'], 'U1 is being served');
delete from pgwhen.line_user where user_id in ('U1', 'U2', 'U3');
select is(
    t.state('U2'),
    array['cancelled: user_deleted', 'cancelled: user_deleted', 'cancelled: user_deleted'],
    'cancels whatever is pending, due or not'
);
select is(t.state('U3'), array['cancelled: user_deleted'], 'of each of the users');
select is(t.state('U1'), array['processing'], 'what runs is not stopped');
select is(t.state('U4') || t.state('U5'), array['pending', 'pending'], 'others are not touched');
select set_eq(
    format('select r.user_id from _pgwhen.reservation as r where r.trigger_rule_id = %s', :rule),
    array['U1', 'U4', 'U5'], 'slots are given back'
);
select is(
    (
        select array_agg(distinct l.status || ': ' || l.error_message)
        from pgwhen.trigger_log as l
    ),
    array['cancelled: user_deleted'], 'it is logged'
);

-- What ran when its user was deleted, and failed, is asked when it is tried again.
select pgwhen.fail_actions(
    'w-1', array[:id], array[:'token'::uuid], array['{"nextRetryDelay": 0}'::jsonb]
);
select set_eq(
    $$ select c.user_id from pgwhen.claim_actions('w-1') as c $$, array['U4', 'U5'],
    'what ran then is not tried again'
);
select is(t.state('U1'), array['cancelled: user_deleted'], 'with the reason');

select finish();
rollback;
