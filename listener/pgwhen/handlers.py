"""Handlers: declared by a decorator, found in files, modules and entry points, called the same way.

A function becomes a handler by `@action("name")` and is served if it stands, by any name, in a
file or module that `pgwhen run` is given, or is what an entry point of group `pgwhen.actions`
leads to. The decorator returns the function itself: it can be called, and tested, as before.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import HandlerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import ModuleType
    from typing import TypeVar

    from .retry import Retry

    F = TypeVar("F", bound=Callable[..., Any])

log = logging.getLogger(__name__)

GROUP = "pgwhen.actions"
MARK = "__pgwhen_actions__"


@dataclass(frozen=True)
class Handler:
    """A function that does the actions of one type."""

    name: str
    function: Callable[..., Any]
    #: The most actions that one call takes; None for a handler of single actions.
    batch: int | None
    config_schema: Mapping[str, Any] | None
    #: Whether its actions reach the user only while they are a friend.
    send: bool = False
    retry: Retry | None = None
    threaded: bool = field(init=False)

    def __post_init__(self) -> None:
        """Refuse what could not be called."""
        object.__setattr__(self, "threaded", not inspect.iscoroutinefunction(self.function))
        wanted = ("batch",) if self.batch else ("ctx", "config")
        if not self.name:
            raise HandlerError("an action type needs a name", hint='Write @action("some_name").')
        if self.batch is not None and self.batch < 1:
            raise HandlerError(
                f"@action({self.name!r}): batch is {self.batch}",
                hint="Give the most actions that one call takes, or leave batch out.",
            )
        try:
            inspect.signature(self.function).bind(*wanted)
        except TypeError as exc:
            raise HandlerError(
                f"@action({self.name!r}): {self.where} cannot be called: {exc}",
                hint=f"A handler declared like this is called with ({', '.join(wanted)}).",
            ) from exc

    @property
    def where(self) -> str:
        """The function's place, as people would look it up."""
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"{self.function.__module__}.{name}"

    @property
    def options(self) -> dict[str, Any]:
        """What the database is told of the handler."""
        batch = {"batch": self.batch} if self.batch else {}
        send = {"send": True} if self.send else {}
        retry = {"retryPolicy": self.retry.policy} if self.retry else {}
        return {**batch, **send, **retry}


def action(
    name: str,
    *,
    batch: int | None = None,
    config_schema: Mapping[str, Any] | None = None,
    send: bool = False,
    retry: Retry | None = None,
) -> Callable[[F], F]:
    """Declare a function as the handler of action type *name*.

    Without *batch* it is called as `function(ctx, config)` for each action and returns any JSON
    value or None. With *batch* it is called as `function(batch)` for up to so many actions of one
    account and returns a list of `Result`, one for each. It may be `async` or not; one that is not
    runs in a thread. *config_schema*, a JSON Schema, is what rules' action_config must fit.
    With *send*, pending actions for users who are no friends any more are cancelled. *retry* says
    how often, and when, a failed one is tried again, where the action's rule does not.

    Raises HandlerError if the function cannot be called so.
    """

    def declare(function: F) -> F:
        handler = Handler(name, function, batch, config_schema, send, retry)
        setattr(function, MARK, (*getattr(function, MARK, ()), handler))
        return function

    return declare


def load(sources: Iterable[str]) -> dict[str, Handler]:
    """Return the handlers by name: those of the files and modules in *sources*, and installed ones.

    A handler of *sources* takes the place of an installed one of the same name. Raises
    HandlerError if a source cannot be imported or declares none, or if two declare one name.
    """
    given = _by_name(handler for source in sources for handler in _declared_in(source))
    return {**_installed(), **given}


def _installed() -> dict[str, Handler]:
    found: list[Handler] = []
    for point in importlib.metadata.entry_points(group=GROUP):
        try:
            found += _declared(point.load())
        except Exception:
            log.exception("handlers of entry point %s = %s left out", point.name, point.value)
    return _by_name(found)


def _declared_in(source: str) -> list[Handler]:
    try:
        path = Path(source)
        module = _run_file(path) if path.suffix == ".py" else importlib.import_module(source)
    except (Exception, SystemExit) as exc:
        raise HandlerError(
            f"cannot import {source}: {type(exc).__name__}: {exc}",
            hint="Give files that end in .py, or the names of modules that can be imported.",
        ) from exc
    handlers = list(_declared(module))
    if not handlers:
        raise HandlerError(
            f"{source} declares no handlers", hint='Put @action("name") above a function in it.'
        )
    return handlers


def _run_file(path: Path) -> ModuleType:
    """Import the file at *path*, which may import its neighbours, as a script could."""
    path = path.resolve(strict=True)
    name = path.stem
    if name in sys.modules:
        name = f"pgwhen_handlers_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def _declared(thing: Any) -> Iterator[Handler]:
    """Yield the handlers that *thing* is, or, if it is a module, that stand in it."""
    members = vars(thing).values() if inspect.ismodule(thing) else [thing]
    functions = {id(member): member for member in members if callable(member)}
    for function in functions.values():
        yield from getattr(function, MARK, ())


def _by_name(handlers: Iterable[Handler]) -> dict[str, Handler]:
    found: dict[str, Handler] = {}
    for handler in handlers:
        other = found.setdefault(handler.name, handler)
        if other is not handler:
            raise HandlerError(
                f"{handler.where} and {other.where} both declare {handler.name!r}",
                hint="Rename one of them.",
            )
    return found
