"""pgwhen and a real pg_cron: the job, its owner, its traps, and that it ticks.

tests/sql/operation/ has the same against a stand-in for pg_cron, where that says more.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pgwhen.deploy import deploy
from tests.support import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cron.conftest import Ticking

JOBS = "select jobid, jobname, database, username, command, active from cron.job order by jobid"


@contextmanager
def acting_as(conn: psycopg.Connection, role: str) -> Iterator[None]:
    """Be *role* for the length of a block, as if one had logged in as it."""
    conn.execute(f"set local session authorization {role}".encode())
    yield
    conn.execute("set local session authorization default")


def notices(conn: psycopg.Connection) -> list[str]:
    """Collect what the server says beside its answers."""
    said: list[str] = []
    conn.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
    return said


def scalar(conn: psycopg.Connection, query: str) -> Any:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def findings(conn: psycopg.Connection) -> str:
    """Return what is wrong with ticking by itself, and what to do about it, a line each."""
    query = (
        "select coalesce(string_agg(value || ' -> ' || remedy, e'\\n'), '')"
        " from pgwhen.status() where item = 'ticking by itself'"
    )
    return str(scalar(conn, query))


def refusal(conn: psycopg.Connection, statement: str) -> tuple[str, str]:
    """Return the SQLSTATE and the HINT with which *statement* is refused."""
    with pytest.raises(psycopg.Error) as caught, conn.transaction():
        conn.execute(statement.encode())
    return caught.value.sqlstate or "", caught.value.diag.message_hint or ""


def test_deploying_schedules_nothing(ticking: Ticking) -> None:
    """Neither the first time nor where pg_cron has come since."""
    assert ticking.jobs_after_deploy == 0


def test_a_deploy_keeps_the_job(ticking: Ticking) -> None:
    """Deployed again, the job is the same row."""
    query = "select xmin::text, j.* from cron.job as j"
    with ticking.connect() as conn:
        before = conn.execute(query.encode()).fetchall()
        deploy(ticking.server.conninfo)

        assert len(before) == 1
        assert conn.execute(query.encode()).fetchall() == before


def test_there_is_one_job_however_often_one_asks(boss: psycopg.Connection) -> None:
    """It is the same one, so its history stays; nothing is wrong with it."""
    before = boss.execute(JOBS).fetchall()
    with acting_as(boss, "keeper"):
        boss.execute("select pgwhen.enable_cron(30)")

    assert boss.execute(JOBS).fetchall() == before
    assert before[0][1:] == (
        "pgwhen:postgres", "postgres", "keeper", "call pgwhen.run_ticks()", True
    )  # fmt: skip
    assert findings(boss) == ""


def test_seconds_are_asked_for_and_minutes_taken(boss: psycopg.Connection) -> None:
    """What comes back is what pg_cron has; where it is not what was asked for, a notice says so."""
    said = notices(boss)
    with acting_as(boss, "keeper"):
        schedule = scalar(boss, "select pgwhen.enable_cron(7)")

    version = scalar(boss, "select extversion from pg_extension where extname = 'pg_cron'")
    minutes = re.match(r"1\.[1-4]\b", version) is not None
    assert schedule == ("* * * * *" if minutes else "7 seconds")
    assert scalar(boss, "select schedule from cron.job") == schedule
    assert said == (
        ["this pg_cron takes no seconds: it will call run_ticks() once a minute"] if minutes else []
    )


def test_an_inactive_job_is_active_again(boss: psycopg.Connection) -> None:
    """pg_cron would leave it inactive when it is scheduled again by its name."""
    boss.execute("select cron.alter_job(jobid, active => false) from cron.job")
    assert findings(boss) == ("job 1 of pg_cron is not active -> select pgwhen.enable_cron()")

    with acting_as(boss, "keeper"):
        boss.execute("select pgwhen.enable_cron()")
    assert [row[-1] for row in boss.execute(JOBS)] == [True]


def test_a_job_led_elsewhere_is_made_anew(boss: psycopg.Connection) -> None:
    """A promoted copy has the port of the old server in its jobs, and would tick there."""
    boss.execute("update cron.job set nodeport = 1")
    assert findings(boss) == (
        "job 1 of pg_cron calls the server at port 1, and this one is at 5432"
        " -> select pgwhen.enable_cron()"
    )

    with acting_as(boss, "keeper"):
        boss.execute("select pgwhen.enable_cron()")
    assert scalar(boss, "select nodeport from cron.job") == 5432


def test_another_owner_is_told_and_replaced(boss: psycopg.Connection) -> None:
    """pg_cron lets each role have its own job of one name; a superuser leaves one."""
    boss.execute("create role rival login superuser")
    boss.execute(
        "insert into cron.job (jobname, schedule, command, nodeport, username)"
        " select jobname, schedule, command, nodeport, 'rival' from cron.job"
    )
    assert findings(boss).startswith("2 jobs tick this database, of the roles keeper, rival -> ")

    said = notices(boss)
    boss.execute("select pgwhen.enable_cron(60)")
    assert [row[3] for row in boss.execute(JOBS)] == ["postgres"]
    assert [re.sub(r"\d+", "N", text) for text in said] == [
        f'removed job N (pgwhen:postgres) of role "{role}" in database "postgres"'
        for role in ("keeper", "rival")
    ]


def test_only_who_can_be_the_owner_schedules(boss: psycopg.Connection) -> None:
    """pg_cron logs in as the owner; a role of which it could not is refused, with what to do."""
    boss.execute("create role newcomer login; grant pgwhen_admin to newcomer")
    with acting_as(boss, "newcomer"):
        assert refusal(boss, "select pgwhen.enable_cron()") == (
            "PW803", "As a superuser: grant usage on schema cron to newcomer;"
        )  # fmt: skip
        assert refusal(boss, "select pgwhen.disable_cron()")[0] == "PW803"
    boss.execute("grant usage on schema cron to pgwhen_admin")
    with acting_as(boss, "newcomer"):
        boss.execute("set local role pgwhen_admin")
        assert refusal(boss, "select pgwhen.enable_cron()") == (
            "PW803",
            "Call this as a role that can: reset role, or alter role pgwhen_admin login;",
        )
    boss.execute("create role outsider login")
    boss.execute("grant usage on schema cron, pgwhen, _pgwhen to outsider")
    boss.execute("grant execute on all functions in schema pgwhen, _pgwhen to outsider")
    with acting_as(boss, "outsider"):
        assert refusal(boss, "select pgwhen.enable_cron()") == (
            "PW803", "grant pgwhen_worker to outsider;"
        )  # fmt: skip


def test_a_dropped_owner_is_named_and_removed(boss: psycopg.Connection) -> None:
    """It stops every job of pg_cron, and only a superuser can end that."""
    boss.execute("drop owned by keeper; drop role keeper")
    assert findings(boss) == (
        'job 1 of pg_cron belongs to role "keeper", which was dropped: no job of pg_cron runs'
        " -> as a superuser: select pgwhen.disable_cron(); then, as a role that stays:"
        " select pgwhen.enable_cron()"
    )

    assert scalar(boss, "select pgwhen.disable_cron()") == 1
    assert boss.execute(JOBS).fetchall() == []
    assert findings(boss) == ""


def test_who_looks_sees_what_pg_cron_shows(boss: psycopg.Connection) -> None:
    """The owner sees its job; another admin is told that there may be one it cannot see."""
    boss.execute("update cron.job set active = false")
    boss.execute("create role newcomer login; grant pgwhen_admin to newcomer")
    query = "select finding from _pgwhen.cron_findings()"
    with acting_as(boss, "keeper"):
        assert scalar(boss, query) == "job 1 of pg_cron is not active"
    with acting_as(boss, "newcomer"):
        assert scalar(boss, query) == 'role "newcomer", who looks, cannot see pg_cron\'s jobs'
    boss.execute("grant usage on schema cron to newcomer")
    with acting_as(boss, "newcomer"):
        assert scalar(boss, query) == (
            "there is no job pgwhen:postgres in pg_cron,"
            ' or role "newcomer", who looks, may not see it'
        )


def test_an_owner_takes_its_own_job_out(boss: psycopg.Connection) -> None:
    """And never a job that is not pgwhen's."""
    with acting_as(boss, "keeper"):
        boss.execute("select cron.schedule('mine', '* * * * *', 'select 1')")
        assert scalar(boss, "select pgwhen.disable_cron()") == 1
        assert scalar(boss, "select pgwhen.disable_cron()") == 0
    assert [row[1] for row in boss.execute(JOBS)] == ["mine"]


