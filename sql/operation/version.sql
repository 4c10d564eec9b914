create or replace function pgwhen.version()
returns text
language sql
immutable
as $$
select '0.1.0';
$$;

comment on function pgwhen.version() is
$doc$The version of pgwhen that was deployed last.

  select pgwhen.version();
$doc$;
