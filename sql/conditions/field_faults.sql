-- _pgwhen.field_faults: what is wrong with the name of a field, the first thing only.
--
-- rooted: the field begins at the document {user, event}; not so inside $elemMatch, where it
-- begins at the element.

create or replace function _pgwhen.field_faults(field text, at_path text, rooted boolean)
returns setof _pgwhen.fault
language plpgsql
immutable
as $$
declare
    v_parts constant text[] := string_to_array(field_faults.field, '.');
begin
    if length(field_faults.field) > 1000 then
        return next (
            field_faults.at_path, 'the name of the field is longer than 1000 characters',
            'Use a shorter name.', 'PW108'
        )::_pgwhen.fault;
    elsif field_faults.field = '' or '' = any(v_parts) then
        return next (
            field_faults.at_path,
            format('field "%s" has an empty part', field_faults.field),
            'Write the names with one dot between them: "user.address.city".', 'PW105'
        )::_pgwhen.fault;
    elsif exists (select from unnest(v_parts) as p (part) where p.part ~ '^[0-9]+$') then
        return next (
            field_faults.at_path,
            format('field "%s" has a number for a part', field_faults.field),
            'Leave it out: an array matches by any of its elements; '
            'for several tests of the same element use $elemMatch.', 'PW105'
        )::_pgwhen.fault;
    elsif field_faults.rooted then
        return query
        select f.* from _pgwhen.root_faults(field_faults.field, v_parts, field_faults.at_path) as f;
    end if;
end;
$$;

create or replace function _pgwhen.root_faults(field text, parts text[], at_path text)
returns setof _pgwhen.fault
language plpgsql
immutable
as $$
begin
    if root_faults.parts[1] not in ('user', 'event') then
        return next (
            root_faults.at_path,
            format('field "%s" begins with neither user. nor event.', root_faults.field),
            format(
                'Write "user.%1$s" for an attribute, '
                '"event.data.%1$s" for what came with the event.',
                root_faults.field
            ),
            'PW105'
        )::_pgwhen.fault;
    elsif cardinality(root_faults.parts) = 1 then
        return next (
            root_faults.at_path,
            format('field "%s" is a whole document', root_faults.field),
            'Name what of it you mean, for example "user.tier" or "event.data.city".', 'PW105'
        )::_pgwhen.fault;
    elsif
        root_faults.parts[1] = 'event'
        and root_faults.parts[2] not in ('type', 'key', 'old', 'new', 'data', 'at')
    then
        return next (
            root_faults.at_path,
            format('an event has no "%s"', root_faults.parts[2]),
            format(
                'There are event.type, key, old, new, data and at; did you mean "event.data.%s"?',
                array_to_string(root_faults.parts[2:], '.')
            ),
            'PW105'
        )::_pgwhen.fault;
    end if;
end;
$$;
