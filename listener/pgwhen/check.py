"""`pgwhen check`: what a handler should see to before it touches money, and whether it does.

It loads the handlers as `pgwhen run` does, and reads their source; it runs none of them. What
cannot be seen is "cannot tell", never "ok". docs/testing.md says what each point looks at.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ActionError, HandlerError
from .handler_source import (
    FOR_EVER,
    Source,
    arguments,
    configs_of,
    derived,
    last_name,
    log_calls,
    mentions,
    parameters,
    read,
    walk_unlogged,
)
from .loader import load

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from .handlers import Handler

OK, MISSING, UNCLEAR = "ok", "missing", "cannot tell"

#: Seconds that an attempt may run where its handler declares nothing.
START_TO_CLOSE = 300.0
#: Seconds that an attempt may run without a heartbeat.
SHORT = 30.0

#: Columns of the report.
WIDTH = 110
_MARGIN = " " * 26

_KEYS = {"idempotency_key", "idempotency_uuid", "key_for"}
#: What gives another value each time.
_CHANGING = {"uuid1", "uuid4", "random", "randint", "token_hex", "token_urlsafe", "time", "now"}
#: Names of what a customer may have written, or is.
_PERSONAL = {"config", "event", "event_or_text", "attributes"}


class Finding(NamedTuple):
    """One point of the checklist, for one action type."""

    verdict: str
    #: What was seen, in words.
    seen: str
    #: What to do about it; empty where nothing wants doing.
    remedy: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the subcommand `check`."""
    parser = subparsers.add_parser(
        "check",
        help="hold handlers to the checklist for those that touch money",
        description=(
            "Say of each action type of the given files and modules which points of the checklist "
            "for handlers that touch money it meets, as far as its source shows. Runs none of them."
        ),
    )
    parser.add_argument(
        "sources", nargs="+", metavar="HANDLERS", help="a file that ends in .py, or a module"
    )
    parser.add_argument("--tests", metavar="DIRECTORY", help="where to look for run_twice()")
    parser.add_argument(
        "--type", action="append", default=[], metavar="TYPE", help="only this; may be repeated"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with status 1 where a point is missing"
    )
    parser.set_defaults(func=command)


def command(args: argparse.Namespace) -> int:
    """Print the findings; return 1 where --strict is given and a point is missing."""
    sys.path.insert(0, "")  # as `pgwhen run` does
    handlers = _handlers(args.sources, args.type)
    tests = None if args.tests is None else _test_files(args.tests)
    verdicts: list[str] = []
    for handler in handlers:
        source = read(handler)
        found = findings(handler, source, tests)
        sys.stdout.write(_report(handler, source, found) + "\n")
        verdicts += [finding.verdict for finding in found.values()]
    sys.stdout.write(_summary(verdicts))
    return 1 if args.strict and MISSING in verdicts else 0


def findings(
    handler: Handler, source: Source | None, tests: Sequence[Path] | None
) -> dict[str, Finding]:
    """Hold *handler* to the checklist. *tests* are files to search; None to search none."""
    unread = Finding(UNCLEAR, "its source cannot be read")
    found = {name: point(handler, source) if source else unread for name, point in POINTS.items()}
    return {**found, "twice": _twice(handler, tests)}


def _handlers(sources: Sequence[str], types: Sequence[str]) -> list[Handler]:
    installed = load([])
    given = {name: h for name, h in load(sources).items() if h is not installed.get(name)}
    for name in types:
        if name not in given:
            raise HandlerError(
                f"no handler of type {name!r} is in {', '.join(sources)}",
                hint=f"There are: {', '.join(sorted(given))}.",
            )
    return [given[name] for name in sorted(types or given)]


# The points


