create or replace function pgwhen.mute(muted boolean default true)
returns void
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
select _pgwhen.say('muted', pg_catalog.to_jsonb(nullif(mute.muted, false)));
$$;

comment on function pgwhen.mute(boolean) is
$doc$Write no events for the changes that follow in this transaction; mute(false) ends it.

For imports that must not set off rules. It ends with the transaction, also behind a transaction
pooler. emit() is not muted: who emits means it.

  begin;
  select pgwhen.mute();
  copy pgwhen.line_user (user_id, attributes) from '/import/users.csv' csv;
  commit;
$doc$;
