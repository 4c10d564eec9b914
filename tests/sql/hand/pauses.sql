-- _pgwhen.pause_covers, is_paused, unpaused_types: what a pause is for.
begin;
\ir ../helpers.psql
select plan(6);

create function t.covers(
    action_type text default null, line_oa_id text default null, rule bigint default null
) returns text[] language sql as $$
select array(
    select w.action_type || '/' || w.line_oa_id || coalesce('/' || w.rule, '')
    from unnest(array['a', 'a', 'b', 'a'], array['x', 'y', 'x', 'x'], array[1, 1, 2, null])
        as w (action_type, line_oa_id, rule)
    where _pgwhen.pause_covers(
        row(
            1, covers.action_type, covers.line_oa_id, covers.rule, 'why', 'who', now()
        )::_pgwhen.pause,
        w.action_type, w.line_oa_id, w.rule
    )
);
$$;
select is(t.covers(), '{a/x/1,a/y/1,b/x/2,a/x}', 'everything');
select is(t.covers('a'), '{a/x/1,a/y/1,a/x}', 'a type');
select is(t.covers(line_oa_id => 'x'), '{a/x/1,b/x/2,a/x}', 'an account');
select is(t.covers(rule => 1), '{a/x/1,a/y/1}', 'a rule, and not what no rule made');
select is(t.covers('a', 'x', 1), '{a/x/1}', 'all three narrow it');

insert into _pgwhen.pause (action_type, line_oa_id, trigger_rule_id, reason, paused_by, paused_at)
values
('a', null, null, 'older', 'me', '2030-01-01'), ('b', 'x', null, 'b x', 'me', '2030-01-01'),
('a', 'x', null, 'newer', 'me', '2030-01-01');
select is(
    array[
        _pgwhen.pause_reason('a', 'x', 1), _pgwhen.pause_reason('b', 'x', null),
        _pgwhen.pause_reason('b', 'y', 1), _pgwhen.is_paused('a', 'y', null)::text,
        _pgwhen.is_paused('c', 'x', 1)::text, _pgwhen.unpaused_types('{a,b,c}')::text
    ],
    '{older,"b x",null,true,false,"{b,c}"}', 'the oldest pause gives the reason'
);

select finish();
rollback;