def _timeout(handler: Handler, source: Source) -> Finding:
    limit = _declared_limit(handler)
    if limit is None:
        return Finding(
            MISSING,
            "start_to_close is not declared: 5 minutes hold, by default",
            "Declare start_to_close=…, longer than the timeout of what it calls.",
        )
    waits = list(source.timeouts())
    known = [(wait, line) for wait, line in waits if wait is not None]
    longest, line = max(known, default=(0.0, 0))
    if longest >= limit:
        wait = "for ever" if longest == FOR_EVER else f"{longest:g} s"
        return Finding(
            MISSING,
            f"start_to_close is {limit:g} s, and line {line} may wait {wait}",
            "Make start_to_close longer than that, or the timeout of the call shorter.",
        )
    if not waits or len(known) < len(waits):
        seen = "a timeout that is no constant" if waits else "no timeout of what it calls"
        return Finding(
            UNCLEAR,
            f"start_to_close is {limit:g} s; {seen} is seen",
            f"See to it that every call to the outside gives up well within {limit:g} s.",
        )
    seen = f"the longest timeout seen, in line {line}, is {longest:g} s"
    return Finding(OK, f"start_to_close is {limit:g} s; {seen}")


def _key(handler: Handler, source: Source) -> Finding:
    spoilt = _spoilt_key(source)
    if spoilt:
        remedy = "Send ctx.idempotency_key as it is: the same at each attempt."
        return Finding(MISSING, spoilt, remedy)
    if handler.check is not None:
        return Finding(OK, "check= asks the far side before another attempt")
    for node in (node for part in source.parts for node in walk_unlogged(part)):
        use = _key_use(node, source)
        if use:
            return Finding(OK, f"{use} in line {node.lineno}")
    remedy = (
        "Send ctx.idempotency_key with each request, ask first by check=, or write by "
        "effect_once() or ctx.connection()."
    )
    elsewhere = _handed_on(source)
    if elsewhere:
        return Finding(
            UNCLEAR, f"none here; {elsewhere}() has the context, and is not read", remedy
        )
    return Finding(MISSING, "no idempotency key is sent", remedy)


def _errors(handler: Handler, source: Source) -> Finding:
    for call in source.calls():
        for word in call.keywords:
            if word.arg == "non_retryable" and source.value(word.value) is not False:
                return Finding(OK, f"some are non-retryable, line {call.lineno}")
    listed = handler.retry.non_retryable if handler.retry else ()
    unspelt = sorted(set(listed) - source.spelt())
    if unspelt:
        return Finding(
            UNCLEAR,
            f"retry= lists {unspelt[0]}, which the source does not name",
            "See to it that it is spelt as what is raised: types match letter for letter.",
        )
    if listed:
        return Finding(OK, f"retry= lists {', '.join(listed)}")
    is_typed = any(_is_action_error(call.func, source) for call in source.calls())
    return Finding(
        MISSING,
        "errors have types, but all are tried again" if is_typed else "every error is tried again",
        'Raise ActionError(…, type="BankRejected", non_retryable=True) where the far side has '
        "decided, or list such types in retry=Retry(non_retryable=[…]).",
    )


def _heartbeat(handler: Handler, source: Source) -> Finding:
    declared = _declared_limit(handler)
    limit = START_TO_CLOSE if declared is None else declared
    may_run = f"an attempt may run {limit:g} s" + (", by default" if declared is None else "")
    if limit <= SHORT:
        return Finding(OK, f"not needed: {may_run}")
    remedy = (
        "Declare heartbeat=… and call ctx.heartbeat(how_far) in its loop; or, if it is quick, a "
        f"start_to_close of {SHORT:g} s at most."
    )
    every = _limits(handler).get("heartbeat")
    if every is None:
        return Finding(MISSING, f"{may_run}, and heartbeat is not declared", remedy)
    if every >= limit:
        seen = f"{may_run}, and heartbeat is {every:g} s"
        return Finding(MISSING, seen, "Make heartbeat short against start_to_close.")
    beats = [call.lineno for call in source.calls() if last_name(call.func) == "heartbeat"]
    if beats:
        return Finding(OK, f"heartbeat is {every:g} s, and told in line {beats[0]}")
    elsewhere = _handed_on(source)
    if elsewhere:
        return Finding(
            UNCLEAR, f"none here; {elsewhere}() has the context, and is not read", remedy
        )
    return Finding(MISSING, f"{may_run}, and ctx.heartbeat() is not called", remedy)


