"""Claims of batches beside whoever else is at one of their actions: all of them, or none (P2, P3).

A lost batch is one that was claimed and taken back: nobody knows whether it was sent. Its actions
are u1, u2 and so on; other actions that are due are x1, x2 and so on.
"""

from __future__ import annotations

import random
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.concurrency.scene import report, scalar
from tests.support import wait_blocked

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

UNKNOWN = '{"message": "no answer", "outcomeUnknown": true}'


class Claimed(NamedTuple):
    """What a claim tells of one action."""

    user: str
    id: int
    token: Any
    batch_id: Any


def claim(conn: psycopg.Connection, size: int | None = None) -> dict[str, Claimed]:
    """Claim mails that are due, and return them by their users."""
    rows = conn.execute(
        "select user_id, id, token, batch_id from pgwhen.claim_actions('w', %s, '{mail}')", [size]
    ).fetchall()
    return {row[0]: Claimed(*row) for row in rows}


def say(conn: psycopg.Connection, verb: str, claims: dict[str, Claimed], *error: str) -> int:
    """Report *claims*; return how many were still the worker's."""
    told = ([text] * len(claims) for text in error)
    return len(report(conn, verb, [(c.id, c.token) for c in claims.values()], *told))


def make_mails(conn: psycopg.Connection, *users: str) -> None:
    """Let a mail for each of *users* be due, in this order."""
    for user in users:
        conn.execute("select pgwhen.schedule_action('mail', %s)", [user])


def recover(conn: psycopg.Connection, size: int | None = None) -> int:
    """Take stale actions back; return how many."""
    return int(scalar(conn, "select pgwhen.recover_stale_actions(%s)", size))


def of(conn: psycopg.Connection, verb: str, user: str) -> None:
    """Call a verb by hand for the mail of *user*."""
    query = f"select pgwhen.{verb}(id) from pgwhen.scheduled_action where user_id = %s"
    conn.execute(query.encode(), [user])


def put_off(conn: psycopg.Connection) -> set[str]:
    """Return the users whose mails a claim has put off."""
    rows = conn.execute(
        "select user_id from pgwhen.scheduled_action"
        " where status = 'pending' and execute_at > updated_at"
    )
    return {row[0] for row in rows}


@pytest.fixture
def lost(shop: psycopg.Connection) -> Any:
    """Let u1, u2 and u3 be a lost batch that is due; attempts are stale at once. Return its id."""
    shop.execute(
        "insert into pgwhen.setting values ('staleProcessingMinute', '1e-7'), ('retrySeconds', '0')"
    )
    shop.execute("select pgwhen.register_action('mail', options => '{\"batch\": 3}')")
    make_mails(shop, "u1", "u2", "u3")
    batch_ids = {c.batch_id for c in claim(shop).values()}
    assert len(batch_ids) == 1
    assert recover(shop) == 3
    return batch_ids.pop()


def test_two_claims_do_not_share_a_batch(db: Database, shop: psycopg.Connection, lost: Any) -> None:
    """One has all of it, however few it asks for; the other passes by, and has the rest."""
    make_mails(shop, "x1")
    first, second = db.sessions(2)
    mine = claim(first, 1)
    assert set(mine) == {"u1", "u2", "u3"}
    assert {c.batch_id for c in mine.values()} == {lost}
    assert set(claim(second)) == {"x1"}
    first.rollback()
    second.commit()
    assert set(claim(second)) == {"u1", "u2", "u3"}


@pytest.mark.usefixtures("lost")
def test_who_meets_a_batch_first_has_all_of_it(db: Database, shop: psycopg.Connection) -> None:
    """One has met the first action; the other, who meets the next, would keep it from the rest."""
    make_mails(shop, "x1")
    first, second = db.sessions(2)
    first.execute("select _pgwhen.lock_due('{mail}', clock_timestamp(), 1)")
    assert set(claim(second)) == {"x1"}
    assert put_off(second) == set()
    assert set(claim(first)) == {"u1", "u2", "u3"}


@pytest.mark.usefixtures("lost")
def test_what_a_claim_has_no_room_for_stays_due(db: Database, shop: psycopg.Connection) -> None:
    """It is not the first, and is left: for others once this claim has ended."""
    make_mails(shop, "x1")
    of(shop, "run_action_now", "u1")
    first, second = db.sessions(2)
    assert set(claim(first, 2)) == {"x1"}
    assert claim(second) == {}
    assert put_off(second) == set()
    second.rollback()
    first.commit()
    assert set(claim(second)) == {"u1", "u2", "u3"}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("user", ["u1", "u3"])
