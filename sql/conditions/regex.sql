-- _pgwhen.are_from_pcre: a MongoDB regular expression in Postgres' dialect.
--
-- MongoDB speaks PCRE, like_regex speaks Postgres' ARE. The constructs that both have mean
-- different things in places ($ before a final newline, [^a] against newlines, \w beyond ASCII,
-- \b), so each token is rewritten to what means the same, or refused. The result is always run
-- with like_regex's flag "s"; "." is spelled out where the options do not ask for it. What is
-- left to judge, such as a quantifier with nothing before it, the Postgres compiler judges.

create or replace function _pgwhen.are_from_pcre(
    pattern text,
    options text,
    out are text,
    out problem text
)
language sql
immutable
as $$
with dialect as (
    select
        are_from_pcre.options like '%m%' as multiline,
        are_from_pcre.options like '%s%' as dotall,
        case
            when are_from_pcre.options like '%x%' then
                _pgwhen.regex_without_layout(are_from_pcre.pattern)
            else are_from_pcre.pattern
        end as body
),
token as (
    select
        t.part[1] as token,
        t.place,
        d.multiline,
        d.dotall
    from dialect as d
    cross join lateral regexp_matches(
        d.body, '(\\.|\[\^?\]?(?:\\.|[^]\\])*\]|\(\?.?|\(\*|\{,|\*\*\*|.)', 'g'
    ) with ordinality as t (part, place)
),
rewritten as (
    select
        t.place,
        case
            when t.token like '\\%' then _pgwhen.regex_escape(t.token)
            when t.token like '[_%' then (_pgwhen.regex_class(t.token)).are
            when t.token = '.' and not t.dotall then '[^\n]'
            when t.token = '^' and t.multiline then '(?:\A|(?<=\n)(?!\Z))'
            when t.token = '$' and t.multiline then '(?=\n|\Z)'
            when t.token = '$' then '(?=\n?\Z)'
            when t.token = '(?:' or t.token !~ '^(\(\?|\(\*|\{,|\*\*\*)' then t.token
        end as are,
        case
            when t.token like '[_%' then (_pgwhen.regex_class(t.token)).problem
            else t.token
        end as problem
    from token as t
)
select
    coalesce(string_agg(r.are, '' order by r.place), '') as are,
    (array_agg(r.problem order by r.place) filter (where r.are is null))[1] as problem
from rewritten as r;
$$;

-- What the option x leaves: no white space and no comments outside of brackets.
create or replace function _pgwhen.regex_without_layout(pattern text)
returns text
language sql
immutable
as $$
select coalesce(string_agg(t.part[1], '' order by t.place), '')
from regexp_matches(
    regex_without_layout.pattern, '(\\.|\[\^?\]?(?:\\.|[^]\\])*\]|#[^\n]*|.)', 'g'
) with ordinality as t (part, place)
where t.part[1] !~ '^[# \t\n\v\f\r]';
$$;

-- One escape outside of brackets, NULL where the dialects have no common meaning. The shorthand
-- classes are PCRE's ASCII ones, whatever the locale of the database.
create or replace function _pgwhen.regex_escape(token text)
returns text
language sql
immutable
as $$
select case
    when regex_escape.token in ('\t', '\n', '\r', '\f', '\a', '\e', '\A') then regex_escape.token
    when regex_escape.token = '\d' then '[0-9]'
    when regex_escape.token = '\D' then '[^0-9]'
    when regex_escape.token = '\w' then '[A-Za-z0-9_]'
    when regex_escape.token = '\W' then '[^A-Za-z0-9_]'
    when regex_escape.token = '\s' then '[ \t\n\v\f\r]'
    when regex_escape.token = '\S' then '[^ \t\n\v\f\r]'
    when regex_escape.token = '\z' then '\Z'
    when regex_escape.token = '\Z' then '(?=\n?\Z)'
    when regex_escape.token = '\b' then
        '(?:(?<=[A-Za-z0-9_])(?![A-Za-z0-9_])|(?<![A-Za-z0-9_])(?=[A-Za-z0-9_]))'
    when regex_escape.token = '\B' then
        '(?:(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<![A-Za-z0-9_])(?![A-Za-z0-9_]))'
    when regex_escape.token ~ '^\\[^A-Za-z0-9]$' then regex_escape.token
end;
$$;

-- One bracket expression. A shorthand class next to a hyphen is refused: PCRE reads the hyphen
-- as itself, the rewritten form would be a range.
create or replace function _pgwhen.regex_class(token text, out are text, out problem text)
language sql
immutable
as $$
with part as (
    select
        t.part[1] as part,
        t.place,
        lag(t.part[1]) over w as before,
        lag(t.part[1], 2) over w as before_that,
        lead(t.part[1]) over w as behind,
        lead(t.part[1], 2) over w as behind_that
    from regexp_matches(
        substring(regex_class.token from '^\[\^?(.*)\]$'), '(\\.|\[[:.=]|.)', 'g'
    ) with ordinality as t (part, place)
    window w as (order by t.place)
),
rewritten as (
    select
        p.place,
        p.part,
        case
            when p.part in ('\d', '\w', '\s') and (
                (p.behind = '-' and p.behind_that is not null)
                or (p.before = '-' and p.before_that is not null)
            ) then null
            when p.part = '\d' then '0-9'
            when p.part = '\w' then 'A-Za-z0-9_'
            when p.part = '\s' then ' \t\n\v\f\r'
            when p.part in ('\t', '\n', '\r', '\f', '\a', '\e') then p.part
            when p.part in ('[', ']') then '\' || p.part
            when p.part ~ '^\\[^A-Za-z0-9]$' or p.part !~ '^(\\|\[)' then p.part
        end as are
    from part as p
)
select
    case
        when bool_and(r.are is not null) then
            substring(regex_class.token from '^\[\^?')
            || string_agg(r.are, '' order by r.place)
            || ']'
    end as are,
    coalesce(
        (array_agg(r.part order by r.place) filter (where r.are is null))[1], regex_class.token
    ) as problem
from rewritten as r;
$$;
