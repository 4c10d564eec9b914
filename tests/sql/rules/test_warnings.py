"""What saving a rule and registering a type warn of: pgTAP cannot hear a WARNING."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import psycopg

    from tests.support import Database

SAVE = (
    "insert into pgwhen.trigger_rule (name, source_type, action_type, action_config)"
    " values (%s, 'form_submitted', %s, %s)"
)


@pytest.fixture
def session(db: Database) -> psycopg.Connection:
    """Return a session whose warnings are kept by `warnings`."""
    return db.connect()


@pytest.fixture
def warnings(session: psycopg.Connection) -> list[tuple[str | None, str | None]]:
    """Return the list to which each WARNING's message and hint are added."""
    heard: list[tuple[str | None, str | None]] = []
    session.add_notice_handler(
        lambda said: (
            heard.append((said.message_primary, said.message_hint))
            if said.severity_nonlocalized == "WARNING"
            else None
        )
    )
    return heard


def test_saving_names_the_types_that_nobody_serves(
    session: psycopg.Connection, warnings: list[tuple[str | None, str | None]]
) -> None:
    """One WARNING for a statement, however many rules and types, and it says what to do."""
    session.execute(
        "insert into pgwhen.trigger_rule (name, source_type, action_type)"
        " values ('a', 'x', 'send_sms'), ('b', 'x', 'send_fax'), ('c', 'x', 'send_fax')"
    )

    ((message, hint),) = warnings
    assert message == 'nobody serves the action type "send_fax", "send_sms"'
    assert hint is not None
    assert "pgwhen run" in hint


def test_saving_is_quiet_about_types_that_are_served(
    session: psycopg.Connection, warnings: list[tuple[str | None, str | None]]
) -> None:
    """Neither a built-in type nor a registered one is warned of, nor an update of the rest."""
    session.execute("select pgwhen.register_action('send_sms')")
    session.execute(SAVE, ["a", "send_sms", "{}"])
    session.execute(SAVE, ["b", "log_message", '{"text": "hi"}'])
    session.execute("update pgwhen.trigger_rule set cooldown_seconds = 5")

    assert warnings == []


def test_registering_names_the_rules_that_do_not_fit(
    session: psycopg.Connection, warnings: list[tuple[str | None, str | None]]
) -> None:
    """Rules that were saved before the schema was known are counted, and five of them named."""
    for n in range(7):
        session.execute(SAVE, [f"r{n}", "send_sms", "{}"])
    session.execute(SAVE, ["fits", "send_sms", '{"text": "hi"}'])
    warnings.clear()

    session.execute("""select pgwhen.register_action('send_sms', '{"required": ["text"]}')""")

    ((message, _),) = warnings
    assert message == (
        '7 rules have an action_config that "send_sms" does not accept: '
        '"r0", "r1", "r2", "r3", "r4", …'
    )


SLOW = '{"timeouts": {"startToClose": 20, "heartbeat": 11}}'
QUICK = '{"timeouts": {"startToClose": 20, "heartbeat": 10}}'


@pytest.mark.parametrize(("timeouts", "heard"), [(SLOW, 1), (QUICK, 0)])
def test_a_heartbeat_should_be_quick(
    session: psycopg.Connection,
    warnings: list[tuple[str | None, str | None]],
    timeouts: str,
    heard: int,
) -> None:
    """Said of a type and of a rule that is not well below startToClose, once for each."""
    session.execute("select pgwhen.register_action('pay', options => %s)", [timeouts])
    said = "a heartbeat every 11 s finds a dead worker hardly before startToClose, 20 s"
    assert [message for message, _ in warnings] == [f'action type "pay": {said}'] * heard
    warnings.clear()

    session.execute(SAVE, ["a", "pay", timeouts])
    session.execute("update pgwhen.trigger_rule set cooldown_seconds = 5")
    session.execute(SAVE, ["b", "pay", "{}"])
    assert [message and message.partition(":")[0] for message, _ in warnings] == (
        ['rule "a"', 'rule "a"'] * heard
    )
