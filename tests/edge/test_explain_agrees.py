"""What the engine does, what the log, explain() and a plain model say of it: all the same."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.edge.world import STRANGER, World, stops_at
from tests.support import SOAK

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.edge.world import Event, Rule
    from tests.support import Database

#: How many (rule, user, event) are explained, at least 5 % of them for each gate.
CASES = int(os.environ.get("PGWHEN_CASES", "10000" if SOAK else "500"))
#: 10,000 cases need two minutes.
pytestmark = pytest.mark.timeout(900 if SOAK else 120)

GATES = ("rule", "source", "loop", "condition", "frequency", "fired")
DUE_GATES = ("still wanted", "user", "condition again")


@pytest.fixture(scope="module")
def world(create: Callable[..., Database], template: Database) -> World:
    """Return a world that has seen enough for each gate, with its rules changing in between."""
    conn = create(template.name).connect()
    conn.execute("set client_min_messages = error")
    conn.execute(
        "create function count(line_oa_id text, user_id text, config jsonb, ctx jsonb)"
        " returns jsonb language sql as $$ select $4 -> 'attempt' $$"
    )
    conn.execute(
        "select pgwhen.register_sql_action('count', 'public.count(text, text, jsonb, jsonb)')"
    )
    seed = random.SystemRandom().randrange(10**9) if SOAK else 20300107
    print(f"seed {seed}")
    world = World(conn, random.Random(seed))
    world.populate(rules=40)
    world.process()
    while any(world.gates[gate] < CASES / 10 for gate in GATES):
        for _ in range(6):
            world.write()
        for _ in range(2):
            world.change_a_rule()
        world.process()
        world.change_a_rule()
    return world


def outcomes(conn: psycopg.Connection) -> dict[tuple[int, int], str]:
    """Return what the log, and what is still pending, say of each (rule, event)."""
    said = {}
    for rule, event, status, reason in conn.execute(
        "select trigger_rule_id, event_id, status, error_message from pgwhen.trigger_log"
        " union all"
        " select trigger_rule_id, (event -> 'id')::bigint, status, null"
        " from pgwhen.scheduled_action where status in ('pending', 'processing')"
    ):
        gate = "fired"
        if status == "suppressed":
            gate = {"condition false": "condition"}.get(
                reason, "loop" if reason.startswith("loop:") else "frequency"
            )
        assert (rule, event) not in said, "one outcome for each rule and event"
        said[rule, event] = gate
    return said


def test_engine_agrees_with_the_model(world: World) -> None:
    """Whatever fired, was suppressed or false is what the model says, and nothing else."""
    said = outcomes(world.conn)
    for rule, event, gate in world.cases():
        logged = gate in ("fired", "frequency", "loop")
        if gate == "condition" and (rule.id, event.id) in said:
            assert said[rule.id, event.id] == "condition"
        else:
            assert said.get((rule.id, event.id)) == (gate if logged else None), (rule, event)


def test_false_conditions_are_counted(world: World) -> None:
    """The count of each rule is how often its condition was false."""
    expected = Counter(rule.id for rule, _, gate in world.cases() if gate == "condition")
    counted: dict[int, int] = dict(
        world.conn.execute(
            "select rule_id, condition_false::int from pgwhen.rule_counts"
        ).fetchall()
    )
    assert counted == {rule: expected[rule] for rule in world.rules}


def test_failures_are_the_strangers(world: World) -> None:
    """Only setting an attribute of somebody who does not exist has failed."""
    failed = world.conn.execute(
        "select distinct user_id, action_type from pgwhen.trigger_log where status = 'failed'"
    ).fetchall()
    assert failed == [(STRANGER, "set_attribute")]


def test_effects_are_the_successes(world: World) -> None:
    """A user is in an audience exactly where a rule that adds to it has succeeded."""
    members = world.conn.execute(
        "select a.line_oa_id, a.name, m.user_id from pgwhen.audience a"
        " join pgwhen.audience_member m on m.audience_id = a.id"
    ).fetchall()
    logged = world.conn.execute(
        "select distinct line_oa_id, action_config ->> 'audience', user_id from pgwhen.trigger_log"
        " where action_type = 'add_to_audience' and status = 'success'"
    ).fetchall()
    assert sorted(members) == sorted(logged)


def test_explain_agrees(world: World) -> None:
    """The first gate that stops, asked after the fact, is the one that stopped it then."""
    cases = sample(world)
    shares = Counter(gate for _, _, gate in cases)
    assert {gate for gate in GATES if shares[gate] >= CASES / 20} == set(GATES), shares

    for rule, event, gate in cases:
        answer = explained(world.conn, rule, event)
        if gate == "rule" and answer != "rule":
            # The rule was not live, but has changed since: what else would have stopped it?
            assert world.changed[rule.id] > world.processed[event.id], (rule, event, answer)
            assert rule.line_oa_id == event.line_oa_id
            assert answer == stops_at(rule, event), (rule, event)
        elif gate in ("source", "condition") and answer != gate:
            # Nothing was logged, and the rule asks for something else by now.
            assert rule.since is None or rule.since > event.written, (rule, event, answer)
            assert answer == (stops_at(rule, event) or "rule"), (rule, event)
        else:
            assert answer == gate, (rule, event)


def sample(world: World) -> list[tuple[Rule, Event, str]]:
    """Choose CASES cases: a tenth of each gate, and the rest as they come."""
    cases = list(world.cases())
    world.random.shuffle(cases)
    taken: Counter[str] = Counter()
    chosen: list[tuple[Rule, Event, str]] = []
    rest: list[tuple[Rule, Event, str]] = []
    for case in cases:
        taken[case[2]] += 1
        (chosen if taken[case[2]] <= CASES / 10 else rest).append(case)
    return (chosen + rest)[:CASES]


def explained(conn: psycopg.Connection, rule: Rule, event: Event) -> str:
    """Return the first gate at which explain() says that *event* stopped, else 'fired'.

    What an action that waits will be asked when its time has come is another matter: it has fired.
    """
    gates = conn.execute(
        "select gate from pgwhen.explain(%s, %s, %s, %s)"
        " where verdict = 'stop' and gate <> all(%s)",
        [rule.id, event.user_id, event.id, event.line_oa_id, list(DUE_GATES)],
    ).fetchall()
    return str(gates[0][0]) if gates else "fired"
