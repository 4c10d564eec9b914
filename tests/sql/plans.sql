-- What a call costs does not depend on what it has nothing to do with: rules that do not match,
-- actions that are not due, events behind its batch, history. Neither with plans that were made
-- when the tables were empty, nor with new ones from statistics that say they still are.
--
-- Counted, not timed: pages read by a call, whatever they hold, and rows read by sequential scans.
begin;
\ir helpers.psql
select plan(39);

select t.it_is('2030-01-07 12:00+00');

create table t.rows_before (relation regclass, rows bigint);
create function t.rows_scanned() returns setof t.rows_before language sql as $$
select s.relid::regclass, s.seq_tup_read
from pg_stat_xact_all_tables as s
where s.schemaname in ('pgwhen', '_pgwhen');
$$;
create function t.pages_of(statement text) returns bigint language plpgsql as $$
declare
    v_plan jsonb;
begin
    truncate t.rows_before;
    insert into t.rows_before select r.* from t.rows_scanned() as r;
    execute 'explain (analyze, buffers, timing off, format json) ' || pages_of.statement
    into v_plan;
    return (v_plan #> '{0,Plan,Shared Hit Blocks}')::bigint
        + (v_plan #> '{0,Plan,Shared Read Blocks}')::bigint;
end;
$$;
-- Tables of which the last statement scanned more than a handful of rows.
create view t.scanned as
select n.relation, n.rows - coalesce(o.rows, 0) as rows
from t.rows_scanned() as n
left join t.rows_before as o on n.relation = o.relation
where n.rows - coalesce(o.rows, 0) > 200;

create function t.costs(what text, statement text, pages integer) returns setof text
language plpgsql as $$
begin
    return next cmp_ok(
        t.pages_of(statement), '<=', pages::bigint, what || ' reads few pages'
    );
    return next is_empty('table t.scanned', what || ' scans no table');
end;
$$;

-- A claim to settle, kept from one statement to the next.
create table t.claim (id bigint, token uuid, n bigint);
create function t.claim(size integer) returns bigint language sql as $$
delete from t.claim;
insert into t.claim (id, token, n)
select c.id, c.token, row_number() over (order by c.id)
from pgwhen.claim_actions('w-1', claim.size, '{log_message}') as c;
select count(*) from t.claim;
$$;
create function t.complete(first integer, last integer) returns bigint language sql as $$
select count(*)
from pgwhen.complete_actions(
    'w-1',
    array(select c.id from t.claim as c where c.n between first and last order by c.n),
    array(select c.token from t.claim as c where c.n between first and last order by c.n)
);
$$;
create function t.fail(first integer, last integer) returns bigint language sql as $$
select count(*)
from pgwhen.fail_actions(
    'w-1',
    array(select c.id from t.claim as c where c.n between first and last order by c.n),
    array(select c.token from t.claim as c where c.n between first and last order by c.n),
    array_fill('{"nonRetryable": true}'::jsonb, array[last - first + 1])
);
$$;
create function t.release(first integer, last integer) returns bigint language sql as $$
select count(*)
from pgwhen.release_actions(
    'w-1',
    array(select c.id from t.claim as c where c.n between first and last order by c.n),
    array(select c.token from t.claim as c where c.n between first and last order by c.n)
);
$$;
create function t.emit(size integer) returns bigint language sql as $$
select count(pgwhen.emit('mine', 'U' || i, key => 'k')) from generate_series(1, emit.size) as i;
$$;

select t.a_rule('any', 'mine', frequency => 'once_per_day') as rule \gset
select t.a_rule('key', 'mine', '{"key": "k"}');
select t.a_rule(
    'condition', 'mine', '{"condition": {"user.n": {"$gt": 0}}}', 'add_to_audience',
    '{"audience": "a"}'
);
select t.a_rule(
    'attribute', 'attribute_changed', '{"attribute": "n"}', 'set_attribute',
    '{"attribute": "m", "value": 1}'
);
select t.a_waiting_rule(r.name, r.delay::jsonb)
from (values
    ('before', '{"onExpire": {"actionType": "log_message", "actionConfig": {"text": "x"}}}'),
    ('after', '{"after": "send"}')
) as r (name, delay);
update pgwhen.trigger_rule set source_type = 'awaited' where source_type = 'ordered';
create function t.await(first integer, last integer) returns bigint language sql as $$
select count(pgwhen.emit('awaited', 'W' || i)) from generate_series(await.first, await.last) as i;
$$;
create function t.click(first integer, last integer) returns bigint language sql as $$
select count(t.a_click('W' || i)) from generate_series(click.first, click.last) as i;
$$;
create function t.let_expire(count integer) returns void language sql as $$
update pgwhen.scheduled_action
set expires_at = counts_from
where id = any(array(
    select a.id from pgwhen.scheduled_action as a
    where a.waiting and a.user_id like 'W%' order by a.id limit let_expire.count
));
$$;
-- Batches of ten that may have been sent.
select pgwhen.register_action('mail', options => '{"batch": 10}');
create function t.lose(count integer, execute_at timestamptz default '2029-12-31')
returns void language sql as $$
insert into pgwhen.scheduled_action
(user_id, action_type, execute_at, key, batch_id, keeps_batch)
select 'B' || n, 'mail', lose.execute_at, gen_random_uuid(), b.batch_id, true
from (select gen_random_uuid() as batch_id from generate_series(1, lose.count)) as b
cross join generate_series(1, 10) as n;
$$;
create function t.claim_mails(size integer) returns bigint language sql as $$
select count(*) from pgwhen.claim_actions('w-1', claim_mails.size, '{mail}');
$$;
-- Of each batch one is late.
create function t.be_late() returns void language sql as $$
select t.force($f$
    update pgwhen.scheduled_action
    set deadline = '2030-01-07 11:00+00'
    where status = 'processing' and user_id = 'B1'
$f$);
$$;
select t.a_user('warm', '{"n": 1}');
analyze;

-- Everything that a worker calls is planned, on tables that hold next to nothing.
create procedure t.warm_up() language plpgsql as $$
begin
    for i in 1 .. 7 loop
        update pgwhen.line_user set attributes = jsonb_build_object('n', i + 1);
        perform t.emit(3);
        perform pgwhen.process_events('w-1');
        perform t.claim(3);
        perform t.complete(1, 1);
        perform t.fail(2, 2);
        perform t.release(3, 3);
        perform pgwhen.recover_stale_actions();
        perform t.await(1, 3);
        perform pgwhen.process_events('w-1');
        perform t.claim(3);
        perform t.complete(1, 3);
        perform t.click(1, 1);
        perform pgwhen.process_events('w-1');
        perform t.let_expire(1);
        perform pgwhen.tick();
        perform t.lose(2);
        perform t.claim_mails(20);
        perform t.be_late();
        perform pgwhen.recover_stale_actions();
    end loop;
end;
$$;
call t.warm_up();
call t.warm_up();
truncate pgwhen.scheduled_action;
delete from _pgwhen.reservation;

-- And now comes what is somebody else's business.
insert into _pgwhen.rule (
    trigger_rule_id, line_oa_id, organization_id, source_type, key, enabled_date, frequency,
    action_type, action_config, log_all
)
select
    1000000 + n, case n % 3 when 0 then 'shop' else 'default' end, 'default',
    case n % 2 when 0 then 'mine' else 'attribute_changed' end, 'other ' || n, '2020-01-01',
    'always', 'log_message', '{}', false
from generate_series(1, 100000) as n;
insert into _pgwhen.reservation (trigger_rule_id, user_id, last_at, allowed_before, holder)
select :rule, 'X' || n, '2030-01-01', '2030-01-01', gen_random_uuid()
from generate_series(1, 30000) as n;
insert into pgwhen.scheduled_action (
    user_id, action_type, execute_at, status, key, claim_token, deadline, updated_at, created_date
)
select
    'X' || n, case n % 2 when 0 then 'log_message' else 'nobody serves this' end,
    case when s.status = 'pending' and n % 2 = 0 then '2031-01-01'
        else '2029-12-31' end::timestamptz,
    s.status, gen_random_uuid(), case s.status when 'processing' then gen_random_uuid() end,
    case s.status when 'processing' then timestamptz '2031-01-01' end, '2030-01-07', '2030-01-01'
from unnest(array['pending', 'done', 'processing']) as s (status)
cross join generate_series(1, case s.status when 'processing' then 2000 else 30000 end) as n;
insert into pgwhen.scheduled_action (
    user_id, action_type, execute_at, expires_at, status, wait, waiting, counts_from, outcome, key,
    updated_at, created_date
)
select
    'X' || n, 'log_message', '2031-01-01', '2031-01-01',
    case n % 2 when 0 then 'pending' else 'done' end, '{"expires": 1}', n % 2 = 0, '2030-01-01',
    case n % 2 when 1 then 'not_clicked' end, gen_random_uuid(), '2030-01-07', '2030-01-01'
from generate_series(1, 30000) as n;
insert into _pgwhen.processed_event (
    id, bucket, uuid, line_oa_id, user_id, type, keys, data, facts, at, created_at, chain,
    processed_at
)
select
    n, 0, gen_random_uuid(), 'default', 'X' || n, 'campaign_click', '{*}', '{}', '{}',
    '2030-01-07 11:00+00', '2030-01-07 11:00+00', '{}', '2030-01-07 11:00+00'
from generate_series(1, 30000) as n;
insert into pgwhen.trigger_log
(created_date, trigger_rule_id, line_oa_id, user_id, event_id, status)
select '2030-01-07 11:00+00', :rule, 'default', 'X' || n, n, 'success'
from generate_series(1, 30000) as n;
select t.lose(1000, '2031-01-01');
select t.emit(400);
insert into _pgwhen.outbox
(bucket, line_oa_id, user_id, type, keys, data, facts, at, created_at)
select
    _pgwhen.bucket('default', 'Y' || n), 'default', 'Y' || n, 'not mine', '{*}', '{}', '{}',
    '2030-01-01', '2030-01-01'
from generate_series(1, 30000) as n;

-- Plans that were made when the tables were empty.
select t.costs(
    'a batch of 100 events', $$ select pgwhen.process_events('w-1', '{}', 100) $$, 15000
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.user_id like 'U%'), 200::bigint,
    'which has made 200 actions'
);
select t.costs('a claim of 100', 'select t.claim(100)', 2000);
select is((select count(*) from t.claim), 100::bigint, 'which has claimed 100');
select t.costs('completing 50', 'select t.complete(1, 50)', 2000);
select t.costs('failing 25', 'select t.fail(51, 75)', 2000);
select t.costs('releasing 25', 'select t.release(76, 100)', 1000);
select t.costs('a pass over what is stale', 'select pgwhen.recover_stale_actions()', 100);
select t.costs('a tick', 'select pgwhen.tick(100)', 15000);
select t.costs(
    'marking a suspect', $$ select pgwhen.process_events('w-2', suspect => true) $$, 15000
);

-- Batches that may have been sent.
select t.lose(10);
select t.costs('a claim of 10 batches', 'select t.claim_mails(100)', 3000);
select t.be_late();
select t.costs('a recovery of 10 batches', 'select pgwhen.recover_stale_actions()', 4000);
select is(
    (
        select count(*) from pgwhen.scheduled_action as a
        where a.action_type = 'mail' and a.retry_count = 1
    ),
    100::bigint, 'which has taken back all that were claimed'
);

-- Waits, and the clicks of others.
delete from _pgwhen.outbox;
select t.await(1, 100);
select t.costs(
    'a batch of 100 that wait', $$ select pgwhen.process_events('w-1', '{}', 100) $$, 10000
);
select t.click(1, 50);
select t.costs('a batch of 50 clicks', $$ select pgwhen.process_events('w-1', '{}', 50) $$, 10000);
select is(
    (
        select count(*) from pgwhen.scheduled_action as a
        where a.user_id like 'W%' and a.outcome = 'clicked' and a.status = 'pending'
    ),
    50::bigint, 'which have ended 50 waits'
);
insert into _pgwhen.outbox
(bucket, line_oa_id, user_id, type, keys, data, facts, at, created_at)
select
    _pgwhen.bucket('default', 'Y' || n), 'default', 'Y' || n, 'campaign_click', '{*}', '{}', '{}',
    '2030-01-01', '2030-01-01'
from generate_series(1, 30000) as n;
select t.let_expire(50);
select t.costs('an expiry of 50', 'select pgwhen.expire_actions(100)', 5000);
select is(
    (
        select count(*) from pgwhen.scheduled_action as a
        where a.user_id like 'W%' and a.parent_id is not null
    ),
    50::bigint, 'which has made 50 actions'
);

-- Plans that are made now, from statistics of then.
discard plans;
delete from _pgwhen.outbox;
select t.emit(400);
select t.costs(
    'with new plans, a batch', $$ select pgwhen.process_events('w-1', '{}', 100) $$, 15000
);
select t.costs('with new plans, a claim', 'select t.claim(100)', 2000);
select t.costs('with new plans, completing', 'select t.complete(1, 100)', 3000);
select t.costs(
    'explaining', format($$ select * from pgwhen.explain(%s, 'U7') $$, :rule), 1500
);

select finish();
rollback;
