-- How much an action may leave behind: rows of results are read by people, copied by every backup,
-- and kept for actionRetention.

create or replace function _pgwhen.check_results(results jsonb[])
returns void
language plpgsql
stable
as $$
declare
    v_limit constant integer := _pgwhen.setting('resultLimit');
    v_size constant integer := (
        select max(octet_length(r.result::text)) from unnest(check_results.results) as r (result)
    );
begin
    if v_size > v_limit then
        raise exception 'the result has % bytes, more than resultLimit, %', v_size, v_limit
            using errcode = 'PW303',
                hint = 'Store it where it belongs, a table or a bucket of yours, and give back a '
                    'reference.';
    end if;
end;
$$;
