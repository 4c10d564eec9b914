-- _pgwhen.action_key: the idempotency key of an action.
begin;
\ir ../helpers.psql
select plan(5);

-- A UUID of version 8 of what makes the action the one it is.
select is(
    _pgwhen.action_key('00000000-0000-4000-8000-000000000001', 'default', 'U1', 7)::text,
    _pgwhen.action_key('00000000-0000-4000-8000-000000000001', 'default', 'U1', 7)::text,
    'an action has the same key every time'
);
select matches(
    _pgwhen.action_key(gen_random_uuid(), 'default', 'U1', 7)::text,
    '^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$',
    'which is a UUID of version 8'
);
select is(
    (
        select
            count(
                distinct _pgwhen.action_key(k.origin::uuid, k.line_oa_id, k.user_id, k.rule, k.step)
            )
        from (values
            ('00000000-0000-4000-8000-000000000001', 'default', 'U1', 7, ''),
            ('00000000-0000-4000-8000-000000000002', 'default', 'U1', 7, ''),
            ('00000000-0000-4000-8000-000000000001', 'default U1', '', 7, ''),
            ('00000000-0000-4000-8000-000000000001', 'default', 'U17', 7, ''),
            ('00000000-0000-4000-8000-000000000001', 'default', 'U1', 77, ''),
            ('00000000-0000-4000-8000-000000000001', 'default', 'U1', null, ''),
            ('00000000-0000-4000-8000-000000000001', 'default', 'U1', 7, 'clicked')
        ) as k (origin, line_oa_id, user_id, rule, step)
    ),
    7::bigint, 'and another one for another origin, account, user, rule or step'
);
select is(
    _pgwhen.batch_key('9f0a4c3e-3b1d-4f65-9a53-0a4f8d3c2b10'),
    '7e49b60f-d144-8abc-8bed-366e1f197bbf', 'a batch has the key that its handler is told'
);
-- What handlers hand to others must never change.
select is(
    _pgwhen.action_key('00000000-0000-4000-8000-000000000001', 'default', 'U1', 7),
    (
        select
            (
                substr(h.x, 1, 12) || '8' || substr(h.x, 14, 3) || h.variant || substr(h.x, 18, 15)
            )::uuid
        from (
            select
                s.x,
                to_hex(8 + (('x' || substr(s.x, 17, 1))::bit(4)::integer & 3)) as variant
            from (
                select encode(
                    sha256('["00000000-0000-4000-8000-000000000001", "default", "U1", 7, ""]'),
                    'hex'
                ) as x
            ) as s
        ) as h
    ),
    'of the sha256 of a JSON array'
);

select finish();
rollback;
