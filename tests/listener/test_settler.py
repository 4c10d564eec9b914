"""Acknowledgements: gathered while one is on its way, repeated until told, never lost."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest

from pgwhen import connection
from pgwhen.errors import RefusedError, SetupError, UnavailableError
from pgwhen.outcome import Done, Failed, Released
from pgwhen.settler import Settler

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pgwhen.outcome import Outcome

TOKEN = str(UUID(int=7))


class Told:
    """A database that remembers what it was told, and fails as it is bid."""

    def __init__(self, *errors: Exception) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.errors = list(errors)
        self.stale: set[int] = set()
        self.bad: set[int] = set()
        self.due: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = 0

    async def _tell(self, verb: str, outcomes: Sequence[Any]) -> set[int]:
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        ids = {outcome.action_id for outcome in outcomes}
        if self.errors:
            raise self.errors.pop(0)
        if verb == "done" and ids & self.bad:
            raise RefusedError("invalid input syntax for type json")
        self.calls.append((verb, [outcome.action_id for outcome in outcomes]))
        return ids - self.stale

    async def complete_actions(self, outcomes: Sequence[Done]) -> set[int]:
        """As the database's: done."""
        return await self._tell("done", outcomes)

    async def exchange_actions(
        self, outcomes: Sequence[Done], action_types: Sequence[str]
    ) -> tuple[set[int], list[str]]:
        """As the database's: done, and as many claimed."""
        settled = await self._tell("exchanged", outcomes)
        size = len(outcomes)
        given, self.due = self.due[:size], self.due[size:]
        assert action_types == ["plain"]
        return settled, given

    async def fail_actions(self, outcomes: Sequence[Failed]) -> set[int]:
        """As the database's: failed."""
        return await self._tell("failed", outcomes)

    async def release_actions(self, outcomes: Sequence[Released]) -> set[int]:
        """As the database's: released."""
        return await self._tell("released", outcomes)


class Desk:
    """Wants actions of its *types* in return while there are more, and remembers what it got."""

    def __init__(self, *types: str) -> None:
        self.more_due = bool(types)
        self.types = list(types)
        self.started: list[Any] = []

    def wanted(self) -> list[str]:
        """As the dispatcher's."""
        return self.types if self.more_due else []

    def start(self, claims: Sequence[Any]) -> None:
        """As the dispatcher's."""
        self.started += claims

    def freed(self) -> None:
        """As the dispatcher's."""


@asynccontextmanager
async def telling(database: Told, desk: Desk | None = None) -> AsyncIterator[Settler]:
    """Run a settler over *database*; wait until all is told."""
    settler = Settler(cast("Any", database), desk or Desk())
    task = asyncio.create_task(settler.run())
    yield settler
    await asyncio.wait_for(settler.told(), 10)
    task.cancel()
    assert len(settler) == 0


def done(*ids: int) -> list[Done]:
    """Return outcomes of actions that are done."""
    return [Done(n, TOKEN, None) for n in ids]


async def test_outcomes_gather_while_others_are_on_their_way() -> None:
    """The first goes at once; what ends meanwhile goes together, by verb."""
    database = Told()
    async with telling(database) as settler:
        database.gate.clear()
        settler.add(done(1)[0])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        mixed: list[Outcome] = [Failed(4, TOKEN, "{}"), Released(5, TOKEN), *done(6)]
        for outcome in (*done(2, 3), *mixed):
            settler.add(outcome)
        assert len(settler) == 6
        database.gate.set()

    assert database.calls == [
        ("done", [1]),
        ("done", [2, 3, 6]),
        ("failed", [4]),
        ("released", [5]),
    ]


async def test_flood_goes_in_bounded_calls() -> None:
    """Of at most 500."""
    database = Told()
    async with telling(database) as settler:
        for outcome in done(*range(1200)):
            settler.add(outcome)

    assert [len(ids) for _, ids in database.calls] == [500, 500, 200]


async def test_flood_is_exchanged_for_what_is_due() -> None:
    """One call tells what has ended and claims as much, until there was less."""
    database, desk = Told(), Desk("plain")
    database.due = [f"claim {n}" for n in range(900)]
    async with telling(database, desk) as settler:
        for outcome in done(*range(1501)):
            settler.add(outcome)

    calls = [(verb, len(ids)) for verb, ids in database.calls]
    assert calls == [("exchanged", 500), ("exchanged", 500), ("done", 500), ("done", 1)]
    assert desk.started == [f"claim {n}" for n in range(900)]


@pytest.mark.parametrize(("number", "calls"), [(1, 1), (49, 1), (550, 2), (5000, 2)])
async def test_many_go_by_two_calls_at_a_time(number: int, calls: int) -> None:
    """While one is on its way the other is made; what is few gathers."""
    database = Told()
    database.gate.clear()
    async with telling(database) as settler:
        for outcome in done(*range(number)):
            settler.add(outcome)
        for _ in range(5):
            await asyncio.sleep(0)
        assert database.waiting == calls
        database.gate.set()


async def test_few_are_told_without_waiting_for_others() -> None:
    """What came in a trickle is not exchanged: claims would come back in trickles for ever."""
    database = Told()
    async with telling(database, Desk("plain")) as settler:
        for outcome in done(*range(9)):
            settler.add(outcome)

    assert [verb for verb, _ in database.calls] == ["done"]


@pytest.mark.parametrize("error", [UnavailableError("no claims today"), RefusedError("bad result")])
async def test_what_cannot_be_exchanged_is_told_alone(error: Exception) -> None:
    """Outcomes are no hostages of claims."""
    database, desk = Told(error), Desk("plain")
    async with telling(database, desk) as settler:
        for outcome in done(*range(100)):
            settler.add(outcome)

    assert database.calls == [("done", list(range(100)))]
    assert desk.started == []


async def test_outcome_is_told_until_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is away is waited for."""
    monkeypatch.setattr(connection, "backoff", lambda: iter([0.0] * 9))
    database = Told(UnavailableError("away"), UnavailableError("away"))
    async with telling(database) as running:
        running.add(done(1)[0])

    assert database.calls == [("done", [1])]


async def test_refused_result_harms_no_other() -> None:
    """The one that the database cannot read becomes a failure; those beside it are done."""
    database = Told()
    database.bad = {2}
    async with telling(database) as settler:
        for outcome in done(1, 2, 3):
            settler.add(outcome)

    assert database.calls == [("done", [1]), ("failed", [2]), ("done", [3])]


async def test_refused_result_is_found_in_few_calls() -> None:
    """By halves: a call for each of the others would take as long as hundreds of batches."""
    database = Told()
    database.bad = {333}
    async with telling(database) as settler:
        for outcome in done(*range(500)):
            settler.add(outcome)

    assert len(database.calls) <= 10
    assert sorted(n for verb, ids in database.calls if verb == "done" for n in ids) == [
        n for n in range(500) if n != 333
    ]


async def test_stale_claim_is_logged_and_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    """An outcome that came too late is a line in the log."""
    database = Told()
    database.stale = {2}
    async with telling(database) as settler:
        for outcome in done(1, 2):
            settler.add(outcome)

    records = [record for record in caplog.records if "too late" in record.message]
    assert [record.fields for record in records] == [  # type: ignore[attr-defined]
        {"action": 2, "outcome": "Done"}
    ]


async def test_refusal_for_ever_ends_it() -> None:
    """A database without pgwhen will not take it tomorrow either."""
    settler = Settler(cast("Any", Told(SetupError("gone"))), Desk())
    settler.add(done(1)[0])

    with pytest.raises(SetupError):
        await asyncio.wait_for(settler.run(), 10)
