-- pgwhen.effect_once: the caller's transaction makes an effect and takes note of it in one.
--
-- The primary key does the work: who comes second waits for the transaction that wrote the row, and
-- then looks again. No exception block in READ COMMITTED: it would cost a subtransaction for each
-- key, and more than 64 of them overflow what a backend shows to others. Nor is the row looked for
-- first: an INSERT that meets a conflict does no more than look, and assigns no transaction id.

create or replace function pgwhen.effect_once(key text, kind text default 'default')
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not (
        _pgwhen.is_effect_name(effect_once.key) and _pgwhen.is_effect_name(effect_once.kind)
    ) then
        perform _pgwhen.refuse_effect('key', effect_once.key);
        perform _pgwhen.refuse_effect('kind', effect_once.kind);
    end if;
    if current_setting('transaction_isolation') not in ('repeatable read', 'serializable') then
        return _pgwhen.note_effect(effect_once.key, effect_once.kind);
    end if;

    begin
        return _pgwhen.note_effect(effect_once.key, effect_once.kind);
    exception
        when serialization_failure then
            raise exception 'somebody else was quicker with this key, unseen by this transaction'
                using errcode = '40001', detail = sqlerrm, hint = 'Try the transaction again.';
    end;
end;
$$;

comment on function pgwhen.effect_once(text, text) is
$doc$True the first time that it is called with this key and kind, false every time after.

Call it in the transaction that makes the effect, and make the effect where it is true. The note
that it was made is a row of that transaction: committed with the effect, gone with it where the
transaction, or the savepoint, is rolled back. A second caller waits until the first has committed
(then false) or rolled back (then true); lock_timeout bounds the wait. Who needs several keys in one
transaction asks in the order of the keys, else two such transactions can be a deadlock.

key names what must not happen twice: the id of the payment, whoever asks for it and how often; or
an action's idempotency key, where only its own attempts are to be told apart. kind names which
effect of it, so that one payment may be booked, and receipted, once each. Never put the number of
an attempt into either.

Notes are kept for ever, or for the setting effectRetention: what is forgotten can happen again.

Raises PW211 where key or kind is null, empty or longer than 200 characters; 40001 at REPEATABLE
READ or SERIALIZABLE where somebody was quicker whom this transaction cannot see.

  begin;
  select pgwhen.effect_once('T20261130-0001', 'credit');  -- true: go on
  insert into ledger_entry (transaction_id, entry_type, wallet_id, amount_satang)
  values ('T20261130-0001', 'credit', 'W-17', 50000);
  commit;
$doc$;

create or replace function _pgwhen.note_effect(key text, kind text)
returns boolean
language plpgsql
volatile
as $$
begin
    insert into _pgwhen.effect (key, kind, made_at)
    values (note_effect.key, note_effect.kind, _pgwhen.clock())
    on conflict on constraint effect_pkey do nothing;
    return found;
end;
$$;

create or replace function _pgwhen.is_effect_name(value text)
returns boolean
language sql
immutable
as $$
select coalesce(pg_catalog.length(is_effect_name.value) between 1 and 200, false);
$$;

create or replace function _pgwhen.refuse_effect(parameter text, value text)
returns void
language plpgsql
immutable
as $$
begin
    if _pgwhen.is_effect_name(refuse_effect.value) then
        return;
    end if;
    raise exception '%: needs 1 to 200 characters, got %',
        refuse_effect.parameter, coalesce(length(refuse_effect.value)::text, 'NULL')
        using errcode = 'PW211',
            hint = case refuse_effect.parameter
                when 'key' then
                    'Pass the id of what must not happen twice, or an idempotency key; of what is '
                    'longer a digest, such as encode(sha256(convert_to(…, ''UTF8'')), ''hex'').'
                else 'Name the effect in a word, such as ''credit'', or leave it out.'
            end;
end;
$$;

-- As maintain() calls it: the oldest first. Where effectRetention is null, nothing is ever deleted.
create or replace function _pgwhen.delete_old_effects(batch_size integer)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    v_before constant timestamptz :=
        _pgwhen.clock() - _pgwhen.span(_pgwhen.setting('effectRetention'));
    v_deleted integer;
begin
    if v_before is null then
        return 0;
    end if;
    delete from _pgwhen.effect as e
    where e.ctid = any(array(
        select o.ctid
        from _pgwhen.effect as o
        where o.made_at < v_before
        order by o.made_at
        limit delete_old_effects.batch_size
        for update skip locked
    ));
    get diagnostics v_deleted = row_count;
    return v_deleted;
end;
$$;
