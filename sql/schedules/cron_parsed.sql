-- Cron expressions: five fields as Vixie cron reads them, names and macros, and of the extensions
-- L, LW, 5L and 5#2. Read once, when a rule is saved, into bitmaps by which next_run() jumps.
--
-- The parsed form, an object:
--   minutes   bit n is minute n
--   hours     bit n is hour n
--   days      bit n is day n + 1 of the month; bit 31 is its last day, bit 32 its last Mon..Fri
--   months    bit n is month n + 1
--   weekdays  six rows of seven bits, Sunday first: row 0 is the first such day of a month, row 4
--             the fifth, row 5 the last; a plain weekday stands in the first five
--   either    whether one of the two day fields is enough: Vixie's rule where neither begins with *
--   fixed     whether neither minute nor hour begins with *: a time of day, not a rhythm

-- Null where the expression is wrong: cron_faults() says how.
create or replace function _pgwhen.cron_parsed(expression text)
returns jsonb
language sql
immutable
as $$
select r.parsed from _pgwhen.cron_reading(cron_parsed.expression, 'cron') as r;
$$;

create or replace function _pgwhen.cron_faults(expression text, at_path text)
returns _pgwhen.fault[]
language sql
immutable
as $$
select r.faults from _pgwhen.cron_reading(cron_faults.expression, cron_faults.at_path) as r;
$$;

create or replace function _pgwhen.cron_reading(
    expression text,
    at_path text,
    out parsed jsonb,
    out faults _pgwhen.fault[]
)
language plpgsql
immutable
as $$
declare
    v_expression constant text :=
        coalesce(_pgwhen.cron_spelled_out(cron_reading.expression), '');
    v_fields constant text[] := regexp_split_to_array(v_expression, '[ \t]+');
    v_masks bigint[];
begin
    faults := _pgwhen.cron_shape_faults(v_expression, v_fields, cron_reading.at_path);
    if cardinality(faults) > 0 then
        return;
    end if;
    select
        array_agg(r.mask order by f.n),
        array_agg(
            row(cron_reading.at_path, r.message, r.hint, 'PW002')::_pgwhen.fault order by f.n
        ) filter (where r.message is not null)
    into v_masks, faults
    from unnest(v_fields) with ordinality as f (field, n)
    cross join _pgwhen.cron_field_reading(f.n::integer, f.field) as r;

    faults := coalesce(faults, '{}');
    if cardinality(faults) = 0 then
        parsed := jsonb_build_object(
            'minutes', v_masks[1], 'hours', v_masks[2], 'days', v_masks[3], 'months', v_masks[4],
            'weekdays', v_masks[5],
            'either', v_fields[3] !~ '^\*' and v_fields[5] !~ '^\*',
            'fixed', v_fields[1] !~ '^\*' and v_fields[2] !~ '^\*'
        );
        if not _pgwhen.cron_ever_comes(parsed) then
            parsed := null;
            faults := _pgwhen.one_fault(
                cron_reading.at_path, 'never comes: no month that it names has such a day',
                'Name a day that there is, or "L" for the last one of a month.', 'PW002'
            );
        end if;
    end if;
end;
$$;

-- Upper case by the C collation, in which no other letter becomes one of A to Z.
create or replace function _pgwhen.cron_spelled_out(expression text)
returns text
language sql
immutable
as $$
select case e.spelled
    when '@YEARLY' then '0 0 1 1 *'
    when '@ANNUALLY' then '0 0 1 1 *'
    when '@MONTHLY' then '0 0 1 * *'
    when '@WEEKLY' then '0 0 * * 0'
    when '@DAILY' then '0 0 * * *'
    when '@MIDNIGHT' then '0 0 * * *'
    when '@HOURLY' then '0 * * * *'
    else e.spelled
end
from (
    values (upper(btrim(cron_spelled_out.expression, E' \t') collate "C"))
) as e (spelled);
$$;

-- What is wrong with it as a whole.
create or replace function _pgwhen.cron_shape_faults(
    expression text,
    fields text[],
    at_path text
)
returns _pgwhen.fault[]
language plpgsql
immutable
as $$
declare
    v_fields constant text :=
        'Write minute, hour, day of month, month and day of week, for example "0 9 * * 1".';
begin
    return case
        when expression = '' then
            _pgwhen.one_fault(at_path, 'is blank', v_fields, 'PW002')
        when expression = '@REBOOT' then _pgwhen.one_fault(
            at_path, '@reboot is the start of a server, and no time',
            'Write when, for example "@daily" or "0 9 * * 1".', 'PW002'
        )
        when expression like '@EVERY%' then _pgwhen.one_fault(
            at_path, '@every is no cron',
            'Write "every" instead of "cron", for example {"every": "15 minutes"}.', 'PW002'
        )
        when expression like '@%' then _pgwhen.one_fault(
            at_path, format('"%s" is no macro that is known', left(lower(expression), 40)),
            'There are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly.',
            'PW002'
        )
        when fields[1] ~ '^[A-Z_]+=' then _pgwhen.one_fault(
            at_path, 'begins with a variable',
            'The zone stands beside it, for example "timezone": "Asia/Bangkok".', 'PW002'
        )
        when cardinality(fields) in (6, 7) then _pgwhen.one_fault(
            at_path, format('has %s fields, not five', cardinality(fields)),
            'There are no seconds and no year. ' || v_fields, 'PW002'
        )
        when cardinality(fields) <> 5 then _pgwhen.one_fault(
            at_path, format('has %s field%s, not five', cardinality(fields),
                case when cardinality(fields) > 1 then 's' end),
            v_fields, 'PW002'
        )
        else '{}'
    end;
end;
$$;

-- In 28 years that skip no leap year, every date falls on every day of the week that it can.
create or replace function _pgwhen.cron_ever_comes(parsed jsonb)
returns boolean
language plpgsql
immutable
as $$
declare
    v_months constant bigint := (parsed -> 'months')::bigint;
    v_days constant bigint := (parsed -> 'days')::bigint;
    v_weekdays constant bigint := (parsed -> 'weekdays')::bigint;
    v_either constant boolean := (parsed -> 'either')::boolean;
begin
    for v_year in 2001 .. 2028 loop
        for v_month in 1 .. 12 loop
            if (v_months >> (v_month - 1)) & 1 = 1 and _pgwhen.cron_days(
                v_days, v_weekdays, v_either, make_date(v_year, v_month, 1)
            ) <> 0 then
                return true;
            end if;
        end loop;
    end loop;
    return false;
end;
$$;