def test_a_claim_leaves_a_batch_of_which_one_is_being_cancelled(
    db: Database, shop: psycopg.Connection, lost: Any, user: str, *, kept: bool
) -> None:
    """The cancel first: none of the batch, and nobody waits; then the others, or all."""
    make_mails(shop, "x1")
    person, worker = db.sessions(2)
    of(person, "cancel_action", user)
    assert set(claim(worker)) == {"x1"}
    worker.commit()
    assert put_off(shop) == {"u1", "u2", "u3"} - {user}, "what it leaves is in nobody's way"
    (person.commit if kept else person.rollback)()

    of(shop, "run_action_now", "u2")
    claims = claim(worker)
    assert set(claims) == {"u1", "u2", "u3"} - ({user} if kept else set())
    assert {c.batch_id for c in claims.values()} == {lost}


def test_a_cancel_waits_for_the_claim_of_a_batch(
    db: Database, shop: psycopg.Connection, lost: Any
) -> None:
    """The claim first: what runs may still succeed; if it is lost again, the others go without."""
    person, worker = db.sessions(2)
    assert set(claim(worker)) == {"u1", "u2", "u3"}
    with ThreadPoolExecutor(1) as pool:
        cancelling = pool.submit(of, person, "cancel_action", "u2")
        assert wait_blocked(shop, person) == [worker.info.backend_pid]
        worker.commit()
        cancelling.result()
    person.commit()
    assert recover(shop) == 3
    assert {(c.user, c.batch_id) for c in claim(shop).values()} == {("u1", lost), ("u3", lost)}


def test_a_claim_passes_over_a_batch_that_recovery_takes_back(
    db: Database, shop: psycopg.Connection, lost: Any
) -> None:
    """Nothing of it before the commit, all of it afterwards; in pages of one, it is one page."""
    assert set(claim(shop)) == {"u1", "u2", "u3"}
    recovery, worker = db.sessions(2)
    assert recover(recovery, 1) == 3
    assert claim(worker) == {}
    recovery.commit()
    assert {(c.user, c.batch_id) for c in claim(worker).values()} == {
        ("u1", lost), ("u2", lost), ("u3", lost),
    }  # fmt: skip


def test_half_a_batch_is_done_and_the_worker_is_gone(
    db: Database, shop: psycopg.Connection, lost: Any
) -> None:
    """Recovery passes over what is just being reported; none of the others goes before that."""
    claims = claim(shop)
    worker, other = db.sessions(2)
    assert say(worker, "complete_actions", {"u2": claims["u2"]}) == 1
    assert recover(shop) == 2
    assert claim(other) == {}
    other.commit()
    worker.commit()

    of(shop, "run_action_now", "u1")
    rest = claim(other)
    assert {(c.user, c.batch_id) for c in rest.values()} == {("u1", lost), ("u3", lost)}
    assert say(other, "complete_actions", claims) == 0, "and the worker is late"


def test_a_late_completion_changes_nothing(shop: psycopg.Connection, lost: Any) -> None:
    """What one attempt says of a member after it was lost is not the next attempt's."""
    before = claim(shop)
    recover(shop)
    assert say(shop, "complete_actions", {"u1": before["u1"]}) == 0
    after = claim(shop)
    assert {c.batch_id for c in after.values()} == {lost}
    assert say(shop, "complete_actions", after) == 3


def test_a_report_of_a_part_holds_the_others_back(shop: psycopg.Connection, lost: Any) -> None:
    """What is due of it waits for what runs of it."""
    claims = claim(shop)
    half = {"u1": claims.pop("u1")}
    assert say(shop, "fail_actions", half, UNKNOWN) == 1
    assert claim(shop) == {}
    assert say(shop, "fail_actions", claims, UNKNOWN) == 2
    of(shop, "run_action_now", "u1")
    assert {c.batch_id for c in claim(shop).values()} == {lost}


@pytest.mark.parametrize("committed", [True, False])
def test_a_retry_by_hand_comes_along_or_waits(
    db: Database, shop: psycopg.Connection, lost: Any, *, committed: bool
) -> None:
    """Of one of which the others are pending: what the claim cannot see goes later, by itself."""
    claims = claim(shop)
    one = {"u1": claims.pop("u1")}
    say(shop, "fail_actions", one, UNKNOWN.replace("{", '{"nonRetryable": true, '))
    say(shop, "fail_actions", claims, UNKNOWN)
    person, worker = db.sessions(2)
    of(person, "retry_action", "u1")
    if committed:
        person.commit()
        assert set(claim(worker)) == {"u1", "u2", "u3"}
        return

    others = claim(worker)
    assert set(others) == {"u2", "u3"}
    worker.commit()
    person.commit()
    assert claim(shop) == {}, "not beside the others"
    say(worker, "complete_actions", others)
    worker.commit()
    of(shop, "run_action_now", "u1")
    assert [(c.user, c.batch_id) for c in claim(shop).values()] == [("u1", lost)]


