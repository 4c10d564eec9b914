-- pgwhen.schedule_actions: an action for each of many users.
begin;
\ir ../helpers.psql
select plan(11);

select t.it_is('2030-01-07 12:00+00');
select pgwhen.register_action('send_sms', '{"type": "object", "required": ["text"]}');

-- Each id with the user and text of its row, in the order in which they were told.
create function t.made(ids bigint[]) returns text[] language sql as $$
select array(
    select a.user_id || ' ' || coalesce(a.action_config ->> 'text', '-')
    from unnest(made.ids) with ordinality as m (id, n)
    inner join pgwhen.scheduled_action as a on a.id = m.id
    order by m.n
);
$$;

select array(
    select s from pgwhen.schedule_actions(
        'send_sms', '{U3,U1,U2}', array['{"text": "a"}', '{"text": "b"}', '{"text": "c"}']::jsonb[],
        '2030-01-08 12:00+00'
    ) as s
) as ids \gset
select is(t.made(:'ids'), array['U3 a', 'U1 b', 'U2 c'], 'tells the ids in the users'' order');
select is(
    (
        select count(distinct a.key) || ' ' || min(a.execute_at) || ' ' || max(a.execute_at)
        from pgwhen.scheduled_action as a
        where a.id = any(:'ids'::bigint[])
    ),
    format('3 %1$s %1$s', '2030-01-08 12:00+00'::timestamptz), 'each with its own key, all due then'
);
select array(select s from pgwhen.schedule_actions('x', '{U1,U1}') as s) as plain \gset
select is(t.made(:'plain'), array['U1 -', 'U1 -'], 'without configs, these are empty');
select is_empty($$ select pgwhen.schedule_actions('x', '{}') $$, 'for nobody, nothing');

select array(
    select s from pgwhen.schedule_actions('x', '{A,B,C,D}', deduplication_keys => '{k,k,l,null}')
        as s
) as once \gset
select is(
    t.made(:'once'), array['A -', 'A -', 'C -', 'D -'],
    'of several with one deduplication key there is the first'
);
select array(
    select s from pgwhen.schedule_actions('x', '{E,F,G}', deduplication_keys => '{l,m,k}') as s
) as more \gset
select is(t.made(:'more'), array['C -', 'F -', 'A -'], 'or the one that is there already');

select count(*) as many from pgwhen.schedule_actions(
    'x', array(select 'u' || n from generate_series(1, 10001) as n),
    deduplication_keys => array(select nullif('d' || n, 'd3') from generate_series(1, 10001) as n)
) \gset
select is(
    array[
        :many, (select count(*) from pgwhen.scheduled_action as a where a.user_id like 'u%')
    ],
    array[10001, 10001]::bigint[], 'there may be more than a chunk of them'
);

select throws_ok(
    $$ select pgwhen.schedule_actions('send_sms', '{A,B}',
        array['{"text": "a"}', '{}']::jsonb[]) $$,
    'PW003', 'action_configs[2].text: is required', 'one bad config is enough to refuse all'
);
select throws_ok(
    $$ select pgwhen.schedule_actions('x', '{A,B}', array['{}']::jsonb[]) $$, 'PW210', null,
    'refuses configs for others than the users'
);
select throws_ok(
    $$ select pgwhen.schedule_actions('x', '{A}', deduplication_keys => '{a,b}') $$, 'PW210', null,
    'refuses keys for others than the users'
);
select throws_ok(
    $$ select pgwhen.schedule_actions('x', array['A', null]) $$, 'PW210', null,
    'refuses a user who is nobody'
);

select finish();
rollback;
