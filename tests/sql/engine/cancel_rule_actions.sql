-- _pgwhen.cancel_rule_actions: a rule that is deleted takes its pending actions with it.
begin;
\ir ../helpers.psql
select plan(9);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('doomed', frequency => 'once') as doomed \gset
select t.a_rule('spared') as spared \gset
select pgwhen.emit('ordered', 'U' || n) from generate_series(1, 3) as n;
select t.process();
set local pgwhen.by_engine = on;
update pgwhen.scheduled_action
set
    status = 'processing',
    claim_token = gen_random_uuid(),
    deadline = '2030-01-07 12:05+00',
    worker = 'w-1'
where user_id = 'U1';
reset pgwhen.by_engine;
create view t.state as
select r.name, a.user_id, a.status, a.error_message
from pgwhen.scheduled_action as a
inner join pgwhen.trigger_rule as r on a.trigger_rule_id = r.id
where r.name = 'doomed';

update pgwhen.trigger_rule set enabled = false where id = :doomed;
select set_eq(
    'select s.status from t.state as s', array['processing', 'pending'],
    'is not called for a rule that is disabled'
);
update pgwhen.trigger_rule set deleted_date = '2030-01-07' where id = :doomed;
select results_eq(
    'select s.user_id, s.status, s.error_message from t.state as s order by s.user_id',
    $$ values ('U1', 'processing', null), ('U2', 'cancelled', 'rule_deleted'), ('U3', 'cancelled',
        'rule_deleted') $$,
    'cancels what is pending, with the reason; what runs is not stopped'
);
select is(
    t.log_of(:doomed), array['cancelled: rule_deleted', 'cancelled: rule_deleted'], 'logs each'
);
select results_eq(
    'select r.user_id from _pgwhen.reservation as r', array['U1'], 'gives their slots back'
);
select set_eq(
    format(
        'select a.status from pgwhen.scheduled_action as a where a.trigger_rule_id = %s', :spared
    ),
    array['processing', 'pending'], 'leaves other rules'' actions alone'
);
update pgwhen.trigger_rule set deleted_date = '2030-01-08' where id = :doomed;
select
    is(
        t.log_of(:doomed),
        array['cancelled: rule_deleted', 'cancelled: rule_deleted'],
        'happens once'
    );

-- The row itself gone is as good as soft deletion.
delete from pgwhen.trigger_rule where id = :spared;
select is(
    t.log_of(:spared), array['cancelled: rule_deleted', 'cancelled: rule_deleted'],
    'happens where the row is deleted'
);
select c.count from (
    select count(*) from pgwhen.complete_actions(
        'w-1',
        array(
            select a.id
            from pgwhen.scheduled_action as a
            where a.status = 'processing'
            order by a.id
        ),
        array(
            select a.claim_token
            from pgwhen.scheduled_action as a
            where a.status = 'processing'
            order by a.id
        )
    )
) as c \gset
select is(:count, 2, 'what ran when its rule went can still be completed');
select is((t.log_of(:spared))[3], 'success', 'and is logged under its rule');

select finish();
rollback;