@pytest.mark.usefixtures("lost")
def test_who_moves_a_batch_waits_for_nobody_at_another_of_it(
    db: Database, shop: psycopg.Connection
) -> None:
    """Two people with one each would else wait for each other; it goes when the last of it is."""
    one, another = db.sessions(2)
    one.execute("select from pgwhen.scheduled_action where user_id = 'u1' for update")
    far = "select pgwhen.reschedule_action(id, '9000-01-01') from pgwhen.scheduled_action"
    another.execute(f"{far} where user_id = 'u3'".encode())
    another.commit()
    one.rollback()
    assert put_off(shop) == {"u2", "u3"}
    assert claim(shop) == {}
    assert put_off(shop) == {"u1", "u2", "u3"}


# All at once ----------------------------------------------------------------------------------

WORKERS, MAILS = 4, 120
#: What a worker that has claimed an action does about it.
WORDS = {
    "done": ("complete_actions",),
    "busy": ("fail_actions", '{"message": "busy"}'),
    "unknown": ("fail_actions", UNKNOWN),
    "not started": ("release_actions",),
    "lost": None,
}
#: Every change of an action that stands in a batch, in the order in which they were made.
HISTORY = """
create table app.history (
    n bigint generated always as identity,
    batch_id uuid,
    action_id bigint,
    is_member boolean,
    status text,
    xid xid8 default pg_current_xact_id()
);
create function app.note_change() returns trigger language plpgsql as $$
begin
    insert into app.history (batch_id, action_id, is_member, status)
    select coalesce(new.batch_id, old.batch_id), new.id, new.batch_id is not null, new.status
    where new.status is distinct from old.status;
    return null;
end;
$$;
create trigger note_change after update on pgwhen.scheduled_action
for each row when (coalesce(new.batch_id, old.batch_id) is not null)
execute function app.note_change();
"""


def work(conn: psycopg.Connection, seed: int) -> None:
    """Claim in small portions and say what comes to mind, until all have ended."""
    choose = random.Random(seed)
    while scalar(
        conn,
        "select count(*) from pgwhen.scheduled_action where status in ('pending', 'processing')",
    ):
        claims = claim(conn, choose.randint(1, 7))
        for one in claims.values():
            word = WORDS[choose.choice(list(WORDS))]
            if word:
                say(conn, word[0], {one.user: one}, *word[1:])
        recover(conn, choose.randint(1, 4))
        if not claims:
            verb = choose.choice(["run_action_now"] * 9 + ["cancel_action"])
            conn.execute(
                f"select pgwhen.{verb}(id) from (select id from pgwhen.scheduled_action"
                " where status = 'pending' order by random() limit 1"
                " for no key update skip locked) as a".encode()
            )


def follow(changes: list[tuple[int, bool, str, str]]) -> int:
    """Follow the changes of one batch; return how often it was claimed."""
    kept: set[int] | None = None
    running: set[int] = set()
    claims = 0
    for (claimed, _), group in groupby(changes, lambda c: (c[2] == "processing", c[3])):
        seen = list(group)
        members = {action_id for action_id, *_ in seen}
        if claimed:
            assert not running, "claimed while some of it ran"
            assert kept is None or members == kept, "claimed in part, or with another"
            kept, running, claims = set(), members, claims + 1
            continue
        assert kept is not None
        running -= members
        kept -= members
        kept |= {
            action_id
            for action_id, is_member, status, _ in seen
            if is_member and status == "pending"
        }
    return claims


def test_batches_stay_together(db: Database, shop: psycopg.Connection) -> None:
    """Whoever claims, loses, moves and cancels: all that is kept of a batch, or none of it."""
    shop.execute(HISTORY.encode())
    shop.execute(
        "insert into pgwhen.setting values"
        " ('staleProcessingMinute', '1e-4'), ('retrySeconds', '0'), ('maxRetries', '20')"
    )
    shop.execute("select pgwhen.register_action('mail', options => '{\"batch\": 5}')")
    make_mails(shop, *(f"u{n}" for n in range(MAILS)))
    with ThreadPoolExecutor(WORKERS) as pool:
        for result in [
            pool.submit(work, conn, seed)
            for seed, conn in enumerate(db.sessions(WORKERS, autocommit=True))
        ]:
            result.result()

    batches = defaultdict(list)
    for batch_id, *change in shop.execute(
        "select batch_id, action_id, is_member, status, xid::text from app.history order by n"
    ):
        batches[batch_id].append(tuple(change))
    claims = [follow(changes) for changes in batches.values()]
    assert max(claims) > 2, "some were claimed again and again"
    assert (
        scalar(shop, "select deadlocks from pg_stat_database where datname = current_database()")
        == 0
    )
