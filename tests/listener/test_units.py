"""The leaves: settings, handlers' declarations, outcomes, claims."""

from __future__ import annotations

import json
import math
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgwhen import ActionError, Result, action
from pgwhen.errors import HandlerError, SettingsError, UnfitError
from pgwhen.jsonb import UNREADABLE, loads, loads_if_readable
from pgwhen.kept import json_text
from pgwhen.loader import load
from pgwhen.logs import visible
from pgwhen.outcome import error_text
from pgwhen.settings import Settings, backoff

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support import Database


def test_settings_are_read() -> None:
    """What is not set has its default; the listening connection goes where the others go."""
    settings = Settings.from_environment(
        {
            "PGWHEN_DSN": "dbname=x",
            "PGWHEN_POLL": "0.5",
            "PGWHEN_POOLER": "on",
            "PGWHEN_THREADS": "7",
            "PGWHEN_LOG_LEVEL": "debug",
            "PGWHEN_GRACE": "",
        }
    )

    assert settings.dsn == settings.listen_dsn == "dbname=x"
    assert (settings.poll, settings.pooler, settings.threads) == (0.5, True, 7)
    assert settings.log_level == "DEBUG"
    assert settings.grace == Settings().grace


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PGWHEN_POLL", "0"),
        ("PGWHEN_POLL", "often"),
        ("PGWHEN_GRACE", "-1"),
        ("PGWHEN_GRACE", "nan"),
        ("PGWHEN_STATEMENT_TIMEOUT", "inf"),
        ("PGWHEN_THREADS", "0"),
        ("PGWHEN_THREADS", "1.5"),
        ("PGWHEN_MAX_IN_FLIGHT", "many"),
        ("PGWHEN_POOLER", "maybe"),
        ("PGWHEN_LOG_LEVEL", "loud"),
    ],
)
def test_bad_setting_is_refused_by_name(name: str, value: str) -> None:
    """The error names the variable, what it holds, and what it may hold."""
    with pytest.raises(SettingsError, match=f"{name}={value} cannot be used") as caught:
        Settings.from_environment({name: value})

    assert caught.value.hint


def test_workers_have_names_of_their_own() -> None:
    """Two processes of one host, or one process twice, never share a name."""
    assert Settings().worker != Settings().worker


def test_backoff_grows_to_its_cap_and_varies() -> None:
    """Doubling, at most ten seconds, half of it random."""
    runs = [list(islice(backoff(), 12)) for _ in range(50)]

    for run in runs:
        for n, pause in enumerate(run):
            most = min(0.1 * 2**n, 10)
            assert most / 2 <= pause <= most
    assert len({run[8] for run in runs}) > 40


def write(directory: Path, name: str, text: str) -> str:
    """Write a file of handlers; return its path."""
    file = directory / name
    file.write_text(f"from pgwhen import action\n{text}")
    return str(file)


def test_handlers_of_a_file(tmp_path: Path) -> None:
    """Own and imported ones, by whatever name they stand there, and one function for two types."""
    write(tmp_path, "neighbour_ab.py", "@action('n')\nasync def n(ctx, config): ...\n")
    source = write(
        tmp_path,
        "shop_ab.py",
        "from neighbour_ab import n as other\n"
        "@action('a')\n@action('b', )\ndef ab(ctx, config): ...\n"
        "again = ab\n",
    )

    handlers = load([source])

    assert {"a", "b", "n"} <= handlers.keys()
    assert handlers["a"].function is handlers["b"].function
    assert handlers["a"].threaded
    assert not handlers["n"].threaded


def test_handler_says_what_the_database_is_told(tmp_path: Path) -> None:
    """Whether it takes batches, and whether its actions are sends."""
    source = tmp_path / "told.py"
    source.write_text(
        "from pgwhen import action\n"
        "@action('plain')\n@action('sends', send=True)\n"
        "def one(ctx, config): ...\n"
        "@action('both', batch=5, send=True)\ndef many(batch): ...\n"
    )
    handlers = load([str(source)])
    told = {name: handlers[name].options for name in ("plain", "sends", "both")}
    assert told == {"plain": {}, "sends": {"send": True}, "both": {"batch": 5, "send": True}}


