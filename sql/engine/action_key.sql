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
language plpgsql
immutable
as $$
declare
    v_hash bytea := sha256(
        convert_to(jsonb_build_array(origin, line_oa_id, user_id, rule_id, step)::text, 'UTF8')
    );
begin
    v_hash := set_byte(v_hash, 6, (get_byte(v_hash, 6) & 15) | 128);
    v_hash := set_byte(v_hash, 8, (get_byte(v_hash, 8) & 63) | 128);
    return encode(substr(v_hash, 1, 16), 'hex')::uuid;
end;
$$;
