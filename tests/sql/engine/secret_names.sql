-- pgwhen.secret_names: an account's names of secrets, never anything else that stands there.
begin;
\ir ../helpers.psql
select plan(4);

insert into pgwhen.account (line_oa_id, secrets)
values (
    'shop7', '{"token": "shop7-token", "number": 5, "object": {"value": "x"}, "nothing": null}'
);

select is(pgwhen.secret_names('shop7'), '{"token": "shop7-token"}', 'tells texts alone');
select is(pgwhen.secret_names('default'), '{}', 'is empty where an account has none');
select is(pgwhen.secret_names('nowhere'), '{}', 'or does not exist');
select is(pgwhen.secret_names(null), '{}', 'or is not named');

select finish();
rollback;
