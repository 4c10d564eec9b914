-- Advisory locks, all two-part: (class, number). Class 7077 holds single locks, class 7078 one
-- lock for each bucket of users, class 7079 a thousand for the batches that claims want.

create or replace function _pgwhen.lock_class() returns integer language sql immutable
as $$ select 7077; $$;

create or replace function _pgwhen.bucket_class() returns integer language sql immutable
as $$ select 7078; $$;

create or replace function _pgwhen.batch_class() returns integer language sql immutable
as $$ select 7079; $$;

create or replace function _pgwhen.doorbell_lock() returns integer language sql immutable
as $$ select 1; $$;

create or replace function _pgwhen.maintain_lock() returns integer language sql immutable
as $$ select 2; $$;

-- The users whose events are processed one after the other. 64: enough that eight listeners
-- rarely meet, few enough that locking all of them is cheap. Every event has one, so this is where
-- a user_id is refused that the indexes on what comes of it could not hold.
create or replace function _pgwhen.bucket(line_oa_id text, user_id text)
returns smallint
language sql
immutable
as $$
select case
    when length(bucket.user_id) > 200 then _pgwhen.refuse_user_id(bucket.user_id)
    else (
        pg_catalog.hashtextextended(bucket.line_oa_id || ' ' || bucket.user_id, 0) & 63
    )::int2
end;
$$;

create or replace function _pgwhen.refuse_user_id(user_id text)
returns smallint
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'a user_id of % characters is no id', length(refuse_user_id.user_id)
        using errcode = 'PW203',
            hint = 'Use an id of at most 200 characters, and keep what is longer in the data.';
end;
$$;

-- Worker calls wait for row locks and then look again: only READ COMMITTED gives that.
create or replace function _pgwhen.require_read_committed(caller text)
returns void
language plpgsql
as $$
begin
    if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
        raise exception '% cannot run at isolation level %',
            require_read_committed.caller, current_setting('transaction_isolation')
            using errcode = 'PW202',
                hint = 'Call it in a READ COMMITTED transaction (the default): '
                    'BEGIN ISOLATION LEVEL READ COMMITTED.';
    end if;
end;
$$;
