"""A database with the SQL action `note`, whose effects the tests count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.concurrency.scene import add_effects

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database


@pytest.fixture
def shop(db: Database) -> psycopg.Connection:
    """Return a superuser's session, in autocommit mode, in a fresh database that has `note`."""
    conn = db.connect()
    add_effects(conn)
    return conn
