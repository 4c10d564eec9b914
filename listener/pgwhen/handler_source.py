"""The source of a handler, and what can be seen in it without running it.

Read are the function, its `check`, and the functions and classes of the same file that they name,
and so on. Other files are not.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .handlers import Handler

FOR_EVER = float("inf")

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEVELS = {"debug", "info", "warning", "warn", "error", "exception", "critical", "log"}
#: Which argument of a call is a timeout, where it has no name.
_WAITS = {
    "wait_for": 1, "timeout": 0, "fail_after": 0, "move_on_after": 0, "settimeout": 0,
    "Timeout": 0, "ClientTimeout": 0,
}  # fmt: skip
#: Calls after which a text is still what it was.
_TRIVIAL = {"get", "pop", "str", "repr", "strip", "lower", "upper", "format", "dumps"}


@dataclass(frozen=True)
class Source:
    """What is read of a handler."""

    file: Path
    line: int
    #: The functions and classes that are read, the handler's own first.
    parts: tuple[ast.AST, ...]
    #: What stands in the file outside of all functions and classes.
    around: tuple[ast.AST, ...]
    names: Mapping[str, Any] = field(repr=False)

    def nodes(self) -> Iterator[ast.AST]:
        """Yield all that is read, without the decorators: what they declare is known better."""
        for part in self.parts:
            yield from _walk_undecorated(part)

    def calls(self) -> Iterator[ast.Call]:
        """Yield every call."""
        yield from (node for node in self.nodes() if isinstance(node, ast.Call))

    def value(self, node: ast.expr) -> Any:
        """Return what *node* is, if it is a constant or the name of one; None if it is not."""
        if isinstance(node, ast.Constant):
            return node.value
        return self.names.get(node.id) if isinstance(node, ast.Name) else None

    def spelt(self) -> set[str]:
        """Return all strings and names."""
        nodes = list(self.nodes())
        strings = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
        return strings | {name for node in nodes if (name := last_name(node))}

    def timeouts(self) -> Iterator[tuple[float | None, int]]:
        """Yield the timeouts given to calls, with their lines; None for what is no constant."""
        around = (node for part in self.around for node in ast.walk(part))
        for node in [*self.nodes(), *around]:
            if isinstance(node, ast.Call):
                for given in _timeouts_of(node):
                    yield self._wait(given), given.lineno

    def _wait(self, node: ast.expr) -> float | None:
        """Return the seconds that *node* stands for."""
        if isinstance(node, ast.Tuple):  # as requests has it: to connect, and to read
            waits = [self._wait(each) for each in node.elts]
            return None if None in waits else max((w for w in waits if w is not None), default=None)
        value = self.value(node)
        if isinstance(node, ast.Constant) and value is None:
            return FOR_EVER
        value = value.total_seconds() if isinstance(value, timedelta) else value
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if is_number else None


def read(handler: Handler) -> Source | None:
    """Return the source of *handler*; None where there is none, as for what C made."""
    function = inspect.unwrap(handler.function)
    try:
        file = Path(inspect.getsourcefile(function) or "")
        tree = ast.parse(file.read_bytes())
        code = function.__code__
    except (TypeError, OSError, SyntaxError, AttributeError):
        return None
    top = {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS)}
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS) and node.name == code.co_name and _begins(node, code):
            check = top.get(getattr(handler.check, "__name__", ""))
            parts = _reached([node, *([check] if check else [])], top)
            around = tuple(each for each in tree.body if not isinstance(each, _DEFINITIONS))
            return Source(file, node.lineno, parts, around, function.__globals__)
    return None


def last_name(node: ast.AST) -> str | None:
    """Return the last name of `a`, or of `x.y.a`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def arguments(call: ast.Call) -> list[ast.expr]:
    """Return all that *call* is given."""
    return [*call.args, *(word.value for word in call.keywords)]


