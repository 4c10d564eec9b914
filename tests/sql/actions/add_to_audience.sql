-- add_to_audience: the user becomes a member of an audience of this account.
begin;
\ir ../helpers.psql
select plan(9);

create view t.member as
select a.line_oa_id, a.name, m.user_id
from pgwhen.audience as a
inner join pgwhen.audience_member as m on a.id = m.audience_id;

select t.a_rule(
    'gold', action_type => 'add_to_audience', action_config => '{"audience": "gold members"}'
) as rule \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select results_eq(
    'table t.member', $$ values ('default', 'gold members', 'U1') $$,
    'makes an audience that does not exist, and the user its member'
);
select is(
    (select array_agg(l.audience_id) from pgwhen.trigger_log as l where l.trigger_rule_id = :rule),
    (select array_agg(a.id) from pgwhen.audience as a), 'is logged with the audience'
);
update pgwhen.audience_member set added_date = '2020-01-01 00:00+00';
select pgwhen.emit('ordered', 'U1');
select pgwhen.emit('ordered', 'U2');
select t.process();
select results_eq(
    'select m.user_id from t.member as m order by m.user_id', array['U1', 'U2'],
    'leaves a member a member'
);
select is(
    (select m.added_date from pgwhen.audience_member as m where m.user_id = 'U1'),
    '2020-01-01 00:00+00', 'who has been one since then'
);
select is((select count(*) from pgwhen.audience), 1::bigint, 'makes an audience once');
select is(t.log_of(:rule), array['success', 'success', 'success'], 'succeeds either way');

create table t.answer as
select r.n, r.result
from unnest(
    _pgwhen.add_to_audience(
        array['shop', 'default', 'shop', 'shop'], array['U5', 'U5', 'U6', 'U5'],
        array(
            select jsonb_build_object('audience', a.name)
            from unnest(array['b', 'b', 'a', 'b']) with ordinality as a (name, n) order by a.n
        )
    )
) with ordinality as r (result, n);
select results_eq(
    $$
    select r.n, a.line_oa_id, a.name
    from t.answer as r
    inner join pgwhen.audience as a on (r.result ->> 'audienceId')::bigint = a.id
    order by r.n
    $$,
    $$ values (1::bigint, 'shop', 'b'), (2, 'default', 'b'), (3, 'shop', 'a'), (4, 'shop', 'b') $$,
    'answers for a batch in its order, each in its own account'
);
select bag_eq(
    $$ select * from t.member where name in ('a', 'b') $$,
    $$ values ('shop', 'b', 'U5'), ('default', 'b', 'U5'), ('shop', 'a', 'U6') $$,
    'keeps accounts apart'
);
select is(
    _pgwhen.add_to_audience('{}', '{}', '{}'), '{}', 'does nothing for nobody'
);

select finish();
rollback;
