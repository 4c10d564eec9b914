-- The first deploy says where home is; a later one leaves it, so that a copy stays a copy.

insert into _pgwhen.home (cluster, database_oid, database_name, adopted_at)
select i.cluster, i.database_oid, i.database_name, _pgwhen.clock() as adopted_at
from _pgwhen.whereabouts() as i
on conflict on constraint home_pkey do nothing;
