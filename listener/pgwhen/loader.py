"""Where handlers are found: in files, in modules, and behind entry points.

A handler is served if it stands, by any name, in a file or module that `pgwhen run` is given, or is
what an entry point of group `pgwhen.actions` leads to.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import HandlerError
from .handlers import MARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from .handlers import Handler

log = logging.getLogger(__name__)

GROUP = "pgwhen.actions"


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
    except HandlerError as exc:
        raise HandlerError(f"cannot use {source}: {exc}", hint=exc.hint) from exc
    except (Exception, SystemExit) as exc:
        is_given = isinstance(exc, ModuleNotFoundError) and exc.name == source
        raise HandlerError(
            f"cannot import {source}: {type(exc).__name__}: {exc}",
            hint="Give files that end in .py, or the names of modules that can be imported."
            if is_given or isinstance(exc, FileNotFoundError)
            else f"It must run by itself first: python {source}",
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