def log_calls(part: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that write to a log or to the screen."""
    for node in ast.walk(part):
        if isinstance(node, ast.Call) and _is_log(node.func):
            yield node


def walk_unlogged(part: ast.AST) -> Iterator[Any]:
    """Walk through *part*, but not what is only logged."""
    logged = {id(node) for call in log_calls(part) for node in ast.walk(call)}
    yield from (node for node in ast.walk(part) if id(node) not in logged)


def parameters(part: ast.AST) -> list[str]:
    """Return the names of what a function is called with."""
    if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    given = part.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def configs_of(part: ast.AST) -> set[str]:
    """Return the names that a batch handler gives to the configs: the last of each round."""
    found: set[str] = set()
    for node in ast.walk(part):
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            target = node.target
            is_batch = mentions(node.iter, set(parameters(part)))
            while is_batch and isinstance(target, ast.Tuple):
                target = target.elts[-1]
            found |= {target.id} if is_batch and isinstance(target, ast.Name) else set()
    return found


def derived(part: ast.AST, names: set[str]) -> set[str]:
    """Return *names* and those in *part* that are set from them, and from these, without a call.

    What a call gives back is an answer, and not what it was asked.
    """
    known = set(names)
    while True:
        new = {
            each.id
            for node in ast.walk(part)
            for target, value in _bindings(node)
            if mentions(value, known) and not _asks(value)
            for each in ast.walk(target)
            if isinstance(each, ast.Name)
        }
        if new <= known:
            return known
        known |= new


def mentions(node: ast.AST, names: set[str]) -> bool:
    """Whether *node* has one of *names* in it, by itself or as an attribute of `ctx`."""
    return any(last_name(each) in names for each in ast.walk(node))


def _begins(node: Any, code: Any) -> bool:
    """Whether *code* is that of *node*: its first line is that of its first decorator."""
    return code.co_firstlineno in {node.lineno, *(each.lineno for each in node.decorator_list)}


def _reached(first: Sequence[ast.AST], top: Mapping[str, ast.AST]) -> tuple[ast.AST, ...]:
    """Return *first* and what of *top* they name, and what these name, and so on."""
    parts: list[ast.AST] = []
    waiting = list(first)
    while waiting:
        part = waiting.pop(0)
        if part not in parts:
            parts.append(part)
            nodes = [node for node in _walk_undecorated(part) if isinstance(node, ast.Name)]
            waiting += [top[node.id] for node in nodes if node.id in top]
    return tuple(parts)


def _walk_undecorated(part: ast.AST) -> Iterator[ast.AST]:
    decorators = {id(each) for each in getattr(part, "decorator_list", ())}
    waiting = [part]
    while waiting:
        node = waiting.pop(0)
        if id(node) not in decorators:
            yield node
            waiting += ast.iter_child_nodes(node)


def _timeouts_of(call: ast.Call) -> list[ast.expr]:
    """Return the arguments that are timeouts, but for those that are calls of this kind too."""
    called = last_name(call.func) or ""
    named = [
        word.value
        for word in call.keywords
        if word.arg and (word.arg.endswith("timeout") or called.endswith("Timeout"))
    ]
    at = _WAITS.get(called)
    unnamed = [] if at is None else call.args[at : at + 1]
    return [each for each in [*named, *unnamed] if not _is_timeout(each)]


def _is_timeout(node: ast.expr) -> bool:
    """Whether *node* is, for example, `httpx.Timeout(10)`."""
    return isinstance(node, ast.Call) and (last_name(node.func) or "").endswith("Timeout")


def _is_log(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in {"print", "pprint"}
    if not isinstance(called, ast.Attribute):
        return False
    base = ast.unparse(called.value).lower()
    is_logger = called.attr in _LEVELS and "log" in base
    return is_logger or (called.attr == "write" and base in {"sys.stdout", "sys.stderr"})


def _bindings(node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
    """Return the targets that *node* sets, with what it sets them to."""
    if isinstance(node, ast.Assign):
        return [(target, node.value) for target in node.targets]
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return [(node.target, node.value)]
    if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        return [(node.target, node.iter)]
    return []


def _asks(node: ast.AST) -> bool:
    calls = (each for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(last_name(call.func) not in _TRIVIAL for call in calls)
