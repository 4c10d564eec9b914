-- _pgwhen.are_from_pcre: token by token. What then matches stands in tests/conditions.json, and
-- beside another regular expression engine in tests/conditions/test_regex.py.
begin;
\ir ../helpers.psql
select plan(16);

select is(
    (_pgwhen.are_from_pcre(p.pattern, p.options)).are, p.expected,
    format('are_from_pcre rewrites %s with options "%s"', p.pattern, p.options)
)
from (
    values
    ('', '', ''),
    ('^a+b*?$', '', '^a+b*?(?=\n?\Z)'),
    ('^a$', 'm', '(?:\A|(?<=\n)(?!\Z))a(?=\n|\Z)'),
    ('a.b', '', 'a[^\n]b'),
    ('a.b', 's', 'a.b'),
    ('a.b', 'i', 'a[^\n]b'),
    ('[.$^]', '', '[.$^]'),
    ('[^]\]a-z-]', '', '[^\]\]a-z-]'),
    ('[\d\w-]\d', '', '[0-9A-Za-z0-9_-][0-9]'),
    ('[[][x]', '', '[\[][x]'),
    (' a # b' || chr(10) || 'c\ [ #]', 'x', 'ac\ [ #]'),
    ('a # b', '', 'a # b'),
    ('(?:a|b)(c)', '', '(?:a|b)(c)'),
    ('\.\/\"\\', '', '\.\/\"\\'),
    ('\ก', '', '\ก')
) as p (pattern, options, expected);

select is(
    (_pgwhen.are_from_pcre('a(?=b)\1', '')).problem, '(?=',
    'are_from_pcre names what it refuses first'
);
select finish();
rollback;
