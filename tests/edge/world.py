"""A small world of rules, users and events, and an independent judgement of what must come of it.

The engine is asked for its events (what they carry is its business); who is live, what matches,
what is a loop, what a condition says and what a frequency allows is decided here anew.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    import psycopg

ACCOUNTS = ("default", "shop")
USERS = tuple(f"U{n}" for n in range(8))
STRANGER = "nobody"
TIERS = ("iron", "silver", "gold")
#: Where event times begin. They go on from step to step, not in order, in half hours, so that two
#: of them are often exactly a period apart.
EPOCH = datetime(2029, 11, 1, tzinfo=timezone.utc)

PERIODS = {
    "once_per_minute": timedelta(minutes=1),
    "once_per_hour": timedelta(hours=1),
    "once_per_day": timedelta(days=1),
    "once_per_week": timedelta(days=7),
    "once_per_month": timedelta(days=30),
}
MISSING_USER = "there is no such user in pgwhen.line_user"


@dataclass(frozen=True)
class Rule:
    """What the test knows of a rule; `since` is the step at which it went live, if it is."""

    id: int
    line_oa_id: str
    source_type: str
    source: dict[str, Any]
    action_type: str
    frequency: str
    cooldown: int
    since: int | None

    @property
    def key(self) -> str:
        """The key by which the rule asks, '*' for any."""
        return str(self.source.get("attribute") or self.source.get("key") or "*")


@dataclass(frozen=True)
class Event:
    """One event as the engine keeps it, and the step in which it was written."""

    written: int
    id: int
    line_oa_id: str
    user_id: str
    type: str
    key: str | None
    old: Any
    new: Any
    data: dict[str, Any] | None
    facts: dict[str, Any]
    at: datetime
    chain: list[int]


@dataclass
class World:
    """Rules and users in a database, moved on step by step; `expected` grows with each event."""

    conn: psycopg.Connection
    random: random.Random
    step: int = 0
    rules: dict[int, Rule] = field(default_factory=dict)
    last_fired: dict[tuple[int, str], datetime] = field(default_factory=dict)
    #: (rule, event) -> the gate at which it stopped, or 'fired'.
    expected: dict[tuple[int, int], str] = field(default_factory=dict)
    #: How many cases each gate has.
    gates: Counter[str] = field(default_factory=Counter)
    events: dict[int, Event] = field(default_factory=dict)
    waiting: list[Event] = field(default_factory=list)
    #: The step in which an event was processed.
    processed: dict[int, int] = field(default_factory=dict)
    #: The step in which a rule was last changed in any way.
    changed: dict[int, int] = field(default_factory=dict)

    def populate(self, rules: int) -> None:
        """Make users with random facts, and random rules."""
        for account in ACCOUNTS:
            self.conn.execute(
                "insert into pgwhen.account (line_oa_id) values (%s) on conflict do nothing",
                [account],
            )
            for user in USERS:
                self.conn.execute(
                    "insert into pgwhen.line_user (line_oa_id, user_id, attributes)"
                    " values (%s, %s, %s)",
                    [account, user, Jsonb(self._facts())],
                )
        self._note_events()
        self.step += 1
        for account in ACCOUNTS:
            self._add_rule("echo", account, ("ordered", {}), ("emit_event", {"type": "ordered"}))
            self._add_rule(
                "mark", account, ("asked", {}), ("set_attribute", {"attribute": "mark", "value": 9})
            )
        for n in range(rules):
            self._add_rule(f"rule {n}", self.random.choice(ACCOUNTS))

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"points": self.random.randrange(10)}
        if self.random.random() < 0.8:
            facts["tier"] = self.random.choice(TIERS)
        return facts

    def _condition(self) -> dict[str, Any]:
        r = self.random
        return r.choice(
            [
                {"user.points": {"$gte": r.randrange(10)}},
                {"user.tier": {"$in": r.sample(TIERS, 2)}},
                {"user.tier": None},
                {"event.data.n": {"$lt": r.randrange(10)}},
                {"$or": [{"user.points": {"$lt": 3}}, {"user.tier": "gold"}]},
                {"user.points": {"$gte": r.randrange(10)}, "user.tier": {"$ne": "iron"}},
            ]
        )

    def _source(self) -> tuple[str, dict[str, Any]]:
        r = self.random
        source_type = r.choice(["attribute_changed", "attribute_changed", "ordered", "asked"])
        source: dict[str, Any] = {}
        if source_type == "attribute_changed":
            source = r.choice(
                [
                    {},
                    {"attribute": "tier"},
                    {"attribute": "tier", "to": r.choice([*TIERS, None])},
                    {
                        "attribute": "tier",
                        "from": [r.choice(TIERS), None],
                        "to": r.sample(TIERS, 2),
                    },
                    {"attribute": "points", "crosses": {r.choice(["up", "down"]): r.randrange(10)}},
                    {"attribute": "mark"},
                ]
            )
        elif r.random() < 0.4:
            source = {"key": r.choice(["web", "app"])}
        if r.random() < 0.5:
            source["condition"] = self._condition()
        if r.random() < 0.2:
            source["log"] = "all"
        return source_type, source

    def _action(self) -> tuple[str, dict[str, Any]]:
        r = self.random
        action_type = r.choice([
            "add_to_audience", "log_message", "emit_event", "emit_event", "set_attribute", "count",
        ])  # fmt: skip
        config: dict[str, dict[str, Any]] = {
            "add_to_audience": {"audience": r.choice(["a", "b"])},
            "log_message": {
                "text": "hello",
                "delay": {"seconds": r.choice([0, 3600]), "whenPending": "add"},
            },
            "emit_event": {"type": r.choice(["ordered", "asked"]), "key": r.choice(["web", "app"])},
            "set_attribute": {"attribute": "mark", "value": r.randrange(3)},
            "count": {},
        }
        return action_type, config[action_type]

    def _add_rule(
        self,
        name: str,
        account: str,
        source: tuple[str, dict[str, Any]] | None = None,
        action: tuple[str, dict[str, Any]] | None = None,
    ) -> None:
        """Add a rule; what is not said is random."""
        r = self.random
        source_type, source_config = source or self._source()
        action_type, config = action or self._action()
        frequency, cooldown, enabled = "always", 0, True
        if source is None:
            frequency = r.choice([
                *["always"] * 4, "once", *PERIODS, "once_per_calendar_day",
                "once_per_calendar_month",
            ])  # fmt: skip
            cooldown = r.choice([0, 0, 0, 7200])
            enabled = r.random() < 0.8
        (rule_id,) = self.conn.execute(
            "insert into pgwhen.trigger_rule (name, line_oa_id, source_type, source_config,"
            " action_type, action_config, frequency, cooldown_seconds, enabled)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s) returning id",
            [
                name,
                account,
                source_type,
                Jsonb(source_config),
                action_type,
                Jsonb(config),
                frequency,
                cooldown,
                enabled,
            ],
        ).fetchone()  # type: ignore[misc]
        self.rules[rule_id] = Rule(
            rule_id, account, source_type, source_config, action_type, frequency, cooldown,
            self.step if enabled else None,
        )  # fmt: skip
        self.changed[rule_id] = self.step

    def write(self) -> None:
        """Let something happen to a random user, in a transaction of its own."""
        self.step += 1
        r = self.random
        at = EPOCH + timedelta(minutes=30) * (self.step // 4 + r.randrange(-5, 6))
        account, user = r.choice(ACCOUNTS), r.choice(USERS)
        with self.conn.transaction():
            if r.random() < 0.5:
                self.conn.execute("select pgwhen.event_time(%s)", [at])
                self.conn.execute(
                    "update pgwhen.line_user set attributes = %s"
                    " where line_oa_id = %s and user_id = %s",
                    [Jsonb(self._facts()), account, user],
                )
            else:
                self.conn.execute(
                    "select pgwhen.emit(%s, %s, %s, %s, %s, %s)",
                    [
                        r.choice(["ordered", "asked"]), r.choice([user, user, user, STRANGER]),
                        Jsonb({"n": r.randrange(10)}), r.choice(["web", "app", None]), account, at,
                    ],
                )  # fmt: skip
        self._note_events()

    def change_a_rule(self) -> None:
        """Enable, disable, rename or edit a random rule."""
        self.step += 1
        rule = self.random.choice(list(self.rules.values()))
        what = self.random.choice(["toggle", "toggle", "rename", "edit"])
        values: list[Any]
        if what == "toggle":
            sets, values = "enabled = %s", [rule.since is None]
            rule = replace(rule, since=self.step if rule.since is None else None)
        elif what == "rename":
            sets, values = "name = name || %s", ["'"]
        else:
            source = rule.source | {"condition": self._condition()}
            sets, values = "source_config = %s", [Jsonb(source)]
            if source != rule.source:
                rule = replace(rule, source=source, since=None if rule.since is None else self.step)
        self.conn.execute(
            f"update pgwhen.trigger_rule set {sets} where id = %s".encode(), [*values, rule.id]
        )
        self.rules[rule.id] = rule
        self.changed[rule.id] = self.step

    def process(self) -> None:
        """Let the engine process all that waits, and judge the same events anew."""
        while True:
            self.step += 1
            waiting, self.waiting = self.waiting, []
            if not waiting:
                return
            (events,) = self.conn.execute(
                "select events from pgwhen.process_events('w-1')"
            ).fetchone()  # type: ignore[misc]
            assert events == len(waiting)
            for event in waiting:
                self.processed[event.id] = self.step
                self._judge(event)
            self._note_events()

    def _note_events(self) -> None:
        known = next(reversed(self.events), 0)
        for row in self.conn.execute(
            "select id, line_oa_id, user_id, type, key, old, new, data, facts, at, chain"
            " from pgwhen.event where id > %s order by id",
            [known],
        ):
            self.events[row[0]] = Event(self.step, *row)
            self.waiting.append(self.events[row[0]])

    def _judge(self, event: Event) -> None:
        for rule in sorted(self.rules.values(), key=lambda r: r.id):
            gate = "rule"
            live = rule.since is not None and rule.since <= event.written
            if live and rule.line_oa_id == event.line_oa_id:
                gate = stops_at(rule, event) or self._reserve(rule, event)
            self.expected[rule.id, event.id] = gate
            self.gates[gate] += 1

    def _reserve(self, rule: Rule, event: Event) -> str:
        slot = (rule.id, event.user_id)
        before = latest_allowed(rule, event.at)
        if before is None:
            return "fired"
        if slot in self.last_fired and self.last_fired[slot] > before:
            return "frequency"
        certainly_failed = rule.action_type == "set_attribute" and event.user_id == STRANGER
        if not certainly_failed:
            self.last_fired[slot] = event.at
        return "fired"

    def cases(self) -> Iterator[tuple[Rule, Event, str]]:
        """Yield every rule beside every event with the gate at which it must have stopped."""
        for (rule_id, event_id), gate in self.expected.items():
            yield self.rules[rule_id], self.events[event_id], gate


def latest_allowed(rule: Rule, at: datetime) -> datetime | None:
    """Return the last moment at which the last firing may lie; None where it may lie anywhere."""
    if rule.frequency == "once":
        return datetime.min.replace(tzinfo=timezone.utc)
    limits = []
    period = PERIODS.get(rule.frequency, timedelta())
    period = max(period, timedelta(seconds=rule.cooldown))
    if period:
        limits.append(at - period)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if rule.frequency == "once_per_calendar_day":
        limits.append(midnight - timedelta(microseconds=1))
    elif rule.frequency == "once_per_calendar_month":
        limits.append(midnight.replace(day=1) - timedelta(microseconds=1))
    return min(limits, default=None)


def stops_at(rule: Rule, event: Event) -> str | None:
    """Return the gate between source and condition at which *event* stops, None if at none."""
    if event.type != rule.source_type or rule.key not in ("*", event.key):
        return "source"
    if not source_holds(rule.source, event):
        return "source"
    if event.chain and (rule.id in event.chain or len(event.chain) >= 10):
        return "loop"
    if not condition_holds(rule.source.get("condition", {}), event):
        return "condition"
    return None


def source_holds(source: dict[str, Any], event: Event) -> bool:
    """Say whether the change is the one that *source* asks for."""
    for side, value in (("from", event.old), ("to", event.new)):
        if side in source:
            wanted = source[side] if isinstance(source[side], list) else [source[side]]
            if value not in wanted:
                return False
    crosses = source.get("crosses", {})
    old, new = number(event.old), number(event.new)
    if "up" in crosses:
        limit = crosses["up"]
        return new is not None and new >= limit and (old is None or old < limit)
    if "down" in crosses:
        limit = crosses["down"]
        return old is not None and new is not None and new <= limit < old
    return True


def number(value: Any) -> float | None:
    """Return *value* if it is a number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def condition_holds(condition: dict[str, Any], event: Event) -> bool:
    """Say whether *condition*, one of those that a world makes, holds."""
    values = {
        "user.points": event.facts.get("points"),
        "user.tier": event.facts.get("tier"),
        "event.data.n": (event.data or {}).get("n"),
    }
    for field_name, wanted in condition.items():
        if field_name == "$or":
            if not any(condition_holds(part, event) for part in wanted):
                return False
        elif not value_is(values[field_name], wanted):
            return False
    return True


def value_is(value: Any, wanted: Any) -> bool:
    """Say whether *value* is what one clause wants."""
    if not isinstance(wanted, dict):
        return bool(value == wanted)
    ((operator, operand),) = wanted.items()
    if operator == "$in":
        return value in operand
    if operator == "$ne":
        return bool(value != operand)
    if number(value) is None:
        return False
    return bool(value >= operand if operator == "$gte" else value < operand)
