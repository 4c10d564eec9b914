-- pgwhen.schedule_action: an action for one user without a rule.
begin;
\ir ../helpers.psql
select plan(50);

select t.it_is('2030-01-07 12:00+00');
select pgwhen.register_action('send_sms', '{"type": "object", "required": ["text"]}');

create function t.due(id bigint) returns text language sql as $$
select to_char(a.execute_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')
from pgwhen.scheduled_action as a
where a.id = due.id;
$$;
create function t.refuses(call text, code text, message text, title text)
returns setof text language plpgsql as $$
declare
    v_code text;
    v_message text;
    v_hint text;
begin
    execute 'select pgwhen.schedule_action(' || call || ')';
    return next fail(title);
exception
    when others then
        get stacked diagnostics v_code = returned_sqlstate, v_message = message_text,
            v_hint = pg_exception_hint;
        return next is(v_code || ' ' || v_message, code || ' ' || message, 'refuses ' || title);
        return next isnt(v_hint, '', 'and says what to do instead');
end;
$$;

-- What it makes -----------------------------------------------------------------------------

select pgwhen.schedule_action('send_sms', 'U1', '{"text": "hi"}') as now_id \gset
select results_eq(
    format(
        'select a.status, a.trigger_rule_id, a.line_oa_id, a.organization_id, a.user_id,
            a.action_type, a.action_config, a.execute_at, a.event, a.chain, a.delay, a.origin,
            a.key = _pgwhen.action_key(a.origin, ''default'', ''U1'', null)
        from pgwhen.scheduled_action as a where a.id = %s', :now_id
    ),
    format(
        $$ values ('pending', null::bigint, 'default', 'default', 'U1', 'send_sms',
            '{"text": "hi"}'::jsonb, '2030-01-07 12:00+00'::timestamptz, null::jsonb, '{}'::bigint[],
            null::jsonb, %L::uuid, true) $$,
        (select a.origin from pgwhen.scheduled_action as a where a.id = :now_id)
    ),
    'is a pending row without a rule or event, due now, and the id is told'
);
select is(
    (select array_agg(c.id) from pgwhen.claim_actions('w-1') as c), array[:now_id]::bigint[],
    'a worker gets it as any other'
);
select isnt(
    (select a.key from pgwhen.scheduled_action as a where a.id = pgwhen.schedule_action('send_sms',
        'U1', '{"text": "hi"}')),
    (select a.key from pgwhen.scheduled_action as a where a.id = :now_id),
    'each has a key of its own'
);
select is(
    (
        select a.line_oa_id || ' ' || a.organization_id
        from pgwhen.scheduled_action as a
        where a.id = (
            select pgwhen.schedule_action(
                'send_sms', 'U1', '{"text": "hi"}', line_oa_id => 'shop', organization_id => 'org'
            )
        )
    ),
    null, 'is seen by the next statement only'
);
select is(
    (
        select a.line_oa_id || ' ' || a.organization_id
        from pgwhen.scheduled_action as a where a.line_oa_id = 'shop'
    ),
    'shop org', 'in the account that is named'
);

-- When --------------------------------------------------------------------------------------

create function t.at(execute_at timestamptz, delay jsonb, user_id text default 'U1')
returns text language plpgsql as $$
declare
    v_id constant bigint := pgwhen.schedule_action(
        'send_sms', at.user_id, '{"text": "hi"}', at.execute_at, at.delay
    );
begin
    return t.due(v_id);
end;
$$;
select t.a_user('born', '{"birthday": "2030-03-01T00:00:00+07:00"}');
select is(t.at(w.execute_at, w.delay, w.who), w.due, w.title)
from (
    values
    ('2030-01-08 12:00+00'::timestamptz, null::jsonb, 'U1', '2030-01-08 12:00:00', 'at execute_at'),
    ('2029-01-08 12:00+00', null, 'U1', '2030-01-07 12:00:00', 'at once, if that has passed'),
    (null, '{"seconds": 1.5}', 'U1', '2030-01-07 12:00:01', 'after so many seconds'),
    (null, '{"delaySeconds": 60}', 'U1', '2030-01-07 12:01:00', 'by their older name'),
    (null, '{"at": "2030-01-09T12:00:00Z"}', 'U1', '2030-01-09 12:00:00', 'at an instant'),
    (
        null, '{"until": {"field": "user.birthday", "offset": "-1 day"}}', 'born',
        '2030-02-27 17:00:00', 'at a time of the user'
    )
) as w (execute_at, delay, who, due, title);
select is(
    (
        select array_agg(a.delay order by a.id)
        from pgwhen.scheduled_action as a
        where a.user_id = 'U1' and a.delay ? 'at'
    ),
    array[
        '{"at": "2030-01-08T12:00:00.000000Z"}', '{"at": "2029-01-08T12:00:00.000000Z"}',
        '{"at": "2030-01-09T12:00:00.000000Z"}'
    ]::jsonb[],
    'what waits says for what'
);

-- Once --------------------------------------------------------------------------------------

select pgwhen.schedule_action(
    'send_sms', 'U1', '{"text": "cart"}', deduplication_key => 'cart-1'
) as first_id \gset
select is(
    pgwhen.schedule_action('send_sms', 'U1', '{"text": "x"}', deduplication_key => 'cart-1'),
    :first_id::bigint, 'the same deduplication key is the same action'
);
select is(
    pgwhen.schedule_action(
        'log_message', 'U2', '{"text": "x"}', delay => '{"seconds": 5}',
        deduplication_key => 'cart-1'
    ),
    :first_id::bigint, 'whatever else is said'
);
select is(
    (select count(*) from pgwhen.scheduled_action as a where a.deduplication_key is not null),
    1::bigint, 'there is one row'
);
select isnt(
    pgwhen.schedule_action(
        'send_sms', 'U1', '{"text": "x"}', line_oa_id => 'shop', deduplication_key => 'cart-1'
    ),
    :first_id::bigint, 'in another account it is another one'
);
select is(
    (select a.origin from pgwhen.scheduled_action as a where a.id = :first_id),
    _pgwhen.request_origin('default', 'cart-1'), 'the key derives from it'
);
select matches(
    _pgwhen.request_origin('default', 'cart-1')::text, '^.{14}8', 'which is a UUID of version 8'
);
select t.force(format(
    $$ update pgwhen.scheduled_action set status = 'done' where id = %s $$, :first_id
));
select is(
    pgwhen.schedule_action('send_sms', 'U1', '{"text": "x"}', deduplication_key => 'cart-1'),
    :first_id::bigint, 'also when it is done, for as long as its row is kept'
);

-- What it refuses -----------------------------------------------------------------------------

select t.refuses(w.call, w.code, w.message, w.title)
from (
    values
    ($$ '', 'U1' $$, 'PW210', 'action_type: needs 1 to 200 characters', 'no type'),
    (
        $$ 'send_sms', null, '{"text": "x"}' $$, 'PW210',
        'user_id: needs at most 200 characters, got NULL', 'no user'
    ),
    (
        $$ 'send_sms', repeat('x', 201), '{"text": "x"}' $$, 'PW210',
        'user_id: needs at most 200 characters, got 201', 'a user id that is none'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', line_oa_id => null $$, 'PW210',
        'line_oa_id: needs 1 to 200 characters', 'no account'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', deduplication_key => '' $$, 'PW210',
        'deduplication_key: needs 1 to 200 characters, got 0', 'an empty deduplication key'
    ),
    ($$ 'send_sms', 'U1' $$, 'PW003', 'action_config.text: is required', 'a config without text'),
    (
        $$ 'send_sms', 'U1', '[]' $$, 'PW003', 'action_config: must be an object, got []',
        'a config that is no object'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x", "delay": {"seconds": 1}}' $$, 'PW004',
        'action_config.delay: cannot stand here', 'a delay in the config'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', now(), '{"seconds": 1}' $$, 'PW004',
        'delay: says when, and so does execute_at', 'two times'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', 'infinity' $$, 'PW004',
        'execute_at: cannot be infinity', 'a time that never comes'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', delay => '{"seconds": -1}' $$, 'PW004',
        'delay.seconds: must be at least 0, got -1', 'a delay that is none'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', delay => '{"seconds": 1, "whenPending": "add"}' $$,
        'PW004', 'delay.whenPending: has no meaning without a rule', 'what needs a rule'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', delay => '{"until": {"field": "event.at"}}' $$,
        'PW004', 'delay.until.field: has no meaning without an event', 'what needs an event'
    ),
    (
        $$ 'send_sms', 'U1', '{"text": "x"}', delay => '{"until": {"field": "user.birthday"}}' $$,
        'PW004', 'delay.until: user.birthday is missing, for user U1', 'a time that is not there'
    )
) as w (call, code, message, title);

-- Beside rules --------------------------------------------------------------------------------

select is(
    (select t.kind from _pgwhen.action_type as t where t.name = 'nobody serves this'), null,
    'a type that nobody knows'
);
select pgwhen.schedule_action('nobody serves this', 'U1');
select is(
    (select t.kind from _pgwhen.action_type as t where t.name = 'nobody serves this'), 'unserved',
    'is one that nobody serves'
);

-- Scheduled by what a rule has caused, it carries the chain on.
create function t.chases(line_oa_id text, user_id text, config jsonb, ctx jsonb) returns jsonb
language sql as $$
select to_jsonb(pgwhen.schedule_action('send_sms', chases.user_id, '{"text": "chained"}'));
$$;
select pgwhen.register_sql_action('chase', 't.chases(text, text, jsonb, jsonb)');
select t.a_rule('chaser', action_type => 'chase', action_config => '{}') as chaser \gset
select pgwhen.emit('ordered', 'U1');
select t.process();
select is(
    (
        select a.chain from pgwhen.scheduled_action as a
        where a.action_config = '{"text": "chained"}'
    ),
    array[:chaser]::bigint[], 'what a rule''s action schedules is caused by the rule'
);

select finish();
rollback;
