-- What a company owes its staff, and who may do what about it.

create schema payroll;

-- A payment does not change once it has been asked for: nobody but the owner can.
create table payroll.payment (
    reference text not null,
    branch text not null,
    period text not null,
    account text not null,
    satang bigint not null,
    constraint payment_pkey primary key (reference),
    constraint payment_is_positive check (satang > 0)
);

create index payment_payroll_idx on payroll.payment (branch, period);

-- Who asks, and who does.
create role payroll_office login in role pgwhen_application;
create role payroll_worker login in role pgwhen_worker;
grant usage on schema payroll to payroll_office, payroll_worker;
grant select, insert on payroll.payment to payroll_office;
grant select on payroll.payment to payroll_worker;
