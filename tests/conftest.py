"""Fixtures: the cluster, a template that is deployed once, and a fresh database for each test.

The cluster is the one that the PG* variables name, else the private one of `make db`.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from pgwhen.deploy import DeployError, deploy

from .support import CASES, ROOT, SOAK, Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

settings.register_profile(
    "pgwhen",
    max_examples=CASES,
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("pgwhen")

_numbers = itertools.count(1)


def _read_environment() -> None:
    """Take the PG* variables from `.pg/env` where the caller has set none."""
    file = ROOT / ".pg" / "env"
    if "PGHOST" in os.environ:
        return
    if not file.exists():
        pytest.exit(f"there is no server: set PGHOST, or run `make db` (it writes {file})", 3)
    for line in file.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        os.environ[name] = value


@pytest.fixture(scope="session")
def admin() -> Iterator[psycopg.Connection]:
    """Yield a superuser's session, outside every test database."""
    _read_environment()
    with psycopg.connect(dbname="postgres", autocommit=True) as conn:
        yield conn


@pytest.fixture(scope="session")
def create(admin: psycopg.Connection) -> Iterator[Callable[..., Database]]:
    """Yield a function that creates a database from a template; all are dropped in the end."""
    made: list[Database] = []

    def create(template: str = "template0") -> Database:
        database = Database(f"pgwhen_test_{os.getpid()}_{next(_numbers)}")
        made.append(database)
        name = sql.Identifier(database.name)
        admin.execute(
            sql.SQL("create database {} template {}").format(name, sql.Identifier(template))
        )
        admin.execute(sql.SQL("alter database {} set plpgsql.extra_errors = 'all'").format(name))
        return database

    yield create
    for database in made:
        drop(admin, database)


@pytest.fixture(scope="session")
def template(create: Callable[..., Database]) -> Database:
    """Return a database with pgwhen deployed in it, to be copied and never used.

    It does not know where it lives, or its copies would know that they are copies.
    """
    database = create()
    try:
        deploy(database.conninfo)
    except DeployError as exc:
        pytest.fail(f"no test can run: {exc}", pytrace=False)
    with psycopg.connect(database.conninfo) as conn:
        conn.execute("delete from _pgwhen.home")
    return database


@pytest.fixture
def empty_db(admin: psycopg.Connection, create: Callable[..., Database]) -> Iterator[Database]:
    """Yield an empty database of the test's own."""
    database = create()
    yield database
    drop(admin, database)


@pytest.fixture
def db(
    admin: psycopg.Connection, create: Callable[..., Database], template: Database
) -> Iterator[Database]:
    """Yield a database of the test's own with pgwhen deployed in it."""
    database = create(template.name)
    yield database
    drop(admin, database)


def drop(admin: psycopg.Connection, database: Database) -> None:
    """Drop *database* with whoever is still in it."""
    database.close()
    name = sql.Identifier(database.name)
    admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))