def test_from_another_database_it_says_what_to_run_here(
    ticking: Ticking, boss: psycopg.Connection
) -> None:
    """The statement in the hint does what it says, in the database where pg_cron lives."""
    with ticking.connect() as admin:
        admin.execute("create database shop")
    deploy(psycopg.conninfo.make_conninfo(ticking.server.conninfo, dbname="shop"))
    with ticking.connect(dbname="shop") as shop:
        state, hint = refusal(shop, "select pgwhen.enable_cron()")
        said = notices(shop)
        assert scalar(shop, "select pgwhen.disable_cron()") == 0

    assert said == ["there is no pg_cron in this database"]
    assert state == "PW802"
    assert hint == (
        'Run this in database "postgres", and grant its role pgwhen_worker here:'
        " select cron.schedule_in_database("
        "'pgwhen:shop', '* * * * *', 'call pgwhen.run_ticks()', 'shop');"
    )
    boss.execute(hint[hint.index("select") :].encode())
    assert [row[1:3] for row in boss.execute(JOBS)] == [
        ("pgwhen:postgres", "postgres"),
        ("pgwhen:shop", "shop"),
    ]
    assert findings(boss) == ""


def test_without_the_extension_it_says_how_to_get_it(boss: psycopg.Connection) -> None:
    """Loaded, but not created: one statement is missing."""
    boss.execute("drop extension pg_cron")

    assert refusal(boss, "select pgwhen.enable_cron()") == (
        "PW802", "As a superuser: create extension pg_cron;"
    )  # fmt: skip
    assert findings(boss) == (
        "pg_cron was to call run_ticks(), and is not in this database any more"
        " -> create extension pg_cron, then select pgwhen.enable_cron(); or, to do without:"
        " select pgwhen.disable_cron()"
    )


