-- pgwhen.keep_body: one key, one body. A far side that knows the key answers a second request with
-- what it did for the first, whatever the second one says.

create or replace function pgwhen.keep_body(key uuid, body_hash bytea)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if keep_body.key is null or octet_length(keep_body.body_hash) is distinct from 32 then
        raise exception 'a body is kept as its sha256, 32 bytes, with the key that it goes out under'
            using errcode = 'PW212',
                hint = 'Pass the action''s idempotency key, and sha256(convert_to(body, ''UTF8'')).';
    end if;
    insert into _pgwhen.request as r (key, body_hash, made_at)
    values (keep_body.key, keep_body.body_hash, _pgwhen.clock())
    on conflict on constraint request_pkey do nothing;
    return found or exists (
        select
        from _pgwhen.request as r
        where r.key = keep_body.key and r.body_hash = keep_body.body_hash
    );
end;
$$;

comment on function pgwhen.keep_body(uuid, bytea) is
$doc$Keep the sha256 of the body of a request with its idempotency key; false for another body.

Call it, and commit, before the request goes out. True where nothing was kept with this key yet, or
the same body. Where it is false, another body has gone out under the key, or may have: the far side
would take this one for that one, so do not send it.

What is kept goes with the action whose key it is (setting actionRetention after its end), or the
first of the batch whose key it is.

Raises PW212 where the key is null or the hash is no sha256; 40001 at REPEATABLE READ or
SERIALIZABLE where somebody was quicker whom this transaction cannot see.

  select pgwhen.keep_body(:key, sha256(convert_to('{"amount": 500}', 'UTF8')));
$doc$;

-- When the actions go whose keys these are.
create or replace function _pgwhen.forget_bodies(keys uuid[])
returns void
language plpgsql
volatile
as $$
begin
    delete from _pgwhen.request as r where r.key = any(forget_bodies.keys);
end;
$$;
