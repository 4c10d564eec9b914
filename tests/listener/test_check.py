"""`pgwhen check`: what is seen of a handler, and what is not."""

from __future__ import annotations

import importlib.metadata
import itertools
import textwrap
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from pgwhen.check import MISSING, OK, UNCLEAR, Finding, findings
from pgwhen.cli import main
from pgwhen.handler_source import read
from pgwhen.loader import GROUP, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Look = Callable[..., dict[str, Finding]]

FILES = itertools.count()
IMPORTS = "from pgwhen import ActionError, Result, Retry, action\n"

#: A handler that misses nothing.
GOOD = '''
import logging

log = logging.getLogger(__name__)
SECONDS = 10

def refuse(code):
    raise ActionError("the bank has decided", type=code, non_retryable=True)

@action("pay", start_to_close=3600, heartbeat=60, config_schema={
    "type": "object", "additionalProperties": False, "properties": {
        "account": {"type": "string", "maxLength": 40}, "satang": {"type": "integer"},
    },
})
async def pay(ctx, config):
    """Pay in parts."""
    for part in range(3):
        answer = await bank.pay(config["account"], key=ctx.idempotency_key, timeout=SECONDS)
        if answer.code == "CLOSED":
            refuse(answer.code)
        log.info("paid part %d: %s", part, answer.reference)
        await ctx.heartbeat(part)
'''


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Return a function that checks the one handler in some text."""

    def look(text: str, *, tests: str | None = None) -> dict[str, Finding]:
        file = tmp_path / f"checked_{next(FILES)}.py"
        file.write_text(IMPORTS + textwrap.dedent(text), encoding="utf-8")
        (handler,) = (h for h in load([str(file)]).values() if h.name == "pay")
        if tests is None:
            return findings(handler, read(handler), None)
        (tmp_path / "test_pay.py").write_text(textwrap.dedent(tests), encoding="utf-8")
        return findings(handler, read(handler), [tmp_path / "test_pay.py"])

    return look


def declared(arguments: str, body: str, parameters: str = "ctx, config") -> str:
    """Return the text of a handler."""
    body = textwrap.indent(textwrap.dedent(body), "    ")
    return f"@action('pay', {arguments})\nasync def pay({parameters}):\n{body}\n"


def test_a_good_handler_misses_nothing(look: Look) -> None:
    """What is good is said to be, each for a reason."""
    tests = "def test_pay():\n    run_twice(pay, {})\n"
    found = look(GOOD, tests=tests)

    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("timeout", "key", "errors", "heartbeat", "payload", "logs", "twice"), OK
    )
    assert all(finding.seen and not finding.remedy for finding in found.values())


def test_an_empty_handler_is_told_what_to_do(look: Look) -> None:
    """Nothing that is missing or unclear is without a remedy."""
    found = look(declared("", "pass"), tests="")
    verdicts = {name: finding.verdict for name, finding in found.items()}

    assert verdicts == {
        "timeout": MISSING,
        "key": MISSING,
        "errors": MISSING,
        "heartbeat": MISSING,
        "payload": UNCLEAR,
        "logs": OK,
        "twice": MISSING,
    }
    assert all(finding.remedy for finding in found.values() if finding.verdict != OK)


@pytest.mark.parametrize(
    ("arguments", "body", "verdict", "seen"),
    [
        ("", "call(timeout=1)", MISSING, "not declared"),
        ("start_to_close=30", "call(timeout=10)", OK, "is 10 s"),
        ("start_to_close=30", "call(timeout=30)", MISSING, "may wait 30 s"),
        ("start_to_close=30", "call(timeout=5); call(timeout=60)", MISSING, "may wait 60 s"),
        ("start_to_close=30", "call(timeout=None)", MISSING, "may wait for ever"),
        ("start_to_close=30", "call()", UNCLEAR, "no timeout of what it calls"),
        ("start_to_close=30", "call(timeout=settings.wait)", UNCLEAR, "is no constant"),
        ("start_to_close=30", "call(timeout=5); call(timeout=f())", UNCLEAR, "is no constant"),
        ("start_to_close=30", "call(timeout=(3, 60))", MISSING, "may wait 60 s"),
        ("start_to_close=30", "call(timeout=(3, 6))", OK, "is 6 s"),
        ("start_to_close=30", "call(timeout=(3, f()))", UNCLEAR, "is no constant"),
        ("start_to_close=30", "await asyncio.wait_for(call(), 40)", MISSING, "may wait 40 s"),
        ("start_to_close=30", "call(timeout=httpx.Timeout(40))", MISSING, "may wait 40 s"),
        ("start_to_close=30", "call(timeout=httpx.Timeout(9, read=20))", OK, "is 20 s"),
        ("start_to_close=30", "call(connect_timeout=31)", MISSING, "may wait 31 s"),
        ("schedule_to_close=30", "call(timeout=40)", MISSING, "may wait 40 s"),
        (
            "start_to_close=timedelta(minutes=1)",
            "call(timeout=timedelta(0, 50))",
            UNCLEAR,
            "no con",
        ),
        ("start_to_close=timedelta(minutes=1)", "call(timeout=FAR)", OK, "is 50 s"),
    ],
)
def test_timeout(look: Look, arguments: str, body: str, verdict: str, seen: str) -> None:
    """Longer than every timeout that is seen; what is not seen is not guessed."""
    head = "from datetime import timedelta\nFAR = timedelta(seconds=50)\n"
    finding = look(head + declared(arguments, body))["timeout"]

    assert (finding.verdict, seen in finding.seen) == (verdict, True), finding


def test_timeouts_of_clients_and_helpers_are_seen(look: Look) -> None:
    """But not those of another handler's functions."""
    client = "client = dict(timeout=99)\n"
    helper = "def help():\n    call(timeout=98)\n"

    assert (
        "wait 99 s" in look(client + declared("start_to_close=30", "client.get()"))["timeout"].seen
    )
    assert "wait 98 s" in look(helper + declared("start_to_close=30", "help()"))["timeout"].seen
    assert look(helper + declared("start_to_close=30", "pass"))["timeout"].verdict == UNCLEAR


