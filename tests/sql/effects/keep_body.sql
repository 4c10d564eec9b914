-- pgwhen.keep_body: one body for each key.
begin;
\ir ../helpers.psql
select plan(14);

create function t.keep(key text, body text) returns boolean language sql as $$
select pgwhen.keep_body(
    ('00000000-0000-8000-8000-00000000000' || keep.key)::uuid, sha256(convert_to(keep.body, 'UTF8'))
);
$$;

select t.it_is('2030-01-07 12:00+00');
select ok(t.keep('1', 'five'), 'is true the first time');
select ok(t.keep('1', 'five'), 'and for the same body again');
select ok(not t.keep('1', 'six'), 'is false for another body');
select ok(t.keep('1', 'five'), 'which takes no place of the first one');
select ok(t.keep('2', 'six'), 'knows keys apart');
select is(
    (select array_agg(r.made_at) from _pgwhen.request as r),
    array['2030-01-07 12:00+00', '2030-01-07 12:00+00']::timestamptz[], 'keeps one row for each key'
);

select throws_ok(
    format('select pgwhen.keep_body(%L, %L)', b.key, b.body_hash), 'PW212',
    'a body is kept as its sha256, 32 bytes, with the key that it goes out under',
    'refuses ' || b.title
)
from (values
    (null::uuid, sha256('x'), 'no key'),
    (gen_random_uuid(), null, 'no hash'),
    (gen_random_uuid(), '\x00'::bytea, 'a short hash'),
    (gen_random_uuid(), sha256('x') || '\x00', 'a long hash')
) as b (key, body_hash, title);

-- Goes with the action ------------------------------------------------------------------------

select t.an_action() as old \gset
select t.an_action() as new \gset
select pgwhen.keep_body(a.key, sha256('x')) from pgwhen.scheduled_action as a;
select t.force(format(
    $$
    update pgwhen.scheduled_action set status = 'done', updated_at = '2029-01-01' where id = %s
    $$, :old
));
delete from _pgwhen.request as r where r.key::text like '00000000%';
select is(pgwhen.maintain() ->> 'actionsDeleted', '1', 'an action goes');
select results_eq(
    'select r.key from _pgwhen.request as r',
    format('select a.key from pgwhen.scheduled_action as a where a.id = %s', :new),
    'and takes what was kept under its key with it, and nothing else'
);

-- What is kept under the key of a batch goes with the batch.
create function t.delete_ended() returns bigint language plpgsql as $$
begin
    perform t.force(
        'update pgwhen.scheduled_action set updated_at = ''2029-01-01'' where status = ''done'''
    );
    delete from _pgwhen.chore;
    perform pgwhen.maintain();
    return (select count(*) from _pgwhen.request);
end;
$$;
truncate pgwhen.scheduled_action, _pgwhen.request;
select gen_random_uuid() as batch \gset
insert into pgwhen.scheduled_action
(user_id, action_type, execute_at, status, key, batch_id, keeps_batch)
select 'B' || n, 'mail', _pgwhen.clock(), s.status, gen_random_uuid(), :'batch', true
from unnest('{done,done,pending}'::text[]) with ordinality as s (status, n);
select pgwhen.keep_body(_pgwhen.batch_key(:'batch'), sha256('x'));
select is(t.delete_ended(), 1::bigint, 'not while one of it may be sent again');
insert into pgwhen.scheduled_action
(user_id, action_type, execute_at, status, key, batch_id, keeps_batch)
values ('B4', 'mail', _pgwhen.clock(), 'done', gen_random_uuid(), :'batch', true);
select t.force($$ update pgwhen.scheduled_action set status = 'done' $$);
select is(t.delete_ended(), 0::bigint, 'but then');

select finish();
rollback;
