-- remove_from_audience: the user leaves an audience of this account.
begin;
\ir ../helpers.psql
select plan(6);

create view t.member as
select a.line_oa_id, a.name, m.user_id
from pgwhen.audience as a
inner join pgwhen.audience_member as m on a.id = m.audience_id;

select _pgwhen.add_to_audience(
    array['default', 'default', 'shop'], array['U1', 'U2', 'U1'],
    array['{"audience": "gold"}', '{"audience": "gold"}', '{"audience": "gold"}']::jsonb[]
);
select t.a_rule(
    'leave', action_type => 'remove_from_audience', action_config => '{"audience": "gold"}'
) as rule \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select bag_eq(
    'table t.member', $$ values ('default', 'gold', 'U2'), ('shop', 'gold', 'U1') $$,
    'takes this user out of this account''s audience'
);
select pgwhen.emit('ordered', 'U1');
select t.process();
select is(t.log_of(:rule), array['success', 'success'], 'is content where there is no member');

update pgwhen.trigger_rule set action_config = '{"audience": "nobody knows"}' where id = :rule;
select pgwhen.emit('ordered', 'U2');
select t.process();
select is(t.log_of(:rule), array['success', 'success', 'success'], 'or no such audience');
select is((select count(*) from pgwhen.audience), 2::bigint, 'which it does not make');

select results_eq(
    $$
    select r.result - 'audienceId', r.result ? 'audienceId'
    from unnest(
        _pgwhen.remove_from_audience(
            array['shop', 'default', 'default'], array['U1', 'U2', 'U2'],
            array['{"audience": "gold"}', '{"audience": "none"}', '{"audience": "gold"}']::jsonb[]
        )
    ) as r (result)
    $$,
    $$ values ('{}'::jsonb, true), ('{}', false), ('{}', true) $$,
    'answers for a batch in its order'
);
select is_empty('table t.member', 'and does what it says');

select finish();
rollback;
