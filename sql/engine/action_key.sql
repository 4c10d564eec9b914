-- The idempotency key: a UUID of version 8 from what makes the action the one it is. Never a
-- sequence, never the attempt; so it is the same at every try, and after a restore too.
create or replace function _pgwhen.action_key(
    origin uuid,
    line_oa_id text,
    user_id text,
    rule_id bigint,
    step text default ''
)
returns uuid
language sql
stable
as $$
select _pgwhen.key_of(
    pg_catalog.jsonb_build_array(
        action_key.origin, action_key.line_oa_id, action_key.user_id, action_key.rule_id,
        action_key.step
    )
);
$$;

-- The key of a batch, which Batch.idempotency_uuid derives in the same way.
create or replace function _pgwhen.batch_key(batch_id uuid)
returns uuid
language sql
stable
as $$
select _pgwhen.key_of(pg_catalog.jsonb_build_array('batch', batch_key.batch_id));
$$;

create or replace function _pgwhen.key_of(origin jsonb)
returns uuid
language sql
stable
as $$
select overlay(
    overlay(
        pg_catalog.left(
            pg_catalog.encode(
                pg_catalog.sha256(pg_catalog.convert_to(key_of.origin::text, 'UTF8')), 'hex'
            ),
            32
        ) placing '8' from 13 for 1
    ) placing '8' from 17 for 1
)::uuid;
$$;
