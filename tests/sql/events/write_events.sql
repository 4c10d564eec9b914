-- _pgwhen.write_attribute_events: changes of pgwhen.line_user as events.
begin;
\ir ../helpers.psql
select plan(29);

select t.it_is('2030-01-07 12:00+00');

create view t.changes as
select o.user_id, o.key, o.old, o.new, o.facts
from _pgwhen.outbox as o order by o.id;
create procedure t.forget() language sql as 'delete from _pgwhen.outbox';

insert into pgwhen.line_user (user_id, attributes)
values ('U1', '{"tier": "gold", "points": 5, "note": null}');
select results_eq(
    'table t.changes',
    $$
    values
        ('U1', 'tier', null::jsonb, '"gold"'::jsonb,
            '{"tier": "gold", "points": 5, "note": null}'::jsonb),
        ('U1', 'points', null, '5', '{"tier": "gold", "points": 5, "note": null}')
    order by 2
    $$,
    'an insert sets each attribute that is not null'
);
select is(
    (select array_agg(distinct o.keys) from _pgwhen.outbox as o where o.key = 'tier'),
    array[array['*', 'tier']], 'an event has its attribute for a key'
);

call t.forget();
update pgwhen.line_user set
    attributes = '{"tier": "silver", "points": 5, "vip": [1, {"a": false}]}';
select results_eq(
    'select c.key, c.old, c.new from t.changes as c',
    $$ values ('tier', '"gold"'::jsonb, '"silver"'::jsonb), ('vip', null, '[1, {"a": false}]') $$,
    'an update writes what it changed, and no more'
);
select is(
    (select distinct c.facts from t.changes as c),
    '{"tier": "silver", "points": 5, "vip": [1, {"a": false}]}',
    'an event has the facts as it left them'
);

call t.forget();
update pgwhen.line_user set attributes = attributes;
update pgwhen.line_user set
    attributes = '{"tier": "silver", "points": 5.0, "vip": [1, {"a": false}]}';
update pgwhen.line_user set time_zone = 'Asia/Bangkok', is_friend = false;
select is_empty('table t.changes', 'an update that changes nothing is no event');

update pgwhen.line_user set attributes = '{"points": 5, "vip": null}';
select results_eq(
    'select c.key, c.old, c.new from t.changes as c',
    $$ values ('tier', '"silver"'::jsonb, null::jsonb), ('vip', '[1, {"a": false}]', null) $$,
    'a key that goes, or becomes null, is cleared'
);
call t.forget();
update pgwhen.line_user set attributes = '{"points": null}';
update pgwhen.line_user set attributes = '{"vip": null, "tier": null}';
select results_eq(
    'select c.key, c.old, c.new from t.changes as c',
    $$ values ('points', '5'::jsonb, null::jsonb) $$,
    'null is missing: from one to the other is no change'
);
call t.forget();
update pgwhen.line_user set attributes = '{"vip": 1}';
select results_eq(
    'select c.key, c.old, c.new from t.changes as c', $$ values ('vip', null::jsonb, '1'::jsonb) $$,
    'from null to a value is set'
);

call t.forget();
update pgwhen.line_user set user_id = 'U2', attributes = '{"vip": 2}' where user_id = 'U1';
select results_eq(
    'select c.user_id, c.key, c.old, c.new, c.facts from t.changes as c',
    $$
    values
        ('U1', 'vip', '1'::jsonb, null::jsonb, '{}'::jsonb),
        ('U2', 'vip', null, '2', '{"vip": 2}')
    $$,
    'a changed primary key clears the old user and sets the new one'
);
call t.forget();
update pgwhen.line_user set line_oa_id = 'shop 2';
select results_eq(
    'select o.line_oa_id, o.old, o.new from _pgwhen.outbox as o order by o.id',
    $$ values ('default', '2'::jsonb, null::jsonb), ('shop 2', null, '2') $$,
    'so does a changed account'
);

call t.forget();
delete from pgwhen.line_user;
select results_eq(
    'select c.user_id, c.key, c.old, c.new, c.facts from t.changes as c',
    $$ values ('U2', 'vip', '2'::jsonb, null::jsonb, '{}'::jsonb) $$,
    'a delete clears every attribute'
);

-- ON CONFLICT and MERGE fire INSERT and UPDATE triggers both, sometimes without a row.
select t.a_user('U1', '{"n": 1}');
call t.forget();
insert into pgwhen.line_user (user_id, attributes) values ('U1', '{"n": 2}'), ('U3', '{"n": 3}')
on conflict (line_oa_id, user_id) do update set attributes = excluded.attributes;
select bag_eq(
    'select c.user_id, c.old, c.new from t.changes as c',
    $$ values ('U1', '1'::jsonb, '2'::jsonb), ('U3', null, '3') $$,
    'an upsert writes what it inserted and what it changed'
);
call t.forget();
insert into pgwhen.line_user (user_id, attributes) values ('U1', '{"n": 9}')
on conflict do nothing;
select is_empty('table t.changes', 'a row that was not inserted is no event');
merge into pgwhen.line_user as u
using
    (values ('U1', '{"n": 5}'::jsonb), ('U3', null), ('U4', '{"n": 6}')) as s (user_id, attributes)