def test_given_handler_takes_the_place_of_an_installed_one(tmp_path: Path) -> None:
    """A file's own log_message wins over the built-in one."""
    source = write(tmp_path, "mine.py", "@action('log_message')\ndef mine(ctx, config): ...\n")

    assert load([source])["log_message"].where == "mine.mine"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "declares no handlers"),
        ("1 / 0", "cannot import .*ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)", "cannot import .*SystemExit: 3"),
        ("def", "cannot import .*SyntaxError"),
        ("@action('x')\ndef one(ctx, config): ...\n@action('x')\ndef two(ctx, config): ...",
         "bad.two and bad.one both declare 'x'|bad.one and bad.two both declare 'x'"),
        ("@action('x')\ndef one(ctx): ...", "cannot be called: too many positional arguments"),
        ("@action('x', batch=5)\ndef one(ctx, config): ...", "cannot be called: missing a req"),
        ("@action('x', batch=0)\ndef one(batch): ...", "batch is 0"),
        ("@action('')\ndef one(ctx, config): ...", "needs a name"),
    ],
)  # fmt: skip
def test_bad_source_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With words, and a hint what to write."""
    source = write(tmp_path, "bad.py", text)

    with pytest.raises(HandlerError, match=message) as caught:
        load([source])

    assert caught.value.hint
    sys.modules.pop("bad", None)


@pytest.mark.parametrize("source", ["nowhere/handlers.py", "no_such_module_at_all"])
def test_missing_source_is_refused(source: str) -> None:
    """A file that is not there, a module that cannot be found."""
    with pytest.raises(HandlerError, match=f"cannot import {source}"):
        load([source])


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("@action('x', batch=0)\ndef one(batch): ...", "Give the most actions that one call takes"),
        ("@action('x', retry={})\ndef one(ctx, config): ...", "Write retry=Retry"),
        ("@action\ndef one(ctx, config): ...", 'Write @action("some_name")'),
        ("import no_such_bank", "It must run by itself first: python "),
    ],
)
def test_the_hint_fits_what_is_wrong(tmp_path: Path, text: str, hint: str) -> None:
    """With the declaration, not with the name of the file."""
    source = write(tmp_path, "bad.py", text)
    with pytest.raises(HandlerError) as caught:
        load([source])
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(hint)
    sys.modules.pop("bad", None)


def test_decorated_function_stays_itself() -> None:
    """It can be called and tested as before."""

    @action("x")
    def add(ctx: int, config: int) -> int:
        return ctx + config

    assert add(1, 2) == 3


def test_result_wants_an_exception() -> None:
    """A text would have no type and no say in whether to retry."""
    with pytest.raises(TypeError, match="error must be an exception, as ActionError, not 'bad'"):
        Result(error="bad")  # type: ignore[arg-type]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(-1e9, 1e9)  # of larger ones jsonb keeps more digits than they have
    | st.sampled_from([math.nan, math.inf, -math.inf])
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.fixture(scope="module")
def cast(template: Database) -> Any:
    """Return a function that has Postgres read a text as jsonb."""
    conn = template.connect()
    yield lambda text: conn.execute("select %s::jsonb", [text]).fetchone()
    template.close()


@given(value=JSON)
def test_result_text_is_what_jsonb_takes(cast: Any, value: Any) -> None:
    """Whatever json_text returns, Postgres can keep; what it cannot keep is refused in words."""
    if json_can_hold(value):
        assert cast(json_text(value))[0] == value
        return
    with pytest.raises(UnfitError) as caught:
        json_text(value)
    told = json.loads(error_text(caught.value))
    assert (told["type"], told["nonRetryable"]) == ("ResultNotJson", True)
    assert told["outcomeUnknown"]


def json_can_hold(value: Any) -> bool:
    """Say it by another way: no NaN, no infinity, no NUL, no lone surrogate."""
    match value:
        case str():
            return "\0" not in value and not any("\ud800" <= c <= "\udfff" for c in value)
        case float():
            return math.isfinite(value)
        case list():
            return all(map(json_can_hold, value))
        case dict():
            return all(map(json_can_hold, [*value.keys(), *value.values()]))
    return True


@given(words=st.text(), details=JSON)
def test_error_text_is_what_jsonb_takes(cast: Any, words: str, details: Any) -> None:
    """An error can always be kept, whatever it says."""
    error = cast(error_text(ActionError(words, type=words, details=details)))[0]

    assert error["nonRetryable"] is False
    assert error["details"] == (details if json_can_hold(details) else "not JSON")


@pytest.mark.parametrize(("size", "kept"), [(65534, True), (65535, False), (3_000_000, False)])
def test_details_are_kept_up_to_a_limit(size: int, kept: bool) -> None:  # noqa: FBT001
    """Those beyond it go, with words; the error itself stays."""
    details = "x" * size

    error = json.loads(error_text(ActionError("busy", details=details)))

    assert error["message"] == "busy"
    assert (error["details"] == details) is kept
    assert kept or error["details"].startswith("more than 65536 bytes: store them elsewhere")


def test_error_text_says_where() -> None:
    """An exception without details of its own tells its place."""
    try:
        {}["x"]  # type: ignore[index]
    except KeyError as exc:
        error = json.loads(error_text(exc))

    assert error["message"] == "'x'"
    assert error["type"] == "KeyError"
    assert error["details"]["at"].startswith("test_units.py:")


def test_error_that_raises_when_asked_can_be_kept() -> None:
    """Its words are made up, its type is kept."""

    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ZeroDivisionError

    error = json.loads(error_text(Mute()))

    assert (error["message"], error["type"]) == ("Mute that cannot say why", "Mute")


def test_value_that_raises_when_written_is_refused() -> None:
    """As any other that JSON cannot hold."""

    class Trap(dict[str, int]):
        def items(self) -> Any:
            raise ZeroDivisionError("trap")

    with pytest.raises(UnfitError, match="cannot be kept as JSON: ZeroDivisionError: trap"):
        json_text(Trap(x=1))


def test_endless_message_is_cut() -> None:
    """At 4,096 characters."""
    assert json.loads(error_text(ValueError("x" * 10_000)))["message"] == "x" * 4096 + "…"


@pytest.mark.parametrize("depth", [200, 5_000])
def test_deep_json_is_read(depth: int) -> None:
    """Jsonb nests deeper than Python likes to follow."""
    value = loads("[" * depth + "]" * depth)

    found = 0
    while value:
        value, found = value[0], found + 1
    assert found == depth - 1


def test_long_numbers_are_read() -> None:
    """Jsonb's 1e400 has 401 digits, and its 1e5000 more than Python turns into an int."""
    whole = loads("[1" + "0" * 400 + ", 1" + "0" * 5000 + ", 7]")

    assert whole[0] == 10**400
    assert f"{whole[1]:.1e}" == "1.0e+5000"
    assert whole[2] == 7


def test_what_cannot_be_read_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """One of many that is nested too deep harms no other, and has a mark of its own."""
    deepest = "[" * 100_000 + "]" * 100_000
    assert loads_if_readable(deepest) is UNREADABLE
    assert loads_if_readable("null") is None
    assert "nested too deep" in caplog.text
    with pytest.raises(RecursionError):
        loads(deepest)


def test_visible_leaves_no_control_character() -> None:
    """What a terminal would act upon is written out; letters of all scripts stay."""
    assert visible("สวัสดี\n\x1b[31m\u202e\ud800 é") == r"สวัสดี\n\x1b[31m\u202e\ud800 é"
