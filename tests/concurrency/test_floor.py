"""The floor of the outbox never passes an event that is yet to be seen (P1).

Writers draw ids and end in any order, takers stop between any two steps of `_pgwhen.take`: the
proof of sql/engine/take.sql. Whatever they do, every committed event is processed exactly once, and
a take that nobody stands in the way of finds all that are committed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.concurrency.scene import emit, process, scalar, waiting_events
from tests.support import CASES, SOAK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    import psycopg

    from tests.support import Database

WRITERS, TAKERS = 3, 2
#: More than a machine ever emits: a take of so many takes all that it may.
ALL = 500

#: A session that wants to be stopped waits at each place for one of two locks in turn, so that the
#: next one can be closed before this one is opened. Each look at the clock is an hour later than
#: the last, so that no floor is too young to be raised, except to who calls itself young. By a
#: sequence without a log: an UPDATE would be one more transaction that ends, and can hide a fault.
HELPERS = """
create schema app;
create function app.stop(place integer) returns void language plpgsql as $$
begin
    if current_setting('app.stops', true) = 'on' then
        perform pg_advisory_lock_shared(pg_backend_pid(), place % 2);
        perform pg_advisory_unlock_shared(pg_backend_pid(), place % 2);
    end if;
end;
$$;
create unlogged sequence app.hours;
create or replace function _pgwhen.clock() returns timestamptz language sql volatile as $$
select clock_timestamp() + interval '1 hour'
    * case when current_setting('app.young', true) = 'on' then 0 else nextval('app.hours') end
$$;
"""

#: Before which texts of which function a taker stops. Where the floor is too young to be raised
#: it comes from 1 to 4.
STOPS = [
    ("take", "    select\n        (\n            select f from _pgwhen.floor"),
    ("take", "    select\n        min(b.first)"),
    ("take", "    if _pgwhen.is_ripe("),
    ("raise_floors", "    insert into _pgwhen.floor"),
    ("take", "    v_batch.ids := array("),
]


def instrument(conn: psycopg.Connection) -> None:
    """Make take() stop where a session wants it to."""
    conn.execute(HELPERS.encode())
    for place, (function, text) in enumerate(STOPS):
        body = scalar(conn, f"select pg_get_functiondef('_pgwhen.{function}'::regproc)")
        assert body.count(text) == 1, f"_pgwhen.{function} has changed: where is {text!r}?"
        stop = f"    perform app.stop({place});\n"
        conn.execute(body.replace(text, stop + text).encode())


class Taker:
    """A session that takes, at once or step by step."""

    def __init__(self, conn: psycopg.Connection, gate: psycopg.Connection) -> None:
        self.conn = conn
        self._gate = gate
        self._pool = ThreadPoolExecutor(1)
        self._taking: Future[Any] | None = None
        self._closed = 0

    @property
    def is_taking(self) -> bool:
        """Whether it has begun and not ended."""
        return self._taking is not None

    def take(
        self, size: int = ALL, *, late: bool = False, stops: bool = False, young: bool = False
    ) -> None:
        """Begin to take: in a transaction with an xid if *late*, to the first stop if *stops*."""
        if late:
            self.conn.execute("select pg_current_xact_id()")
        for name, is_on in (("stops", stops), ("young", young)):
            self.conn.execute(
                "select set_config('app.' || %s, %s, true)", [name, "on" if is_on else "off"]
            )
        if stops:
            self._close(0)
        self._taking = self._pool.submit(process, self.conn, str(id(self)), batch_size=size)
        self._stand()

    def step(self) -> bool:
        """Go to the next stop; return whether there was one."""
        self._close(1 - self._closed)
        self._open(1 - self._closed)
        return self._stand()

    def go_on(self, steps: int) -> Taker:
        """Take so many steps."""
        for _ in range(steps):
            assert self.step()
        return self

    def end(self, *, kept: bool = True) -> None:
        """Go to the end, and commit or roll back."""
        taking, self._taking = self._taking, None
        self._open(0)
        self._open(1)
        try:
            if taking is not None:
                taking.result()
        finally:
            (self.conn.commit if kept else self.conn.rollback)()

    def _stand(self) -> bool:
        """Wait until the session stands at the closed gate, or has passed the last one."""
        query = (
            "select exists (select from pg_locks where pid = %s"
            " and locktype = 'advisory' and objid = %s and not granted)"
        )
        assert self._taking is not None
        while not self._taking.done():
            if scalar(self._gate, query, self.conn.info.backend_pid, self._closed):
                return True
        return False

    def _close(self, gate: int) -> None:
        self._closed = gate
        self._gate.execute("select pg_advisory_lock(%s, %s)", [self.conn.info.backend_pid, gate])

    def _open(self, gate: int) -> None:
        self._gate.execute(
            "select pg_advisory_unlock(l.classid::integer, l.objid::integer) from pg_locks as l"
            " where l.locktype = 'advisory' and l.pid = pg_backend_pid()"
            " and l.classid = %s and l.objid = %s",
            [self.conn.info.backend_pid, gate],
        )


WRITER = st.integers(0, WRITERS - 1)
TAKER = st.integers(0, TAKERS - 1)
USER = st.sampled_from("abc")
SIZE = st.sampled_from([1, 2, ALL, ALL])
MOSTLY = st.sampled_from([True, True, True, False])
RARELY = st.sampled_from([False, False, False, True])


def step(name: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw a call of a method of World."""
    return st.tuples(st.just(name), st.fixed_dictionaries(arguments))


