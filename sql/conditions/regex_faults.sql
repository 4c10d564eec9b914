-- _pgwhen.regex_faults: what is wrong with $regex, or with the $options beside it.

create or replace function _pgwhen.regex_faults(operators jsonb, operator text, at_path text)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_pattern constant jsonb := regex_faults.operators -> '$regex';
    v_options constant jsonb := regex_faults.operators -> '$options';
begin
    if regex_faults.operator = '$options' and v_pattern is null then
        return next (
            regex_faults.at_path, '$options stands without $regex',
            'Write {"$regex": "^gold", "$options": "i"}.', 'PW103'
        )::_pgwhen.fault;
    elsif
        regex_faults.operator = '$options'
        and (jsonb_typeof(v_options) <> 'string' or v_options #>> '{}' !~ '^[imsx]*$')
    then
        return next (
            regex_faults.at_path, 'the operand of $options is a text of the letters i, m, s and x',
            'Write for example {"$regex": "^gold", "$options": "i"}.', 'PW103'
        )::_pgwhen.fault;
    elsif regex_faults.operator = '$regex' and jsonb_typeof(v_pattern) <> 'string' then
        return next (
            regex_faults.at_path, 'the operand of $regex is a text',
            'Write for example {"$regex": "^gold"}.', 'PW103'
        )::_pgwhen.fault;
    elsif regex_faults.operator = '$regex' then
        return query select f.*
        from _pgwhen.pcre_faults(
            v_pattern #>> '{}', coalesce(v_options #>> '{}', ''), regex_faults.at_path
        ) as f;
    end if;
end;
$$;

create or replace function _pgwhen.pcre_faults(pattern text, options text, at_path text)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_are text;
    v_problem text;
begin
    if length(pcre_faults.pattern) > 1000 then
        return next (
            pcre_faults.at_path, 'the regular expression is longer than 1000 characters',
            'Use a shorter one, or several under $or.', 'PW108'
        )::_pgwhen.fault;
        return;
    end if;

    select r.are, r.problem
    into v_are, v_problem
    from _pgwhen.are_from_pcre(pcre_faults.pattern, pcre_faults.options) as r;

    if v_problem is not null then
        return next (
            pcre_faults.at_path,
            format('the regular expression has %s, which is not supported', v_problem),
            'Look-around, back-references, \p{}, inline flags, named and atomic groups, POSIX '
            'classes and hexadecimal escapes are left out; flags stand in $options.', 'PW107'
        )::_pgwhen.fault;
        return;
    end if;

    perform '' ~ v_are;
exception
    when invalid_regular_expression then
        return next (
            pcre_faults.at_path, sqlerrm,
            'Mend the expression; \ before a special character takes it as itself.', 'PW107'
        )::_pgwhen.fault;
end;
$$;
