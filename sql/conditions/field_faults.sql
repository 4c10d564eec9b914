-- _pgwhen.field_faults: what is wrong with the name of a field, the first thing only.
--
-- rooted: the field begins at the document {user, event}; not so inside $elemMatch, where it
-- begins at the element.

create or replace function _pgwhen.field_faults(field text, at_path text, rooted boolean)
returns setof _pgwhen.fault
language plpgsql
stable
as $$
declare
    v_parts constant text[] := string_to_array(field, '.');
begin
    if length(field) > 1000 then
        return next (
            at_path, 'the field''s name is longer than 1000 characters', 'Use a shorter name.', 'PW108'
        )::_pgwhen.fault;
    elsif '' = any(v_parts) or field = '' then
        return next (
            at_path, format('field "%s" has an empty part', field),
            'Write the names with one dot between them: "user.address.city".', 'PW105'
        )::_pgwhen.fault;
    elsif exists (select from unnest(v_parts) as p (part) where p.part ~ '^[0-9]+$') then
        return next (
            at_path, format('field "%s" has a number for a part', field),
            'Leave it out: an array matches by any of its elements; '
            'for several tests on the same element use $elemMatch.', 'PW105'
        )::_pgwhen.fault;
    elsif rooted and v_parts[1] not in ('user', 'event') then
        return next (
            at_path, format('field "%s" begins with neither user. nor event.', field),
            format('Write "user.%1$s" for an attribute, "event.data.%1$s" for what came with the event.', field),
            'PW105'
        )::_pgwhen.fault;
    elsif rooted and cardinality(v_parts) = 1 then
        return next (
            at_path, format('field "%s" is the whole document of the %1$s', field),
            format('Name what of it you mean, for example "%s".',
                case field when 'user' then 'user.tier' else 'event.data.city' end),
            'PW105'
        )::_pgwhen.fault;
    elsif
        rooted and v_parts[1] = 'event'
        and v_parts[2] not in ('type', 'key', 'old', 'new', 'data', 'at')
    then
        return next (
            at_path, format('an event has no "%s"', v_parts[2]),
            format('There are event.type, key, old, new, data and at; did you mean "event.data.%s"?',
                array_to_string(v_parts[2:], '.')),
            'PW105'
        )::_pgwhen.fault;
    end if;
end;
$$;
