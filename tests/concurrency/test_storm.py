"""Everything together: engines, workers that lose work, people who change their minds (P2, P3).

Seven sessions that know nothing of each other. What is refused with words is refused; any other
error is one of pgwhen's, and so is a deadlock, whoever is told of it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import DatabaseError
from psycopg.types.json import Jsonb

from tests.concurrency.scene import claim, emit, process, report, scalar
from tests.concurrency.test_waits_storm import ENDED
from tests.support import PATIENCE, SOAK, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from tests.support import Database

#: How many users come, and after how many seconds none comes any more.
USERS = int(os.environ.get("PGWHEN_STORM_USERS", "100000" if SOAK else "100"))
SECONDS = float(os.environ.get("PGWHEN_STORM_SECONDS", "600" if SOAK else "10"))

ADD = {"whenPending": "add"}
WAIT = {**ADD, "waitForTracking": True, "expiresSeconds": 0.3}
CLICKED = {"actionType": "note", "actionConfig": {"was": "clicked"}}
EXPIRED = {"actionType": "note", "actionConfig": {"was": "not_clicked"}}
#: Action type and delay of each rule.
RULES: dict[str, tuple[str, dict[str, Any]]] = {
    "at once": ("note", {}),
    "later": ("note", {**ADD, "seconds": 0.05}),
    "asked": ("deliver", {**ADD, "seconds": 0.05, "reEvaluateConditions": True}),
    "chase": ("deliver", {**WAIT, "onExpire": EXPIRED}),
    "offer": ("deliver", {**WAIT, "after": "send", "onClick": CLICKED, "onExpire": EXPIRED}),
}
SETTINGS = {"staleProcessingMinute": 0.002, "retrySeconds": 0, "maxRetries": 2}

#: How many claims are lost before the first of them is reported all the same.
LATE = 8
ERRORS = ['{"message": "no", "nonRetryable": true}', '{"message": "busy"}']

#: What people do to one action, and what they look for.
BY_HAND = {
    "cancel_action(%s)": "status in ('pending', 'processing')",
    "retry_action(%s)": "status in ('failed', 'cancelled')",
    "run_action_now(%s)": "status = 'pending'",
    "reschedule_action(%s, clock_timestamp() + interval '0.1 s')": "status = 'pending'",
}
CANCEL_MANY = [
    """
    update pgwhen.scheduled_action set status = 'cancelled'
    where status = 'pending' and id %% 30 = %s
    """,
    """
    select pgwhen.cancel_action(a.id)
    from (
        select id from pgwhen.scheduled_action where status = 'pending' and id %% 30 = %s
        order by id for no key update skip locked
    ) as a
    """,
]
DISABLE = ["enabled = false", "enabled = true"]
DELETE = ["deleted_date = now()", "deleted_date = null"]
VERBS = ["cancel_action", "retry_action", "run_action_now", "reschedule_action", "pause", "resume"]
SCOPES = ["", "action_type => 'deliver'", "action_type => 'note'", "rule => 1", "rule => 4"]

#: What must hold, as queries for what does not. `told` is what the sessions were answered.
FAULTS = {
    "it has not ended": """
        select from pgwhen.scheduled_action
        where status not in ('done', 'failed', 'cancelled') or waiting or claim_token is not null
    """,
    "an event is left": "select from _pgwhen.outbox",
    "it has not one end in the log, and one for each end that was retried": """
        select from pgwhen.scheduled_action as a
        left join app.told as t on t.action_id = a.id
        left join app.logged as l on l.action_id = a.id
        where l.ends is distinct from 1 + coalesce(t.retries, 0)
    """,
    "its last end is another one": """
        select from pgwhen.scheduled_action as a
        left join app.logged as l on l.action_id = a.id
        where case a.status
            when 'done' then l.last in ('success', 'expired')
            when 'failed' then l.last = 'failed'
            else l.last in ('cancelled', 'expired') end is not true
    """,
    "it succeeded twice": """
        select from app.logged where successes > 1
    """,
    "a worker was believed more often than it was to be done": """
        select from app.told where completions > 1 + retries
    """,
    "a worker was believed whose claim was over": """
        select from app.told as t
        inner join app.claimed as c on c.action_id = t.action_id
        where t.retries = 0 and t.token is not null
        group by t.action_id, t.token
        having t.token <> (array_agg(c.token order by c.n desc))[1]
    """,
    "it is done, and no worker has done it": """
        select from pgwhen.scheduled_action as a
        left join app.told as t on t.action_id = a.id
        where
            a.action_type = 'deliver' and a.status = 'done' and coalesce(t.completions, 0) = 0
            and not (a.outcome = 'not_clicked' and not a.wait ? 'after')
    """,
    "what was done has not one effect": """
        select from (
            select l.trigger_rule_id as rule, l.event_id, l.action_config ->> 'was' as was
            from pgwhen.trigger_log as l
            where l.action_type = 'note' and l.status = 'success'
        ) as l
        full join (
            select e.rule, e.event_id, e.config ->> 'was' as was, count(*) as n
            from app.effect as e
            group by 1, 2, 3
        ) as e
            on e.rule = l.rule and e.event_id = l.event_id
            and coalesce(e.was, '') = coalesce(l.was, '')
        where l.rule is null or e.n is distinct from 1
    """,
    "two have the same key": """
        select from pgwhen.scheduled_action group by key having count(*) > 1
    """,
}

#: Who has had each action, in order.
WITNESS = """
create table app.claimed (
    n bigint generated always as identity, action_id bigint not null, token uuid not null
);
create function app.witness() returns trigger language plpgsql as $$
begin
    insert into app.claimed (action_id, token) values (new.id, new.claim_token);
    return null;