@pytest.mark.parametrize(
    ("arguments", "body", "verdict", "seen"),
    [
        ("", "call(key=ctx.idempotency_key)", OK, "ctx.idempotency_key is used"),
        ("", "call(id=str(ctx.idempotency_uuid))", OK, "ctx.idempotency_uuid is used"),
        ("", "conn.execute('select pgwhen.effect_once(%s)', [x])", OK, "effect_once()"),
        ("", "await effect_once(x, 'credit')", OK, "effect_once()"),
        ("", "conn.execute(ONCE, [x])", OK, "effect_once()"),
        ("", "conn = await ctx.connection()", OK, "ctx.connection()"),
        ("check=ask", "call()", OK, "check="),
        ("", "call(key=await ctx.key_for(config))", OK, "ctx.key_for is used"),
        ("", "log.info('key %s', ctx.idempotency_key)", MISSING, "no idempotency key"),
        ("", "call(key=f'{ctx.idempotency_key}-{ctx.attempt}')", MISSING, "number of the attempt"),
        ("", "call(key=ctx.idempotency_key + str(ctx.attempt))", MISSING, "number of the attempt"),
        ("", "call(idempotency_key=uuid4())", MISSING, "another key each time"),
        ("", "call(config)", MISSING, "no idempotency key"),
        ("", "bank.pay(ctx, config)", UNCLEAR, "bank.pay() has the context"),
    ],
)
def test_key(look: Look, arguments: str, body: str, verdict: str, seen: str) -> None:
    """It is sent as it is; one that is logged is not sent."""
    head = "ONCE = 'select pgwhen.effect_once(%s)'\nasync def ask(ctx, config): pass\n"
    finding = look(head + declared(arguments, body))["key"]

    assert (finding.verdict, seen in finding.seen) == (verdict, True), finding


@pytest.mark.parametrize(
    ("arguments", "body", "verdict", "seen"),
    [
        ("", "raise ValueError", MISSING, "every error"),
        ("", "raise ActionError('x', type='Closed')", MISSING, "all are tried again"),
        ("", "raise ActionError('x', non_retryable=False)", MISSING, "all are tried again"),
        ("", "raise ActionError('x', non_retryable=True)", OK, "some are non-retryable"),
        ("", "raise ActionError('x', non_retryable=code in FINAL)", OK, "some are non-ret"),
        ("retry=Retry(non_retryable=['Closed'])", "raise Closed", OK, "lists Closed"),
        ("retry=Retry(non_retryable=['Closed'])", "raise E('x', type='Closed')", OK, "lists"),
        ("retry=Retry(non_retryable=['Closd'])", "raise Closed", UNCLEAR, "lists Closd, which"),
    ],
)
def test_errors(look: Look, arguments: str, body: str, verdict: str, seen: str) -> None:
    """A type alone makes nothing non-retryable, and one that is misspelt makes nothing either."""
    finding = look(declared(arguments, body))["errors"]

    assert (finding.verdict, seen in finding.seen) == (verdict, True), finding


