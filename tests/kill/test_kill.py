"""Kill -9 of the listener, and the server stopped as by a power cut, over the CDNOW replay."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pgwhen import demo
from pgwhen.embedded import Server
from tests.kill.storm import Kill, outcome, shop, storm, world
from tests.support import SOAK

if TYPE_CHECKING:
    from collections.abc import Iterator

counter = demo.example("count")

#: So many kills of each kind (either victim, on either sign), and so many customers.
KILLS, CUSTOMERS = (10, None) if SOAK else (2, 300)
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
            rows = conn.execute("select id, key::text from pgwhen.scheduled_action").fetchall()

    print(f"seed {SEED}: {done} of {len(kills)} kills: {kills}")
    assert done == len(kills), "the replay ended before all kills were done"
    for what, rows in wanted.items():
        assert found[what] == rows, what
    assert {status for *_, status in found["log"]} == {"success", "suppressed"}

    deliveries = Counter((action, key) for key, action, _ in stormy.deliveries())
    print("delivered more than once:", sum(n > 1 for n in deliveries.values()))
    assert deliveries.keys() == set(rows)
    assert len({key for _, key in rows}) == len(rows)
    fired = sum(count["fired"] for count in counter.expected(customers=CUSTOMERS).values())
    assert len(rows) + len(found["members"]) == fired