def _payload(handler: Handler, _: Source) -> Finding:
    if handler.config_schema is None:
        return Finding(
            UNCLEAR,
            "no config_schema says how large a config may be",
            "Declare one with maxLength and maxItems; what is large belongs in a table of yours, "
            "and a reference to it in the config.",
        )
    loose = next(_unbounded(handler.config_schema, "config"), None)
    if loose:
        return Finding(MISSING, loose, "Bound it, so that nothing large gets in.")
    return Finding(OK, "config_schema bounds the config; what is returned is not seen")


def _logs(handler: Handler, source: Source) -> Finding:
    first, others = source.parts[0], source.parts[1:]
    given = set(parameters(first)[1:2]) if handler.batch is None else configs_of(first)
    lines = 0
    for part in source.parts:
        personal = derived(part, _PERSONAL | (given if part is first else set()))
        for call in log_calls(part):
            lines += 1
            if any(mentions(each, personal) for each in arguments(call)):
                return Finding(
                    MISSING,
                    f"line {call.lineno} logs what comes from the config or the event",
                    "Log ids of your own making; ctx.logger names the action by itself.",
                )
    for part in others:
        own = derived(part, set(parameters(part)) - {"self", "ctx"})
        for call in log_calls(part):
            if any(mentions(each, own) for each in arguments(call)):
                seen = f"line {call.lineno} logs what its function is called with"
                return Finding(UNCLEAR, seen, "See to it that it is nothing personal.")
    seen = "no line that is logged holds" if lines else "nothing is logged, and so nothing of"
    return Finding(OK, f"{seen} the config or the event; other files are not read")


def _twice(handler: Handler, tests: Sequence[Path] | None) -> Finding:
    name = getattr(handler.function, "__name__", handler.name)
    if tests is None:
        return Finding(UNCLEAR, "no tests were looked at", "Say by --tests where they are.")
    for file in tests:
        line = _line_of_run_twice(file, name)
        if line:
            return Finding(OK, f"{file}:{line} runs it twice; pytest says whether that passes")
    remedy = "Write one: see pgwhen.testing in docs/testing.md."
    return Finding(MISSING, f"no test calls run_twice({name}, …)", remedy)


POINTS: Mapping[str, Callable[[Handler, Source], Finding]] = {
    "timeout": _timeout,
    "key": _key,
    "errors": _errors,
    "heartbeat": _heartbeat,
    "payload": _payload,
    "logs": _logs,
}


# What the points ask


def _declared_limit(handler: Handler) -> float | None:
    """Return how long an attempt may run, as declared."""
    limits = _limits(handler)
    return min((limits[name] for name in limits if name.endswith("ToClose")), default=None)


def _limits(handler: Handler) -> dict[str, float]:
    return handler.timeouts.seconds if handler.timeouts else {}


def _key_use(node: ast.AST, source: Source) -> str | None:
    """Say how *node* uses a key, if it does."""
    if isinstance(node, ast.Attribute) and node.attr in _KEYS:
        return f"ctx.{node.attr} is used"
    if isinstance(node, ast.expr) and "effect_once(" in str(source.value(node)):
        return "effect_once() is called"
    if isinstance(node, ast.Call) and last_name(node.func) == "effect_once":
        return "effect_once() is called"
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "ctx.connection":
        return "ctx.connection() is used"
    return None


def _spoilt_key(source: Source) -> str | None:
    """Say how a key is made that differs from attempt to attempt, if one is."""
    for node in source.nodes():
        within = {last_name(each) for each in ast.walk(node)}
        if isinstance(node, (ast.JoinedStr, ast.BinOp)) and within & _KEYS and "attempt" in within:
            return f"line {node.lineno} makes the number of the attempt part of the key"
        if (
            isinstance(node, ast.keyword)
            and "idempotency" in (node.arg or "")
            and within & _CHANGING
        ):
            return f"line {node.lineno} sends another key each time"
    return None


