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
    v_expression constant text := _pgwhen.cron_spelled_out(cron_reading.expression);
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

-- The bitmap of one field, or what is wrong with the first item that is.
create or replace function _pgwhen.cron_field_reading(
    n integer,
    field text,
    out mask bigint,
    out message text,
    out hint text
)
language plpgsql
immutable
as $$
declare
    v_item text;
    v_read record;
begin
    mask := 0;
    foreach v_item in array string_to_array(cron_field_reading.field, ',') loop
        v_read := _pgwhen.cron_item_reading(cron_field_reading.n, v_item);
        if v_read.message is not null then
            mask := null;
            message := format(
                '%s "%s": %s', _pgwhen.cron_field_name(cron_field_reading.n),
                left(cron_field_reading.field, 40), v_read.message
            );
            hint := v_read.hint;
            return;
        end if;
        mask := mask | v_read.mask;
    end loop;
end;
$$;

-- One item of a list: L and its kin here, all else is a range with a step.
create or replace function _pgwhen.cron_item_reading(
    n integer,
    item text,
    out mask bigint,
    out message text,
    out hint text
)
language plpgsql
immutable
as $$
declare
    v_parts constant text[] := regexp_match(
        item, '^(?:\*|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]+))?$'
    );
    v_day constant text[] := regexp_match(item, '^([0-9A-Z]+)(?:(L)|#([0-9]+))$');
begin
    if n = 3 and item in ('L', 'LW') then
        mask := 1::bigint << case item when 'L' then 31 else 32 end;
    elsif n = 5 and _pgwhen.cron_number(n, v_day[1]) is not null then
        if v_day[2] is null and v_day[3] !~ '^[1-5]$' then
            message := format('a month has no day of the week number %s', left(v_day[3], 10));
            hint := 'Write 1 to 5, for example "5#2" for the second Friday, or "5L" for the last.';
        else
            mask := 1::bigint << (
                _pgwhen.cron_number(n, v_day[1]) % 7
                + 7 * coalesce(v_day[3]::integer - 1, 5)
            );
        end if;
    elsif v_parts is null then
        message := case item when '' then 'an item is missing'
            else format('"%s" is not understood', left(item, 40)) end;
        hint := _pgwhen.cron_item_hint(n, item);
    else
        select r.mask, r.message, r.hint
        into mask, message, hint
        from _pgwhen.cron_range_reading(n, v_parts[1], v_parts[2], v_parts[3]) as r;
    end if;
end;
$$;

-- first is null for *, last where there is no range.
create or replace function _pgwhen.cron_range_reading(
    n integer,
    first text,
    last text,
    step text,
    out mask bigint,
    out message text,
    out hint text
)
language plpgsql
immutable
as $$
declare
    v_lowest constant integer := _pgwhen.cron_lowest(n);
    v_highest constant integer := _pgwhen.cron_highest(n);
    v_first constant integer :=
        case when first is null then v_lowest else _pgwhen.cron_number(n, first) end;
    v_last constant integer := case
        when first is null then v_highest when last is null then v_first
        else _pgwhen.cron_number(n, last)
    end;
    v_most constant integer := v_highest - v_lowest + case when n = 5 then 0 else 1 end;
begin
    if v_first is null or v_last is null then
        message := format(
            '"%s" is not from %s to %s',
            left(case when v_first is null then first else last end, 40), v_lowest, v_highest
        );
        hint := _pgwhen.cron_item_hint(n, first);
    elsif v_first > v_last then
        message := format('the range %s-%s runs backwards', first, last);
        hint := _pgwhen.cron_turned_hint(v_first, v_last, v_lowest, v_highest);
    elsif step is not null and first is not null and last is null then
        message := format('the step of %s/%s has no range', first, step);
        hint := format('Write "%s-%s/%s".', first, v_highest, step);
    elsif step::numeric not between 1 and v_most then
        message := format('a step of %s is not from 1 to %s', left(step, 10), v_most);
        hint := 'A step starts anew with each ' || case n when 1 then 'hour' when 2 then 'day'
            when 3 then 'month' when 4 then 'year' else 'week' end
            || '; for a rhythm that does not, write "every" instead of "cron".';
    else
        mask := (
            select bit_or(case n
                when 5 then 270549121::bigint << v % 7
                else 1::bigint << (v - v_lowest)
            end)
            from generate_series(v_first, v_last, coalesce(step::integer, 1)) as v
        );
    end if;
end;
$$;

-- The value that a number or name means; null where it means none.
create or replace function _pgwhen.cron_number(n integer, token text)
returns integer
language sql
immutable
as $$
select case
    when cron_number.token ~ '^[0-9]{1,2}$' then case
        when cron_number.token::integer between
            _pgwhen.cron_lowest(cron_number.n) and _pgwhen.cron_highest(cron_number.n)
            then cron_number.token::integer
    end
    when cron_number.n = 4 then array_position(
        '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}'::text[], cron_number.token
    )
    when cron_number.n = 5
        then array_position('{SUN,MON,TUE,WED,THU,FRI,SAT}'::text[], cron_number.token) - 1
end;
$$;

create or replace function _pgwhen.cron_field_name(n integer)
returns text
language sql
immutable
as $$
select ('{minute,hour,day of month,month,day of week}'::text[])[cron_field_name.n];
$$;

create or replace function _pgwhen.cron_lowest(n integer)
returns integer
language sql
immutable
as $$
select ('{0,0,1,1,0}'::integer[])[cron_lowest.n];
$$;

create or replace function _pgwhen.cron_highest(n integer)
returns integer
language sql
immutable
as $$
select ('{59,23,31,12,7}'::integer[])[cron_highest.n];
$$;

create or replace function _pgwhen.cron_item_hint(n integer, item text)
returns text
language sql
immutable
as $$
select case
    when cron_item_hint.item = '?' then 'Write "*" for any.'
    else case cron_item_hint.n
        when 1 then 'Write 0 to 59, as in "5", "0-29", "*/15" or "0,30".'
        when 2 then 'Write 0 to 23, as in "9", "9-17", "*/2" or "9,17".'
        when 3 then 'Write 1 to 31, as in "1", "1-7" or "1,15"; "L" for the last day, "LW" for the '
            'last one from Monday to Friday.'
        when 4 then 'Write 1 to 12 or JAN to DEC, as in "1-3", "*/3" or "JUN,DEC".'
        else 'Write 0 (Sunday) to 7 (Sunday) or SUN to SAT, as in "1-5"; "5L" for the last Friday, '
            '"5#2" for the second.'
    end
end;
$$;

-- 22-2 is 22-23,0-2; and as there are two Sundays, 5-1 is 5-7,1.
create or replace function _pgwhen.cron_turned_hint(
    first integer,
    last integer,
    lowest integer,
    highest integer
)
returns text
language sql
immutable
as $$
select format(
    'Write "%s-%s%s".', cron_turned_hint.first, cron_turned_hint.highest,
    case
        when cron_turned_hint.last = r.rest then format(',%s', r.rest)
        when cron_turned_hint.last > r.rest then format(',%s-%s', r.rest, cron_turned_hint.last)
    end
)
from (
    values (case cron_turned_hint.highest when 7 then 1 else cron_turned_hint.lowest end)
) as r (rest);
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
