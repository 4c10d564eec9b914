"""A connection to the deployed database that the PG* variables name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def connection() -> Iterator[psycopg.Connection]:
    """One autocommitting connection for all tests of conditions: none of them writes."""
    with psycopg.connect("", autocommit=True) as connection:
        yield connection
