-- The five fields of a cron expression, by number: 1 minute, 2 hour, 3 day of the month, 4 month, 5
-- day of the week. Their items come in upper case.

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
