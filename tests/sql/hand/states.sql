-- _pgwhen.state_words, state_hint: what people are told of an action's state.
begin;
\ir ../helpers.psql
select plan(3);

select t.it_is('2030-01-07 12:00+00');
create view t.words as
select a.status, _pgwhen.state_words(s) as words, _pgwhen.state_hint(s) as hint
from unnest(array['pending', 'processing', 'done', 'failed', 'cancelled']) as a (status)
cross join lateral jsonb_populate_record(
    null::pgwhen.scheduled_action,
    jsonb_build_object(
        'id', 7, 'status', a.status, 'worker', 'w-1', 'execute_at', '2030-01-01 12:00+00',
        'deadline', '2030-01-02 12:00+00', 'executed_at', '2030-01-03 12:00+00',
        'updated_at', '2030-01-04 12:00+00'
    )
) as s;
select bag_eq(
    'select w.words from t.words as w',
    array[
        'is pending, due at 2030-01-01T12:00:00Z',
        'is being run by w-1, until 2030-01-02T12:00:00Z at most',
        'was done at 2030-01-03T12:00:00Z',
        'failed at 2030-01-03T12:00:00Z',
        'was cancelled at 2030-01-04T12:00:00Z'
    ],
    'there are words for each state'
);
select is_empty(
    $$ select w.status from t.words as w where w.hint is null $$, 'and a hint'
);
select is(
    _pgwhen.by_whom('cancelled', '  '), 'cancelled by ' || session_user,
    'a blank reason is none'
);

select finish();
rollback;