on u.user_id = s.user_id
when matched and s.attributes is null then delete
when matched then update set attributes = s.attributes
when not matched then insert (user_id, attributes) values (s.user_id, s.attributes);
select bag_eq(
    'select c.user_id, c.old, c.new from t.changes as c',
    $$ values ('U1', '2'::jsonb, '5'::jsonb), ('U3', '3', null), ('U4', null, '6') $$,
    'a merge writes what it did to each row'
);
call t.forget();
with gone as (
    delete from pgwhen.line_user where user_id = 'U4' returning attributes
)
update pgwhen.line_user as u set attributes = g.attributes
from gone as g where u.user_id = 'U1';
select bag_eq(
    'select c.user_id, c.old, c.new from t.changes as c',
    $$ values ('U4', '6'::jsonb, null::jsonb), ('U1', '5', '6') $$,
    'a data-modifying WITH writes each of its changes'
);

call t.forget();
set local session_replication_role = replica;
update pgwhen.line_user set attributes = '{"n": 100}';
set local session_replication_role = origin;
truncate pgwhen.line_user;
select is_empty('table t.changes', 'neither a replica nor TRUNCATE writes an event');

-- Any JSON is a value.
insert into pgwhen.line_user (user_id, attributes)
values ('U1', jsonb_build_object(
    'true',
    true,
    'zero',
    0,
    'empty',
    '',
    'list',
    '[]'::jsonb,
    'object',
    '{}'::jsonb,
    'text',
    'null',
    'huge', '1e400'::jsonb, 'ลูกค้า', 'ทอง', '', 'no name', 'a.b$c"d', 1, repeat('k', 100), 1
));
select is((select count(*) from t.changes), 11::bigint, 'any JSON but null is a value');
select is(
    (select c.new from t.changes as c where c.key = 'ลูกค้า'), '"ทอง"', 'in any language'
);
call t.forget();
update pgwhen.line_user set attributes = jsonb_set(attributes, '{object}', '{"a": {"b": 1}}');
select results_eq(
    'select c.key, c.old, c.new from t.changes as c',
    $$ values ('object', '{}'::jsonb, '{"a": {"b": 1}}'::jsonb) $$,
    'a change inside of a value is a change of the value'
);
select throws_ok(
    $$ update pgwhen.line_user set attributes = '{"x": "\u0000"}' $$, '22P05', null,
    'NUL is refused where it is written'
);
select throws_ok(
    $$ insert into pgwhen.line_user (user_id, attributes) values (repeat('x', 201), '{"a": 1}') $$,
    'PW203', 'a user_id of 201 characters is no id', 'a user_id that no index could hold is refused'
);
select throws_ok(
    $$ update pgwhen.line_user set attributes = '[]' $$, '23514', null, 'attributes are an object'
);

-- One statement is one statement in the outbox, and right for each of 100,000 rows.
truncate pgwhen.line_user;
select pgwhen.mute();
insert into pgwhen.line_user (user_id, attributes)
select 'U' || n, jsonb_build_object('n', n) from generate_series(1, 100000) as n;
select pgwhen.mute(false);
call t.forget();

create table t.statement (rows bigint);
create function t.note() returns trigger language plpgsql as $$
begin
    insert into t.statement (rows) select count(*) from new_rows;
    return null;
end;
$$;
create trigger note after insert on _pgwhen.outbox
referencing new table as new_rows for each statement execute function t.note();

update pgwhen.line_user
set attributes = jsonb_build_object('n', (attributes -> 'n')::bigint + 1);
select results_eq(
    'table t.statement', $$ values (100000::bigint) $$,
    'an update of 100,000 rows is one statement in the outbox'
);
select is(
    (
        select count(*)
        from _pgwhen.outbox as o
        where
            o.user_id = 'U' || o.old::text
            and o.new = to_jsonb(o.old::bigint + 1)
            and o.facts = jsonb_build_object('n', o.new)
            and o.bucket = _pgwhen.bucket(o.line_oa_id, o.user_id)
    ),
    100000::bigint, 'and each row of it is right'
);
select is(
    (select count(distinct o.uuid) from _pgwhen.outbox as o), 100000::bigint,
    'each event has a uuid of its own'
);
truncate t.statement;
delete from pgwhen.line_user where user_id like 'U1%';
insert into pgwhen.line_user (user_id, attributes)
select 'U1' || n, '{"n": 1}' from generate_series(1, 500) as n;
insert into pgwhen.form_submission (user_id, form_id)
select 'U' || n, 'quote' from generate_series(1, 1000) as n;
update pgwhen.line_user set attributes = '{}' where false;
select bag_eq(
    'table t.statement', $$ values (11112::bigint), (500), (1000), (0) $$,
    'so is every other statement'
);

-- The columns are the truth, and the data an object.
insert into pgwhen.campaign_click (user_id, data) values ('K1', '{"campaign": "nov", "x": 1}');
select results_eq(
    $$ select o.keys, o.data from _pgwhen.outbox as o where o.user_id = 'K1' $$,
    $$ values ('{*}'::text[], '{"x": 1}'::jsonb) $$,
    'data that names a campaign makes no click on it'
);
select throws_ok(
    $$ insert into pgwhen.campaign_click (user_id, campaign, data) values ('K2', 'nov', '[1]') $$,
    '23514', null, 'data that is no object is refused'
);
select throws_ok(
    $$ insert into pgwhen.form_submission (user_id, form_id, at)
        values ('K2', 'f', '10000-01-01') $$,
    '23514', null, 'a time out of range is refused'
);

select finish();
rollback;
