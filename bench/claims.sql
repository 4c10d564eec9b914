-- The least that a claim and its acknowledgement can be, and a log that keeps nothing.

create table bench.action (
    id bigint primary key generated always as identity,
    execute_at timestamptz not null,
    status text not null default 'pending',
    config jsonb not null
);

create index on bench.action (execute_at, id) where status = 'pending';

create function bench.add_bare_actions(how_many bigint)
returns void
language sql
as $$
insert into bench.action (execute_at, config)
select now() - interval '1 hour' + i * interval '1 microsecond', '{"text": "Hello"}'
from generate_series(1, add_bare_actions.how_many) as i;
$$;

-- Drops what would become a row of the log.
create function bench.drop_row()
returns trigger
language plpgsql
as $$
begin
    return null;
end;
$$;
