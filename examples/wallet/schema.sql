-- The wallets of a shop, and its ledger. No balance is stored: it is what the entries add up to.

create schema shop;

create table shop.wallet (
    wallet_id text not null,
    owner text not null,
    -- The most that one top-up may be.
    limit_satang bigint not null,
    frozen boolean not null,
    constraint wallet_pkey primary key (wallet_id)
);

create table shop.ledger_entry (
    transaction_id text not null,
    entry_type text not null,
    wallet_id text not null,
    amount_satang bigint not null,
    made_by text not null,
    constraint uq_ledger_entry unique (transaction_id, entry_type),
    constraint ledger_entry_wallet_fk foreign key (wallet_id) references shop.wallet (wallet_id),
    constraint ledger_entry_amount_is_positive check (amount_satang > 0)
);

create index ledger_entry_wallet_idx on shop.ledger_entry (wallet_id);

-- What each action was told. Nothing here is unique: that there is one for each action is for the
-- transactions to see to.
create table shop.receipt (
    action_id bigint not null,
    balance_satang bigint not null
);

create view shop.balance as
select
    w.wallet_id,
    w.owner,
    coalesce(sum(e.amount_satang), 0)::bigint as balance_satang,
    count(e.transaction_id) as entries
from shop.wallet as w
left join shop.ledger_entry as e on e.wallet_id = w.wallet_id
group by w.wallet_id;

-- Why this top-up cannot be; null if it can.
create function shop.refusal(wallet_id text, amount_satang bigint)
returns text
language sql
stable
as $$
select case
    when w.wallet_id is null then 'NoSuchWallet'
    when w.frozen then 'AccountFrozen'
    when refusal.amount_satang > w.limit_satang then 'LimitExceeded'
end
from (values (refusal.wallet_id)) as asked (wallet_id)
left join shop.wallet as w on w.wallet_id = asked.wallet_id;
$$;

-- The SQL action: what handlers.py does, without leaving the database. What it raises takes the
-- note of effect_once() back with it.
create function shop.credit(line_oa_id text, user_id text, config jsonb, ctx jsonb)
returns jsonb
language plpgsql
as $$
declare
    v_transaction constant text := config ->> 'transactionId';
    v_satang constant bigint := config -> 'amountSatang';
    v_refusal text;
    v_balance bigint;
begin
    if pgwhen.effect_once(v_transaction, 'credit') then
        v_refusal := shop.refusal(credit.user_id, v_satang);
        if v_refusal is not null then
            raise exception '%', v_refusal;
        end if;
        insert into shop.ledger_entry (
            transaction_id, entry_type, wallet_id, amount_satang, made_by
        )
        values (v_transaction, 'credit', credit.user_id, v_satang, 'credit_wallet_sql');
    end if;
    v_balance := (
        select b.balance_satang from shop.balance as b where b.wallet_id = credit.user_id
    );
    insert into shop.receipt (action_id, balance_satang)
    values ((credit.ctx ->> 'actionId')::bigint, v_balance);
    return jsonb_build_object('balanceSatang', v_balance);
end;
$$;

select pgwhen.register_sql_action('credit_wallet_sql', 'shop.credit(text, text, jsonb, jsonb)');

-- Who asks, and who does: a listener needs what its handlers and SQL actions do, and no more.
create role shop_front login in role pgwhen_application;
create role shop_worker login in role pgwhen_worker;
grant usage on schema shop to shop_worker;
grant select on shop.wallet, shop.balance to shop_worker;
grant select, insert on shop.ledger_entry to shop_worker;
grant insert on shop.receipt to shop_worker;

-- Tries follow each other quickly, so that the example is soon over.
insert into pgwhen.setting (name, value) values ('retrySeconds', '0.2');
