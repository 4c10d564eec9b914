-- emit_event {"type": name, "key": text, "data": object}: an event for the same user.

create or replace function _pgwhen.emit_event(
    line_oa_id text[],
    user_id text[],
    config jsonb[]
)
returns jsonb[]
language sql
volatile
as $$
select array(
    select pg_catalog.jsonb_build_object(
        'eventId',
        pgwhen.emit(
            event_type => i.config ->> 'type',
            user_id => i.user_id,
            data => coalesce(i.config -> 'data', '{}'),
            key => i.config ->> 'key',
            line_oa_id => i.line_oa_id
        )
    )
    from
        unnest(emit_event.line_oa_id, emit_event.user_id, emit_event.config)
        with ordinality as i (line_oa_id, user_id, config, n)
    order by i.n
);
$$;
