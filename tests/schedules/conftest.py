"""One session in a deployed database, for tests that only ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database


@pytest.fixture(scope="session")
def session(create: Callable[..., Database], template: Database) -> psycopg.Connection:
    """Return a session in UTC, shared by all tests of schedules: none of them writes."""
    session = create(template.name).connect()
    session.execute("set time zone 'UTC'")
    session.execute(
        """
        create function pg_temp.runs(schedule jsonb, after timestamptz, n integer)
        returns timestamptz[] language plpgsql as $$
        declare
            v_runs timestamptz[] := '{}';
        begin
            for v_n in 1 .. n loop
                after := _pgwhen.next_run(schedule, after);
                exit when after is null;
                v_runs := v_runs || after;
            end loop;
            return v_runs;
        end;
        $$
        """
    )
    return session
