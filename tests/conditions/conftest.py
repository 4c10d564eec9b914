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
    """Return a session shared by all tests of conditions: none of them writes."""
    return create(template.name).connect()
