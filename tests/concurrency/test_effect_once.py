"""Two transactions that both want to make one effect: one does, whichever way the other ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.concurrency.scene import scalar
from tests.support import PATIENCE, wait_blocked

if TYPE_CHECKING:
    from tests.support import Database

ASK = "select pgwhen.effect_once('T-1', 'credit')"
#: For who waits in a thread: a wait that does not end is an error, and ends the thread.
BOUNDED = f"set statement_timeout = '{PATIENCE:g}s'"
STRICT = [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE]


@pytest.mark.parametrize("first_commits", [True, False], ids=["commit", "rollback"])
def test_second_waits_for_how_the_first_ends(db: Database, *, first_commits: bool) -> None:
    first, second = db.sessions(2)
    observer = db.connect()
    second.execute(BOUNDED.encode())
    assert scalar(first, ASK)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(scalar, second, ASK)
        assert wait_blocked(observer, second) == [first.info.backend_pid]
        first.commit() if first_commits else first.rollback()
        assert asked.result() is not first_commits
    second.commit()
    assert scalar(observer, "select count(*) from _pgwhen.effect") == 1
    assert not scalar(observer, ASK)


def test_a_rolled_back_savepoint_lets_the_second_go_on(db: Database) -> None:
    """The first transaction need not end for it, as it would after a subtransaction of our own."""
    first, second = db.sessions(2)
    observer = db.connect()
    second.execute(BOUNDED.encode())
    first.execute("savepoint before")
    assert scalar(first, ASK)
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(scalar, second, ASK)
        wait_blocked(observer, second)
        first.execute("rollback to savepoint before")
        assert asked.result()


def test_another_key_or_kind_does_not_wait(db: Database) -> None:
    first, second = db.sessions(2)
    assert scalar(first, ASK)
    second.execute("set local lock_timeout = 1")
    assert scalar(second, "select pgwhen.effect_once('T-2', 'credit')")
    assert scalar(second, "select pgwhen.effect_once('T-1', 'receipt')")


def test_lock_timeout_bounds_the_wait(db: Database) -> None:
    first, second = db.sessions(2)
    assert scalar(first, ASK)
    second.execute("set local lock_timeout = 1")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        second.execute(ASK)


@pytest.mark.parametrize("level", STRICT, ids=lambda level: level.name.lower())
def test_a_snapshot_that_cannot_see_the_first_is_told_to_try_again(
    db: Database, level: psycopg.IsolationLevel
) -> None:
    first, second = db.sessions(2)
    second.isolation_level = level
    second.execute("select")  # takes the snapshot
    assert scalar(first, ASK)
    first.commit()
    with pytest.raises(psycopg.errors.SerializationFailure) as refused:
        second.execute(ASK)
    assert refused.value.diag.message_hint == "Try the transaction again."
    second.rollback()
    assert not scalar(second, ASK)


@pytest.mark.parametrize("level", STRICT, ids=lambda level: level.name.lower())
def test_a_snapshot_answers_what_it_can_see(db: Database, level: psycopg.IsolationLevel) -> None:
    """Its own effects and those from before; the note lasts, whatever block wrote it."""
    first, second = db.sessions(2)
    assert scalar(first, ASK)
    first.commit()
    second.isolation_level = level
    assert not scalar(second, ASK)
    assert scalar(second, "select pgwhen.effect_once('T-2', 'credit')")
    assert not scalar(second, "select pgwhen.effect_once('T-2', 'credit')")
    second.commit()
    assert not scalar(first, "select pgwhen.effect_once('T-2', 'credit')")


def test_many_keys_need_no_subtransactions(db: Database) -> None:
    """More than 64 of them in a transaction overflow what its backend shows to others."""
    conn = db.connect(autocommit=False)
    conn.execute("select pgwhen.effect_once('T-' || n) from generate_series(1, 100) as n")
    assert scalar(conn, "select count(distinct xmin::text) from _pgwhen.effect") == 1


def test_what_was_made_before_assigns_no_transaction_id(db: Database) -> None:
    first, second = db.sessions(2)
    assert scalar(first, ASK)
    first.commit()
    assert not scalar(second, ASK)
    assert scalar(second, "select pg_current_xact_id_if_assigned() is null")