@pytest.mark.parametrize(
    ("arguments", "body", "verdict", "seen"),
    [
        ("start_to_close=30", "pass", OK, "not needed"),
        ("start_to_close=31", "pass", MISSING, "31 s, and heartbeat is not declared"),
        ("", "await ctx.heartbeat()", MISSING, "300 s, by default, and heartbeat is not declared"),
        ("start_to_close=99, heartbeat=9", "pass", MISSING, "ctx.heartbeat() is not called"),
        ("start_to_close=99, heartbeat=9", "await ctx.heartbeat()", OK, "told in line"),
        ("start_to_close=99, heartbeat=99", "await ctx.heartbeat()", MISSING, "heartbeat is 99 s"),
        ("start_to_close=99, heartbeat=9", "await far.loop(ctx)", UNCLEAR, "far.loop() has"),
    ],
)
def test_heartbeat(look: Look, arguments: str, body: str, verdict: str, seen: str) -> None:
    """Above 30 seconds it is declared, and told."""
    finding = look(declared(arguments, body))["heartbeat"]

    assert (finding.verdict, seen in finding.seen) == (verdict, True), finding


@pytest.mark.parametrize(
    ("properties", "seen"),
    [
        ({"a": {"type": "string"}}, "config.a has no maxLength"),
        ({"a": {"type": ["string", "null"]}}, "config.a has no maxLength"),
        ({"a": {}}, "config.a may be of any type"),
        ({"a": {"type": "array", "items": {"type": "integer"}}}, "config.a has no maxItems"),
        ({"a": {"type": "array", "maxItems": 3, "items": {"type": "string"}}}, "config.a[] has no"),
        ({"a": {"type": "array", "maxItems": 3}}, "config.a[] may be of any type"),
        ({"a": {"type": "object"}}, "config.a has no additionalProperties: false"),
        ({"a": {"enum": ["x"]}, "b": {"type": "number"}}, ""),
    ],
)
def test_payload(look: Look, properties: dict[str, object], seen: str) -> None:
    """Every text and list in the schema has a bound."""
    schema = {"type": "object", "additionalProperties": False, "properties": properties}
    finding = look(declared(f"config_schema={schema!r}", "pass"))["payload"]

    assert (finding.verdict, seen in finding.seen) == (MISSING if seen else OK, True), finding


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("log.info('paid %s', ctx.action_id)", OK),
        ("log.info('paid %s', answer.reference)", OK),
        ("ctx.logger.info('paid %s', config)", MISSING),
        ("print(config['card'])", MISSING),
        ("print(f'{ctx.event}')", MISSING),
        ("logging.debug('x', extra={'user': ctx.event['new']})", MISSING),
        ("card = config['card']\nlogger.error('no: %s', card)", MISSING),
        ("card = str(config.get('card'))\nmasked = card[-4:]\nprint(masked)", MISSING),
        ("answer = await bank.pay(config)\nlog.info('paid: %s', answer)", OK),
        ("sys.stdout.write(config['card'])", MISSING),
        ("show(config['card'])", UNCLEAR),
        ("raise ActionError(config['card'])", OK),
    ],
)
def test_logs(look: Look, body: str, verdict: str) -> None:
    """Nothing of the config or event is, under any name; an answer is another thing."""
    helper = "def show(text):\n    print(text)\n"
    finding = look(helper + declared("", body))["logs"]

    assert finding.verdict == verdict, finding


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("for c, given in batch:\n    print(given)", MISSING),
        ("for i, (c, given) in enumerate(batch):\n    print(given)", MISSING),
        ("[print(given) for c, given in batch]", MISSING),
        ("for c, given in batch:\n    print(c.action_id)", OK),
        ("for pair in batch:\n    print(pair)", MISSING),
    ],
)
def test_logs_of_a_batch(look: Look, body: str, verdict: str) -> None:
    """A config is known by its place in the pair."""
    finding = look(declared("batch=9", body, "batch"))["logs"]

    assert finding.verdict == verdict, finding


