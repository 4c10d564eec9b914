-- _pgwhen.say, _pgwhen.said, _pgwhen.event_clock: what a transaction says about its events.
begin;
\ir ../helpers.psql
select plan(11);

select is(_pgwhen.said('mood'), null, 'said is null where nothing was said');
select _pgwhen.say('mood', '{"a": [1]}');
select is(_pgwhen.said('mood'), '{"a": [1]}', 'said is what was said in this transaction');
select _pgwhen.say('mood', null);
select is(_pgwhen.said('mood'), null, 'said is null again when that was said');

-- A pooler hands on a session in which somebody has SET the value of another transaction.
select set_config('pgwhen.mood', '{"xid": "1", "value": true}', false);
select is(_pgwhen.said('mood'), null, 'said does not hear another transaction');
create function t.said_of(value text) returns jsonb language plpgsql as $$
begin
    perform set_config('pgwhen.mood', said_of.value, true);
    return _pgwhen.said('mood');
end;
$$;
select is(t.said_of(s.value), null, format('said is deaf to %L', s.value))
from unnest(array['on', '{', '[]', '"x"', '']) as s (value);

select isnt(
    _pgwhen.who('a', 'b c'), _pgwhen.who('a b', 'c'), 'who tells users of different accounts apart'
);

select set_config('pgwhen.event_time', '{"xid": "1", "value": "1997-01-18"}', false);
select t.it_is('2030-01-07 12:00+00');
select is(
    _pgwhen.event_clock(), '2030-01-07 12:00+00',
    'event_clock is the clock where another transaction said a time'
);

select finish();
rollback;
