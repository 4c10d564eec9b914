-- pgwhen.paused: the pauses in force.
begin;
\ir ../helpers.psql
select plan(3);

select t.it_is('2030-01-07 12:00+00');
select t.a_rule('r') as rule \gset
select is_empty('table pgwhen.paused', 'is empty where nothing is paused');
select pgwhen.pause('all is wrong');
select pgwhen.pause('wrong text', 'log_message', 'o''shop', :rule);
select bag_eq(
    'table pgwhen.paused',
    format(
        $$
        values
            (
                null, null, null::bigint, null, 'all is wrong', %1$L,
                '2030-01-07 12:00+00'::timestamptz, 'select pgwhen.resume();'
            ),
            (
                'log_message', 'o''shop', %2$s, 'r', 'wrong text', %1$L, '2030-01-07 12:00+00',
                'select pgwhen.resume(action_type => ''log_message'', '
                'line_oa_id => ''o''''shop'', rule => %2$s);'
            )
        $$, session_user, :rule
    ),
    'has what is paused, why, by whom, since when'
);
create function t.call(statement text) returns void language plpgsql as $$
begin
    execute call.statement;
end;
$$;
select t.call(p.remedy) from pgwhen.paused as p;
select is_empty('table pgwhen.paused', 'and the call that ends each');

select finish();
rollback;