STEP = st.one_of(
    step("begin", w=WRITER),
    step("emit", w=WRITER, user=USER),
    step("emit_in_a_subtransaction", w=WRITER, user=USER, kept=MOSTLY),
    step("end", w=WRITER, kept=MOSTLY),
    step("take", t=TAKER, size=SIZE, late=RARELY, young=RARELY),
    step("go_on", t=TAKER, steps=st.integers(1, len(STOPS)), kept=MOSTLY),
    step("go_on", t=TAKER, steps=st.integers(1, len(STOPS)), kept=MOSTLY),
    step("take_through", t=TAKER, size=SIZE, kept=MOSTLY),
    step("take_alone", late=RARELY, kept=MOSTLY),
)


class World:
    """Writers and takers, and what must come of what they do."""

    def __init__(self, writers: list[psycopg.Connection], takers: list[Taker]) -> None:
        self.writers = writers
        self.takers = takers
        #: The events of each writer's open transaction.
        self.open: list[list[int]] = [[] for _ in writers]
        self.committed: list[int] = []

    def begin(self, w: int) -> None:
        """Give a writer an xid before it has anything to say."""
        self.writers[w].execute("select pg_current_xact_id()")

    def emit(self, w: int, user: str) -> None:
        """Emit, and leave the transaction open."""
        self.open[w].append(emit(self.writers[w], user))

    def emit_in_a_subtransaction(self, w: int, user: str, *, kept: bool) -> None:
        """Emit, and roll back to before it unless *kept*."""
        writer = self.writers[w]
        writer.execute("savepoint s")
        event = emit(writer, user)
        writer.execute(f"{'release' if kept else 'rollback to'} s".encode())
        self.open[w] += [event] if kept else []

    def end(self, w: int, *, kept: bool) -> None:
        """Commit or roll back a writer's transaction."""
        (self.writers[w].commit if kept else self.writers[w].rollback)()
        self.committed += self.open[w] if kept else []
        self.open[w] = []

    def take(self, t: int, size: int, *, late: bool, young: bool) -> None:
        """Begin to take."""
        if not self.takers[t].is_taking:
            self.takers[t].take(size, late=late, stops=True, young=young)

    def go_on(self, t: int, steps: int, *, kept: bool) -> None:
        """Let a taker go on, and end its transaction when it has passed all stops."""
        taker = self.takers[t]
        if taker.is_taking and not all(taker.step() for _ in range(steps)):
            taker.end(kept=kept)

    def take_through(self, t: int, size: int, *, kept: bool) -> None:
        """Take from beginning to end."""
        if not self.takers[t].is_taking:
            self.takers[t].take(size)
            self.takers[t].end(kept=kept)

    def take_alone(self, *, late: bool, kept: bool) -> None:
        """Take all if nobody else does, and so find all that is committed."""
        taker = self.takers[0]
        if not any(taker.is_taking for taker in self.takers):
            try:
                taker.take(late=late)
                assert waiting_events(taker.conn) == []
            finally:
                taker.end(kept=kept)

    def finish(self) -> None:
        """End all transactions."""
        for taker in self.takers:
            taker.end()
        for w in range(len(self.writers)):
            self.end(w, kept=True)


@pytest.fixture
def shop(db: Database) -> psycopg.Connection:
    """Return a session in a database where take() can be stopped."""
    conn = db.connect()
    instrument(conn)
    return conn


@pytest.fixture
def writers(db: Database) -> list[psycopg.Connection]:
    """Return the sessions that emit."""
    return db.sessions(WRITERS)


@pytest.fixture
def takers(db: Database, shop: psycopg.Connection) -> Iterator[list[Taker]]:
    """Yield two takers, after takes that left a floor."""
    takers = [Taker(conn, db.connect()) for conn in db.sessions(TAKERS)]
    for _ in range(2):
        emit(shop)
        takers[0].take()
        takers[0].end()
    yield takers
    for taker in takers:
        taker.end()


def left(takers: list[Taker]) -> list[int]:
    """Take twice more; return the events that nobody has found."""
    for _ in range(2):
        takers[0].take()
        takers[0].end()
    return waiting_events(takers[0].conn)


