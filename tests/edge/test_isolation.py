"""Accounts never cross: one user id, and rules and audiences of one name, in several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

#: The first two together would be one, if account and user were only put side by side.
USERS = [("shop", "1 U"), ("shop 1", "U"), ("cafe", "1 U"), ("cafe", "U")]
SHOP, SHOP_1, CAFE, CAFE_U = USERS


@pytest.fixture
def conn(db: Database) -> psycopg.Connection:
    """Return a session in a database in which each of USERS stands in line_user."""
    conn = db.connect(options="-c client_min_messages=error")
    for account, user in USERS:
        conn.execute(
            "insert into pgwhen.account (line_oa_id) values (%s) on conflict do nothing", [account]
        )
        conn.execute(
            "insert into pgwhen.line_user (line_oa_id, user_id) values (%s, %s)", [account, user]
        )
    return conn


def add_rule(
    conn: psycopg.Connection,
    account: str,
    source: tuple[str, dict[str, Any]],
    action: tuple[str, dict[str, Any]],
    frequency: str = "always",
) -> int:
    """Add a rule of *account*; return its id."""
    (rule,) = conn.execute(
        "insert into pgwhen.trigger_rule (name, line_oa_id, source_type, source_config,"
        " action_type, action_config, frequency)"
        " values (gen_random_uuid()::text, %s, %s, %s, %s, %s, %s) returning id",
        [account, source[0], Jsonb(source[1]), action[0], Jsonb(action[1]), frequency],
    ).fetchone()  # type: ignore[misc]
    return int(rule)


def set_attributes(conn: psycopg.Connection, who: tuple[str, str], **attributes: Any) -> None:
    """Change the attributes of one user."""
    conn.execute(
        "update pgwhen.line_user set attributes = attributes || %s"
        " where line_oa_id = %s and user_id = %s",
        [Jsonb(attributes), *who],
    )


def emit(conn: psycopg.Connection, event_type: str, *users: tuple[str, str]) -> None:
    """Emit one event for each of *users*, in one transaction, so that they are one batch."""
    with conn.transaction():
        for account, user in users:
            conn.execute(
                "select pgwhen.emit(%s, %s, line_oa_id => %s)", [event_type, user, account]
            )


def process(conn: psycopg.Connection) -> None:
    """Process all that waits."""
    while conn.execute("select events from pgwhen.process_events('w-1')").fetchone() != (0,):
        pass


def outcomes(conn: psycopg.Connection, rule: int) -> list[tuple[str, str, str]]:
    """Return (account, user, status) of what *rule* did."""
    return sorted(
        conn.execute(
            "select line_oa_id, user_id, status from pgwhen.trigger_log where trigger_rule_id = %s",
            [rule],
        ).fetchall()
    )


def test_events_find_rules_of_their_account(conn: psycopg.Connection) -> None:
    """A rule fires for its own account's users only, whatever the event."""
    action = ("add_to_audience", {"audience": "a"})
    by_event = add_rule(conn, "shop", ("ordered", {}), action)
    by_attribute = add_rule(conn, "shop", ("attribute_changed", {"attribute": "tier"}), action)
    by_click = add_rule(conn, "shop", ("campaign_click", {"link": "offer"}), action)
    for who in USERS:
        emit(conn, "ordered", who)
        set_attributes(conn, who, tier="gold")
        conn.execute(
            "insert into pgwhen.campaign_click (line_oa_id, user_id, link)"
            " values (%s, %s, 'offer')",
            who,
        )
    process(conn)

    for rule in (by_event, by_attribute, by_click):
        assert outcomes(conn, rule) == [(*SHOP, "success")]


def test_audiences_are_of_one_account(conn: psycopg.Connection) -> None:
    """Who joins an audience, and who is asked whether they are in it, is in one account."""
    for account in ("shop", "cafe"):
        add_rule(conn, account, ("joined", {}), ("add_to_audience", {"audience": "gold"}))
    asked = {
        account: add_rule(
            conn, account, ("asked", {"condition": {"$audience": "gold"}}),
            ("add_to_audience", {"audience": "asked"}),
        )
        for account in ("shop", "shop 1", "cafe")
    }  # fmt: skip
    leaves = add_rule(conn, "cafe", ("left", {}), ("remove_from_audience", {"audience": "gold"}))

    emit(conn, "joined", SHOP, SHOP_1, CAFE)
    emit(conn, "asked", *USERS)
    process(conn)
    assert outcomes(conn, asked["shop"]) == [(*SHOP, "success")]
    assert outcomes(conn, asked["shop 1"]) == []
    assert outcomes(conn, asked["cafe"]) == [(*CAFE, "success")]

    emit(conn, "left", SHOP, CAFE)
    process(conn)
    assert outcomes(conn, leaves) == [(*CAFE, "success")]
    assert conn.execute(
        "select a.line_oa_id, m.user_id from pgwhen.audience a"
        " join pgwhen.audience_member m on m.audience_id = a.id where a.name = 'gold'"
    ).fetchall() == [SHOP]


