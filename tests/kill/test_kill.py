"""Kill -9 of the listener, and the server stopped as by a power cut, over the CDNOW replay."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from pgwhen import demo
from pgwhen.deploy import deploy
from pgwhen.embedded import Server
from tests.concurrency.scene import emit, process, scalar, waiting_events
from tests.kill.storm import Kill, outcome, restart, shop, storm, world
from tests.support import SOAK

if TYPE_CHECKING:
    from collections.abc import Iterator

counter = demo.example("count")

#: So many kills of each kind (either victim, on either sign), and so many customers.
KILLS, CUSTOMERS = (15, None) if SOAK else (2, 300)
#: What left the database: of a wait that nobody clicked, what followed it.
ACTIONS = """
select a.id, a.key::text, r.name
from pgwhen.scheduled_action as a
inner join pgwhen.trigger_rule as r on r.id = a.trigger_rule_id
where a.outcome is distinct from 'not_clicked'
"""
SEED = random.randrange(2**32) if SOAK else 1


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Yield a private server: this test kills it, and nobody else may be using it."""
    directory = Path(tempfile.mkdtemp(prefix="pgwhen-kill-"))
    directory.chmod(0o711)
    server = Server(directory / "server")
    server.create()
    server.start()
    yield server
    server.stop()
    shutil.rmtree(directory)


def test_kills_change_nothing(server: Server, tmp_path: Path) -> None:
    """P1, P2, P5. The log, the slots, the audiences and the counts are those of a calm run.

    What leaves the database is delivered at least once, each action always with the same key.
    """
    purchases = shop.read_purchases(customers=CUSTOMERS)
    chance = random.Random(SEED)
    kills = [Kill(*kind) for kind in product(("listener", "server"), ("processing", "batch"))]
    kills = chance.sample(kills * KILLS, 4 * KILLS)
    for name in ("calm", "stormy"):
        (tmp_path / name).mkdir()

    with world(server, "calm", tmp_path / "calm") as calm:
        storm(calm, purchases, [], chance)
        calm.finish()
        wanted = outcome(calm)
    with world(server, "stormy", tmp_path / "stormy") as stormy:
        done = storm(stormy, purchases, kills, chance)
        stormy.finish()
        found = outcome(stormy)
        with stormy.connect() as conn:
            actions = conn.execute(ACTIONS.encode()).fetchall()

    print(f"seed {SEED}: {done} of {len(kills)} kills: {kills}")
    assert done == len(kills), "the replay ended before all kills were done"
    for what, rows in wanted.items():
        assert found[what] == rows, what
    assert {status for *_, status in found["log"]} == {"success", "suppressed", "expired"}

    deliveries = Counter((action, key) for key, action, _ in stormy.deliveries())
    print("delivered more than once:", sum(n > 1 for n in deliveries.values()))
    assert deliveries.keys() == {(action, key) for action, key, _ in actions}
    assert len({key for _, key, _ in actions}) == len(actions)
    expected = counter.expected(customers=CUSTOMERS)
    fired = sum(count["fired"] for count in expected.values())
    of_the_shop = sum(rule in expected for *_, rule in actions)
    assert of_the_shop + len(found["members"]) == fired
    assert Counter(rule for *_, rule in actions if rule not in expected) == dict.fromkeys(
        ("later", "missed", "met"), len(purchases)
    )


def test_restarts_park_no_event(server: Server) -> None:
    """P1. However often the server is killed under an event, the event is not what did it."""
    deploy(server.conninfo)
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        emit(conn)
    for _ in range(3):
        restart(server)
        with psycopg.connect(server.conninfo, autocommit=True) as conn:
            process(conn, suspect=True)
            assert len(waiting_events(conn)) == 1
    with psycopg.connect(server.conninfo, autocommit=True) as conn:
        process(conn, suspect=True)
        assert len(waiting_events(conn)) == 1  # to be tried alone first
        process(conn, suspect=True)
        assert scalar(conn, "select parked is not null from pgwhen.event")