@settings(
    max_examples=CASES // 4, phases=[Phase.generate, Phase.shrink] if SOAK else [Phase.generate]
)
@given(steps=st.lists(STEP, min_size=40, max_size=60))
def test_no_event_is_passed_over(
    shop: psycopg.Connection,
    writers: list[psycopg.Connection],
    takers: list[Taker],
    steps: list[tuple[str, dict[str, Any]]],
) -> None:
    """P1. Each committed event is processed exactly once, in whatever order the sessions go on."""
    world = World(writers, takers)
    shop.execute("truncate _pgwhen.outbox, _pgwhen.floor, _pgwhen.processed_event")
    try:
        for name, arguments in steps:
            getattr(world, name)(**arguments)
    finally:
        world.finish()

    for _ in range(2):
        world.take_alone(late=False, kept=True)
    assert waiting_events(shop) == []
    processed = shop.execute("select id from _pgwhen.processed_event order by id")
    assert [row[0] for row in processed] == sorted(world.committed)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_open_writer_is_passed_and_found_again(
    db: Database, shop: psycopg.Connection, takers: list[Taker], end: str
) -> None:
    """P1. The floor rises past its ids; once it has ended the very next take looks below."""
    writer = db.connect(autocommit=False)
    late = emit(writer)
    for _ in range(3):
        emit(shop)
        takers[0].take()
        takers[0].end()
        assert waiting_events(shop) == []
    assert scalar(shop, "select position from _pgwhen.floor order by id desc limit 1") > late

    getattr(writer, end)()
    takers[0].take()
    takers[0].end()

    assert waiting_events(shop) == []
    found = scalar(shop, "select count(*) from _pgwhen.processed_event where id = %s", late)
    assert found == (end == "commit")


def test_a_prepared_writer_is_found_when_it_is_committed(
    db: Database, shop: psycopg.Connection, takers: list[Taker]
) -> None:
    """P1. Two-phase commit, with the doorbell off: no session is left, the transaction is."""
    if scalar(shop, "show max_prepared_transactions") == "0":
        pytest.skip("this server has no prepared transactions")
    writer = db.connect(autocommit=False)
    writer.execute("set local pgwhen.doorbell = off")
    late = emit(writer)
    writer.execute("prepare transaction 'late'")
    for _ in range(3):
        emit(shop)
        takers[0].take()
        takers[0].end()
    shop.execute("commit prepared 'late'")
    assert waiting_events(shop) == [late]

    assert left(takers) == []


def test_a_writer_that_no_snapshot_shows_is_not_passed(db: Database, takers: list[Taker]) -> None:
    """P1. Nobody with a later xid has ended, so a snapshot's xmax lies below the writer's xid."""
    writer = db.connect(autocommit=False)
    emit(writer)
    for _ in range(2):
        takers[0].take()
        takers[0].end()
    writer.commit()

    assert left(takers) == []


def test_a_taker_goes_by_the_floor_that_it_began_with(
    shop: psycopg.Connection, takers: list[Taker]
) -> None:
    """P1. A newer floor may lie above what committed after this taker's scan."""
    slow, quick = takers
    slow.take(stops=True)
    slow.go_on(2)
    quick.take(stops=True)
    quick.go_on(2)
    emit(shop)
    quick.end()
    slow.end()

    assert left(takers) == []


@pytest.mark.parametrize("steps", [0, 1])
def test_the_floor_is_read_before_the_snapshot(
    db: Database, takers: list[Taker], steps: int
) -> None:
    """P1. A newer mark may lie above a writer that the snapshot does not show."""
    slow, quick = takers
    writer = db.connect(autocommit=False)
    slow.take(stops=True)
    slow.go_on(steps)
    emit(writer)
    for _ in range(2):
        quick.take()
        quick.end()
    slow.end()
    writer.commit()

    assert left(takers) == []


def test_a_transaction_that_has_an_xid_makes_no_mark(db: Database, takers: list[Taker]) -> None:
    """P1. Its xid is older than a writer's that has drawn an id already."""
    writer = db.connect(autocommit=False)
    takers[0].conn.execute("select pg_current_xact_id()")
    emit(writer)
    takers[0].take()
    takers[0].end()
    takers[0].take()
    takers[0].end()
    writer.commit()

    assert left(takers) == []


@pytest.mark.parametrize("kept", [True, False])
def test_the_floor_stays_below_what_a_take_has_left(
    shop: psycopg.Connection, takers: list[Taker], *, kept: bool
) -> None:
    """P1. Whether that was beyond its size, or its transaction was rolled back."""
    for _ in range(4):
        emit(shop)
    for _ in range(3):
        takers[0].take(1)
        takers[0].end(kept=kept)

    assert len(waiting_events(shop)) == (1 if kept else 4)
    assert left(takers) == []
