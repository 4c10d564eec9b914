create or replace function pgwhen.secret_names(line_oa_id text)
returns jsonb
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
select coalesce(jsonb_object_agg(n.key, n.value), '{}')
from pgwhen.account as a
cross join lateral jsonb_each(a.secrets) as n
where a.line_oa_id = secret_names.line_oa_id and jsonb_typeof(n.value) = 'string';
$$;

comment on function pgwhen.secret_names(text) is
$doc$Tell under which names a worker finds the secrets of an account: {name in a config: its name}.

What stands in account.secrets, of which only texts are names. A name that is not there stands for
itself. Never a secret: a worker finds those in its environment or in files, see docs/secrets.md.

  update pgwhen.account set secrets = '{"line-token": "shop7-line-token"}' where line_oa_id = 'shop7';
  select pgwhen.secret_names('shop7');  -- {"line-token": "shop7-line-token"}
$doc$;