def test_facts_are_of_one_account(conn: psycopg.Connection) -> None:
    """A condition sees the facts of the event's own user, of a user elsewhere nothing."""
    set_attributes(conn, SHOP, tier="gold")
    process(conn)
    condition = {"condition": {"user.tier": "gold"}}
    rules = {
        account: add_rule(
            conn, account, ("asked", condition), ("set_attribute", {"attribute": "x", "value": 1})
        )
        for account in ("shop", "shop 1", "cafe")
    }
    emit(conn, "asked", *USERS)
    for account, user in USERS:
        conn.execute(
            "insert into pgwhen.form_submission (line_oa_id, user_id, form_id)"
            " values (%s, %s, 'f')",
            [account, user],
        )
    process(conn)

    assert [outcomes(conn, rule) for rule in rules.values()] == [[(*SHOP, "success")], [], []]
    assert conn.execute(
        "select line_oa_id, user_id from pgwhen.line_user where attributes ? 'x'"
    ).fetchall() == [SHOP]
    assert conn.execute(
        "select line_oa_id, user_id, facts from pgwhen.event"
        " where type = 'form_submitted' and facts <> '{}'"
    ).fetchall() == [(*SHOP, {"tier": "gold"})]


def test_frequencies_are_of_one_account(conn: psycopg.Connection) -> None:
    """The same user id in another account has a slot, and a midnight, of its own."""
    conn.execute("update pgwhen.account set time_zone = 'Asia/Bangkok' where line_oa_id = 'cafe'")
    rules = [
        add_rule(
            conn, account, ("ordered", {}), ("add_to_audience", {"audience": "a"}),
            "once_per_calendar_day",
        )
        for account in ("shop", "cafe")
    ]  # fmt: skip
    for at in ("2029-01-07 16:59Z", "2029-01-07 17:00Z"):
        for account, user in (SHOP, CAFE):
            conn.execute(
                "select pgwhen.emit('ordered', %s, line_oa_id => %s, at => %s)", [user, account, at]
            )
    process(conn)

    assert [status for *_, status in outcomes(conn, rules[0])] == ["success", "suppressed"]
    assert [status for *_, status in outcomes(conn, rules[1])] == ["success", "success"]


def test_chains_are_of_one_user(conn: psycopg.Connection) -> None:
    """In one batch, each user's events carry that user's own chain, also where ids run together."""
    rules = {
        account: add_rule(conn, account, ("ordered", {}), ("emit_event", {"type": "echo"}))
        for account in ("shop", "shop 1", "cafe")
    }
    emit(conn, "ordered", *USERS)
    process(conn)

    chains = conn.execute(
        "select line_oa_id, user_id, chain from pgwhen.event where type = 'echo'"
    ).fetchall()
    assert sorted(chains) == sorted((*who, [rules[who[0]]]) for who in USERS)


def test_pending_actions_are_of_one_account(conn: psycopg.Connection) -> None:
    """Deleting a rule cancels nothing of a rule of the same name elsewhere."""
    action = ("log_message", {"text": "x"})
    rules = {a: add_rule(conn, a, ("ordered", {}), action) for a in ("shop", "cafe")}
    emit(conn, "ordered", SHOP, CAFE)
    process(conn)
    conn.execute(
        "update pgwhen.trigger_rule set deleted_date = now() where id = %s", [rules["shop"]]
    )

    assert conn.execute(
        "select line_oa_id, status from pgwhen.scheduled_action order by line_oa_id"
    ).fetchall() == [("cafe", "pending"), ("shop", "cancelled")]


def test_explain_is_of_one_account(conn: psycopg.Connection) -> None:
    """Asked about a user elsewhere, explain() says so, and does not tell of that event."""
    rule = add_rule(conn, "shop", ("ordered", {}), ("log_message", {"text": "x"}))
    emit(conn, "ordered", CAFE)
    process(conn)
    (event,) = conn.execute("select id from pgwhen.event").fetchone()  # type: ignore[misc]

    (gate, reason) = conn.execute(
        "select gate, reason from pgwhen.explain(%s, %s, %s, 'cafe') where verdict = 'stop'",
        [rule, CAFE[1], event],
    ).fetchone()  # type: ignore[misc]
    assert (gate, reason) == ("rule", "belongs to account shop, not cafe")
    with pytest.raises(Exception, match="is not kept, or not one of user") as raised:
        conn.execute("select pgwhen.explain(%s, %s, %s)", [rule, CAFE[1], event])
    assert raised.value.sqlstate == "PW207"  # type: ignore[attr-defined]