def _handed_on(source: Source) -> str | None:
    """Return the function of another file that is given the context, or batch, itself."""
    whole = parameters(source.parts[0])[:1]
    read_too = {getattr(part, "name", "") for part in source.parts}
    harmless = {*read_too, "len", "enumerate", "zip", "list"}
    for call in source.calls():
        is_given = any(isinstance(each, ast.Name) and each.id in whole for each in arguments(call))
        if is_given and ast.unparse(call.func) not in harmless:
            return ast.unparse(call.func)
    return None


def _is_action_error(called: ast.expr, source: Source) -> bool:
    raised = source.value(called)
    return inspect.isclass(raised) and issubclass(raised, ActionError)


def _unbounded(schema: Any, path: str) -> Iterator[str]:
    """Say where *schema* lets in what has no bound."""
    if "enum" in schema or "const" in schema:
        return
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not kinds:
        yield f"{path} may be of any type"
    if "string" in kinds and "maxLength" not in schema:
        yield f"{path} has no maxLength"
    if "array" in kinds:
        if "maxItems" not in schema:
            yield f"{path} has no maxItems"
        yield from _unbounded(schema.get("items", {}), f"{path}[]")
    if "object" in kinds:
        if schema.get("additionalProperties", True) is not False:
            yield f"{path} has no additionalProperties: false"
        for name, each in schema.get("properties", {}).items():
            yield from _unbounded(each, f"{path}.{name}")


# Tests


def _test_files(directory: str) -> list[Path]:
    if not Path(directory).is_dir():
        raise HandlerError(
            f"{directory} is no directory",
            hint="Give by --tests the directory that pytest is given.",
        )
    return sorted(Path(directory).rglob("*.py"))


def _line_of_run_twice(file: Path, function: str) -> int | None:
    """Return the line where a test in *file* runs *function* twice, if one does."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, UnicodeDecodeError):
        return None
    nodes = list(ast.walk(tree))
    imported = [each for node in nodes if isinstance(node, ast.ImportFrom) for each in node.names]
    names = {function, *(each.asname for each in imported if each.name == function)} - {None}
    within = (node for test in nodes if _is_test(test) for node in ast.walk(test))
    for call in (node for node in within if isinstance(node, ast.Call)):
        if last_name(call.func) == "run_twice" and call.args and last_name(call.args[0]) in names:
            return call.lineno
    return None


def _is_test(node: ast.AST) -> bool:
    """Whether pytest would run it: a function by that name that is not marked to be left out."""
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    marks = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    return node.name.startswith("test") and "skip" not in marks and "xfail" not in marks


# Words


def _report(handler: Handler, source: Source | None, found: Mapping[str, Finding]) -> str:
    lines = [f"{handler.name}  {handler.where}"]
    if source:
        read_too = ", ".join(getattr(part, "name", "") for part in source.parts)
        lines = [f"{handler.name}  {source.file.name}:{source.line}, read: {read_too}"]
    for name, (verdict, seen, remedy) in found.items():
        start = f"  {verdict:<11}  {name:<9}  "
        lines += textwrap.wrap(seen, WIDTH, initial_indent=start, subsequent_indent=_MARGIN)
        lines += textwrap.wrap(
            remedy, WIDTH, initial_indent=f"{_MARGIN}-> ", subsequent_indent=f"{_MARGIN}   "
        )
    return "\n".join(lines) + "\n"


def _summary(verdicts: Sequence[str]) -> str:
    ok, missing, unclear = (verdicts.count(verdict) for verdict in (OK, MISSING, UNCLEAR))
    rest = f", {unclear} that somebody must look at" if unclear else ""
    return f"{ok} ok, {missing} missing{rest}\n"