end;
$$;
create trigger witness after insert or update of claim_token on pgwhen.scheduled_action
for each row when (new.claim_token is not null) execute function app.witness();
"""

#: The ends of each action, as they were logged.
LOGGED = """
create table app.logged as
select
    l.action_id,
    count(*) as ends,
    count(*) filter (where l.status = 'success') as successes,
    (array_agg(l.status order by l.id desc))[1] as last
from pgwhen.trigger_log as l
where l.action_id is not null and l.status in ('success', 'failed', 'cancelled', 'expired')
group by l.action_id
"""


class Storm:
    """The sessions, each a loop until all is done; people leave before."""

    def __init__(self, db: Database, shop: psycopg.Connection) -> None:
        self._db = db
        self._shop = shop
        self._done = threading.Event()
        self._evening = threading.Event()
        self._lost: list[tuple[int, Any]] = []
        self.completions: Counter[int] = Counter()
        self.retries: Counter[int] = Counter()
        self.tokens: dict[int, Any] = {}
        self.did: Counter[str] = Counter()

    def rage(self) -> None:
        """Let them loose until every action has ended."""
        loops = [self._pass, self._tick, self._expire, self._work, self._work, self._meddle]
        with ThreadPoolExecutor(len(loops)) as pool:
            raging = [
                pool.submit(self._loop, loop, self._db.connect(), random.Random(n))
                for n, loop in enumerate(loops)
            ]
            try:
                self._come(self._db.connect(), random.Random(len(loops)))
                self._evening.set()
                wait_until(self._shop, ENDED, patience=PATIENCE * (10 if SOAK else 2))
            finally:
                self._evening.set()
                self._done.set()
            for session in raging:
                session.result()

    def _loop(
        self,
        work: Callable[[psycopg.Connection, random.Random], None],
        conn: psycopg.Connection,
        chance: random.Random,
    ) -> None:
        while not self._done.is_set():
            work(conn, chance)
        conn.execute("select pg_stat_force_next_flush()")

    def _come(self, conn: psycopg.Connection, chance: random.Random) -> None:
        """Let users come, pay, click, and gain and lose what the condition asks for."""
        until = time.monotonic() + SECONDS
        for n in range(USERS):
            recent = f"u{max(0, n - chance.randrange(20))}"
            conn.execute(
                "insert into pgwhen.line_user (user_id, attributes) values (%s, %s)",
                [f"u{n}", Jsonb({"n": 5})],
            )
            emit(conn, f"u{n}")
            if chance.random() < 0.7:
                conn.execute("insert into pgwhen.campaign_click (user_id) values (%s)", [recent])
            if chance.random() < 0.3:
                conn.execute(
                    "update pgwhen.line_user set attributes = %s where user_id = %s",
                    [Jsonb({"n": chance.choice([4, 5])}), recent],
                )
            if time.monotonic() > until:
                return

    def _pass(self, conn: psycopg.Connection, chance: random.Random) -> None:
        types = chance.choice([[], ["deliver"]])
        found = process(conn, "w", types, batch_size=chance.choice([1, 3, 100]))
        self._answer(conn, chance, [(a["id"], a["token"]) for a in found.actions])

    def _tick(self, conn: psycopg.Connection, chance: random.Random) -> None:
        size = chance.choice([1, 10, 100])
        self.did["recovered"] += scalar(conn, "select (pgwhen.tick(%s)).recovered", size)

    def _expire(self, conn: psycopg.Connection, chance: random.Random) -> None:
        size = chance.choice([1, 10, 100])
        conn.execute("select pgwhen.expire_actions(%s)", [size])
        self.did["recovered"] += scalar(conn, "select pgwhen.recover_stale_actions(%s)", size)

    def _work(self, conn: psycopg.Connection, chance: random.Random) -> None:
        self._answer(conn, chance, claim(conn, "deliver", size=chance.choice([1, 5, 50])))

    def _answer(
        self, conn: psycopg.Connection, chance: random.Random, claims: list[tuple[int, Any]]
    ) -> None:
        """Report claims in one way or another; lose some, and report them when it is too late."""
        luck = 1.0 if self._evening.is_set() else chance.random()
        if claims and luck < 0.2:
            self._lost.extend(claims)
        elif claims and luck < 0.3:
            report(conn, "release_actions", claims)
        elif claims and luck < 0.5:
            error = chance.choice(
                ['{"message": "no", "nonRetryable": true}', '{"message": "busy"}']
            )
            report(conn, "fail_actions", claims, [error] * len(claims))
        elif claims:
            self._complete(conn, claims)
        if len(self._lost) > LATE:
            self._complete(conn, [self._lost.pop(0)])

    def _complete(self, conn: psycopg.Connection, claims: list[tuple[int, Any]]) -> None:
        believed = report(conn, "complete_actions", claims)
        self.completions.update(believed)
        self.tokens.update({action: token for action, token in claims if action in believed})

    def _meddle(self, conn: psycopg.Connection, chance: random.Random) -> None:
        """Do what people do, and put it right again in the evening."""
        if self._evening.is_set():
            conn.execute("update pgwhen.trigger_rule set enabled = true where not enabled")
            for (remedy,) in conn.execute("select remedy from pgwhen.paused").fetchall():
                conn.execute(remedy.encode())
            self._done.wait(0.05)
            return
        chance.choice([*4 * [self._by_hand], self._cancel_many, self._pause, self._switch])(
            conn, chance
        )

    def _by_hand(self, conn: psycopg.Connection, chance: random.Random) -> None:
        call, wanted = chance.choice(list(BY_HAND.items()))
        if chance.random() < 0.3:
            wanted = "true"
        found = conn.execute(
            f"select id from pgwhen.scheduled_action where {wanted}"
            " order by id desc limit 20".encode()
        ).fetchall()
        if found:
            action = chance.choice(found)[0]
            if self._say(conn, f"select pgwhen.{call}", action) and call.startswith("retry"):
                self.retries[action] += 1

    def _pause(self, conn: psycopg.Connection, chance: random.Random) -> None:
        scope = chance.choice(SCOPES)
        if not self._say(conn, f"select pgwhen.pause('stop'{scope and ', ' + scope})"):
            return
        self._done.wait(chance.random() / 50)
        mode = chance.choice(["catch_up", "skip"])
        self._say(conn, f"select pgwhen.resume({scope and scope + ', '}mode => '{mode}')")

    def _switch(self, conn: psycopg.Connection, chance: random.Random) -> None:
        """Disable a rule, or delete it, and take that back."""
        rule = 1 + chance.randrange(len(RULES))
        for change in chance.choice([*3 * [DISABLE], DELETE]):
            self._say(conn, f"update pgwhen.trigger_rule set {change} where id = %s", rule)

    def _cancel_many(self, conn: psycopg.Connection, chance: random.Random) -> None:
        self._say(conn, chance.choice(CANCEL_MANY), chance.randrange(30))

    def _say(self, conn: psycopg.Connection, statement: str, *args: Any) -> bool:
        """Execute what may be refused with words; return whether it was not."""
        try:
            conn.execute(statement.encode(), args or None)
        except DatabaseError as error:
            if not str(error.sqlstate).startswith("PW"):
                raise
            return False
        self.did[statement.partition("(")[0]] += 1
        return True


@pytest.fixture
def storm(db: Database, shop: psycopg.Connection) -> Storm:
    """Return a storm over rules of each kind, with attempts that are stale in 0.12 s."""
    shop.execute(WITNESS.encode())
    for name, value in SETTINGS.items():
        shop.execute("insert into pgwhen.setting values (%s, %s)", [name, Jsonb(value)])
    for name, (action_type, delay) in RULES.items():
        shop.execute(
            "insert into pgwhen.trigger_rule"
            " (name, source_type, source_config, action_type, action_config, frequency)"
            " values (%s, 'paid', %s, %s, %s, 'once')",
            [
                name, Jsonb({"condition": {"user.n": {"$gte": 5}}} if name == "asked" else {}),
                action_type, Jsonb({"delay": delay} if delay else {}),
            ],
        )  # fmt: skip
    return Storm(db, shop)


def test_each_action_ends_once(shop: psycopg.Connection, storm: Storm) -> None:
    """P2, P3. One outcome, one effect, a row in the log for each end; and nobody is deadlocked."""
    storm.rage()

    shop.execute(
        "create table app.told (action_id bigint, completions int, retries int, token uuid)"
    )
    with shop.cursor() as cursor:
        cursor.executemany(
            "insert into app.told values (%s, %s, %s, %s)",
            [
                (
                    action,
                    storm.completions[action],
                    storm.retries[action],
                    storm.tokens.get(action),
                )
                for action in storm.completions.keys() | storm.retries.keys()
            ],
        )
    shop.execute(LOGGED.encode())
    faults = {
        what: scalar(shop, f"select count(*) from ({query}) as f") for what, query in FAULTS.items()
    }
    assert faults == dict.fromkeys(FAULTS, 0)
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    assert scalar(shop, deadlocks) == 0
    missing = {"recovered", *(f"select pgwhen.{verb}" for verb in VERBS)} - {*+storm.did}
    # how much happens in a short storm is a matter of how busy the machine is
    assert not missing or not SOAK, f"not all of it has happened: {storm.did}"
