-- pgwhen.version: what was deployed last.
begin;
select plan(1);

select matches(pgwhen.version(), '^\d+\.\d+\.\d+', 'is a version');

select finish();
rollback;
