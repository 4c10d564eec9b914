"""Two attempts under one key, with two bodies: one goes out, whichever way the other ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.concurrency.scene import scalar
from tests.support import PATIENCE, wait_blocked

if TYPE_CHECKING:
    from tests.support import Database

KEY = "00000000-0000-8000-8000-000000000001"
#: For who waits in a thread: a wait that does not end is an error, and ends the thread.
BOUNDED = f"set statement_timeout = '{PATIENCE:g}s'"
STRICT = [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE]


def keeping(body: str) -> str:
    """Return the call that keeps *body*."""
    return f"select pgwhen.keep_body('{KEY}', sha256('{body}'))"


@pytest.mark.parametrize("first_commits", [True, False], ids=["commit", "rollback"])
@pytest.mark.parametrize("body", ["a", "b"], ids=["same", "other"])
def test_second_waits_for_how_the_first_ends(
    db: Database, body: str, *, first_commits: bool
) -> None:
    """A body that was rolled back has not gone out."""
    first, second = db.sessions(2)
    observer = db.connect()
    second.execute(BOUNDED.encode())
    assert scalar(first, keeping("a"))
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(scalar, second, keeping(body))
        assert wait_blocked(observer, second) == [first.info.backend_pid]
        first.commit() if first_commits else first.rollback()
        assert asked.result() is (body == "a" or not first_commits)


@pytest.mark.parametrize("level", STRICT, ids=lambda level: level.name.lower())
def test_snapshot_that_cannot_see_the_first_is_told_to_try_again(
    db: Database, level: psycopg.IsolationLevel
) -> None:
    """It would else take the first one's body for its own, or for none."""
    first, second = db.sessions(2)
    second.isolation_level = level
    second.execute("select")  # takes the snapshot
    assert scalar(first, keeping("a"))
    first.commit()

    with pytest.raises(psycopg.errors.SerializationFailure):
        second.execute(keeping("a").encode())