def test_another_name_for_the_config(look: Look) -> None:
    """It is the second that a handler is given, whatever it is called."""
    assert look(declared("", "print(what)", "ctx, what"))["logs"].verdict == MISSING
    assert look(declared("", "print(what)", "*what"))["logs"].verdict == OK


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ("def test_a():\n    run_twice(pay, {})", OK),
        ("async def test_a():\n    testing.run_twice(handlers.pay, {})", OK),
        ("from h import pay as p\nclass TestA:\n    def test_a(self): run_twice(p, {})", OK),
        ("def test_a():\n    run_twice(other, {})", MISSING),
        ("def test_a():\n    run(pay, {})", MISSING),
        ("def helper():\n    run_twice(pay, {})", MISSING),
        ("@pytest.mark.skip\ndef test_a():\n    run_twice(pay, {})", MISSING),
        ("@pytest.mark.xfail(strict=True)\ndef test_a():\n    run_twice(pay, {})", MISSING),
        ("# run_twice(pay, {})", MISSING),
        ("this is no Python", MISSING),
    ],
)
def test_twice(look: Look, tests: str, verdict: str) -> None:
    """A test that pytest runs calls run_twice() on it; that it is mentioned is not enough."""
    assert look(declared("", "pass"), tests=tests)["twice"].verdict == verdict


def test_where_no_tests_were_looked_at(look: Look) -> None:
    """Nobody can tell."""
    assert look(declared("", "pass"))["twice"].verdict == UNCLEAR


def test_what_has_no_source_cannot_be_told(look: Look) -> None:
    """No point that needs the source is said to be met."""
    made = "exec('async def made(ctx, config): pass')\npay = action('pay')(made)\n"
    found = look(made, tests="")

    assert {finding.verdict for name, finding in found.items() if name != "twice"} == {UNCLEAR}


def test_a_check_is_read_too(look: Look) -> None:
    """It calls the far side as the handler does."""
    text = "async def ask(ctx, config):\n    call(timeout=40)\n"

    assert (
        "wait 40 s"
        in look(text + declared("start_to_close=30, check=ask", "call(timeout=5)"))["timeout"].seen
    )


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A block for each type of the files, installed ones left out; a sum; a status if strict."""
    file = tmp_path / f"checked_{next(FILES)}.py"
    file.write_text(IMPORTS + GOOD + declared("", "pass").replace("pay", "bare"), encoding="utf-8")
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_pay.py").write_text("def test_pay():\n    run_twice(pay, {})\n")

    assert main(["check", str(file)]) == 0
    loose = capsys.readouterr().out
    assert main(["check", str(file), "--strict", "--tests", str(tests)]) == 1
    strict = capsys.readouterr().out
    assert main(["check", str(file), "--strict", "--type", "pay", "--tests", str(tests)]) == 0
    good = capsys.readouterr().out

    assert [line.split()[0] for line in loose.splitlines() if line[:1].isalpha()] == ["bare", "pay"]
    assert "  missing      key        no idempotency key is sent\n" in strict
    assert f"pay  {file.name}:16, read: pay, refuse\n" in good
    assert good.endswith("\n7 ok, 0 missing\n")
    assert strict.endswith("\n8 ok, 5 missing, 1 that somebody must look at\n")
    assert max(map(len, strict.splitlines())) <= 110


def test_installed_handlers_are_not_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody asked about them; a file that declares one anew is asked about."""
    point = EntryPoint("log_message", "pgwhen.log_message:log_message", GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: [point])
    file = tmp_path / f"checked_{next(FILES)}.py"
    file.write_text(IMPORTS + declared("", "pass"), encoding="utf-8")

    main(["check", str(file)])
    alone = capsys.readouterr().out
    file = tmp_path / f"checked_{next(FILES)}.py"
    file.write_text(IMPORTS + declared("", "pass").replace("pay", "log_message"), encoding="utf-8")
    main(["check", str(file)])

    assert [line.split()[0] for line in alone.splitlines() if line[:1].isalpha()] == ["pay"]
    assert capsys.readouterr().out.startswith("log_message  checked_")


def test_command_says_what_it_cannot_find(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A type that is not there, and a directory that is none."""
    file = tmp_path / f"checked_{next(FILES)}.py"
    file.write_text(IMPORTS + declared("", "pass"), encoding="utf-8")

    assert main(["check", str(file), "--type", "pya"]) == 1
    assert "no handler of type 'pya'" in (told := capsys.readouterr().err)
    assert "hint: There are: pay." in told
    assert main(["check", str(file), "--tests", str(tmp_path / "no")]) == 1
    assert "is no directory\nhint: " in capsys.readouterr().err
