-- pgwhen.mute: changes without events.
begin;
\ir ../helpers.psql
select plan(7);

create view t.writes as
select o.type, o.user_id from _pgwhen.outbox as o;

select pgwhen.mute();
select t.a_user('U1', '{"tier": "gold"}');
update pgwhen.line_user set attributes = '{"tier": "silver"}';
insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote');
delete from pgwhen.line_user;
select is_empty('table t.writes', 'keeps what follows from being events');

select pgwhen.emit('ordered', 'U1');
select results_eq('table t.writes', $$ values ('ordered', 'U1') $$, 'does not mute emit()');
delete from _pgwhen.outbox;

select pgwhen.mute(false);
insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote');
select results_eq('table t.writes', $$ values ('form_submitted', 'U1') $$, 'ends with mute(false)');
delete from _pgwhen.outbox;

savepoint a_part;
select pgwhen.mute();
rollback to savepoint a_part;
insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote');
select results_eq(
    'table t.writes', $$ values ('form_submitted', 'U1') $$, 'is undone with its savepoint'
);
delete from _pgwhen.outbox;

select set_config('pgwhen.muted', '{"xid": "1", "value": true}', false);
insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote');
select results_eq(
    'table t.writes', $$ values ('form_submitted', 'U1') $$,
    'means nothing in the transactions after its own'
);
delete from _pgwhen.outbox;

select set_config('pgwhen.muted', 'on', true);
select lives_ok(
    $$ insert into pgwhen.form_submission (user_id, form_id) values ('U1', 'quote') $$,
    'is not fooled by a setting made by hand'
);
select results_eq('table t.writes', $$ values ('form_submitted', 'U1') $$, 'nor muted by it');

select finish();
rollback;