RUNS = """
insert into cron.job_run_details (jobid, database, username, command, status, start_time, end_time)
select 1, database, 'keeper', command, 'succeeded', now() - age, now() - age
from (values
    ('postgres', 'call pgwhen.run_ticks()', interval '25 hours'),
    ('postgres', 'call pgwhen.run_ticks()', interval '23 hours'),
    ('shop', 'call pgwhen.run_ticks()', interval '25 hours'),
    ('postgres', 'select 1', interval '25 hours')
) as r (database, command, age)
cross join generate_series(1, 3)
"""


def test_old_runs_of_ours_go_in_batches(boss: psycopg.Connection) -> None:
    """By maintain(), and nobody else's with them."""
    boss.execute(RUNS)

    deleted = [scalar(boss, "select pgwhen.maintain(2) -> 'cronRunsDeleted'") for _ in range(3)]

    assert deleted == [2, 1, 0]
    left = boss.execute(
        "select database, command from cron.job_run_details where start_time < now() - interval"
        " '24 hours' order by 1, 2"
    ).fetchall()
    assert left == [("postgres", "select 1")] * 3 + [("shop", "call pgwhen.run_ticks()")] * 3


def test_a_lock_on_the_runs_stops_nothing(ticking: Ticking, boss: psycopg.Connection) -> None:
    """Whoever holds the table, maintain() does all else; pg_cron itself would wait."""
    with ticking.connect() as holder, holder.transaction(force_rollback=True):
        holder.execute("lock table cron.job_run_details in access exclusive mode")
        report = scalar(boss, "select pgwhen.maintain()")

    assert report["cronRunsDeleted"] == 0
    assert report["actionsDeleted"] == 0


@pytest.mark.real_time
@pytest.mark.timeout(150)
def test_it_ticks_with_no_listener(ticking: Ticking) -> None:
    """P7. An event is processed by pg_cron's job, owned by a role that is no superuser.

    pg_cron 1.4 forgets to look when its table changes while it reads it, as in the first moments of
    this server: where its minute has passed and nothing ran, another change makes it look.
    """
    with ticking.connect() as conn, ticking.connect("keeper") as keeper:
        if not conn.execute("select from cron.job_run_details").fetchall():
            keeper.execute("select pgwhen.enable_cron()")
        try:
            run = wait_until(
                conn,
                "select d.username || ' ' || d.status from cron.job_run_details as d"
                " where d.command = 'call pgwhen.run_ticks()'"
                " and d.status in ('succeeded', 'failed')",
                patience=120,
                pause=0.2,
            )
        except TimeoutError:
            print(conn.execute("table cron.job_run_details").fetchall())
            print(conn.execute("select * from pg_stat_activity where state is not null").fetchall())
            print(ticking.server.log.read_text()[-20_000:])
            raise
        members = conn.execute("select user_id from pgwhen.audience_member").fetchall()
        workers = conn.execute("table _pgwhen.worker").fetchall()

        assert run == "keeper succeeded"
        assert members == [("ann",)]
        assert workers == []
        assert findings(conn) == ""
