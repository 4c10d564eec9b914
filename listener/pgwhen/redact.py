"""Words without secrets: a value that an attempt was given is told as `[secret NAME]`."""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Characters that a value has at least. What is shorter stands in any text by chance.
SHORTEST = 4


class Cover:
    """Values that must not be told, and the names to tell in their place."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pattern = re.compile("(?!)")

    def add(self, secrets: Mapping[str, str]) -> None:
        """Hide *secrets*, values by name, too."""
        known = len(self._names)
        for name, value in secrets.items():
            for form in _forms(value):
                self._names.setdefault(form, name)
        if len(self._names) > known:
            longest_first = sorted(self._names, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def text(self, text: str) -> str:
        """Return *text* without them."""
        return self._pattern.sub(lambda found: f"[secret {self._names[found[0]]}]", text)

    def json(self, value: Any) -> Any:
        """Return *value*, of JSON's types, without them: in texts, in keys, and as numbers."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.json(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.json(part) for part in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self.text(str(value)) if is_number and str(value) in self._names else value


def _forms(value: str) -> Iterator[str]:
    """Yield how *value* may stand in a text: as it is, in a URL, in JSON, as Python shows it."""
    forms = {
        value, quote(value, safe=""), quote(value), quote_plus(value),
        json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1],
    }  # fmt: skip
    return (form for form in forms if len(form) >= SHORTEST)


#: Of the attempt that runs in this context, its threads included.
_attempts: ContextVar[Cover | None] = ContextVar("secrets of the attempt", default=None)
#: Of all attempts of this process.
_everybodys = Cover()


def hide(secrets: Mapping[str, str]) -> None:
    """Keep *secrets*, values by name, out of what this attempt tells and out of the log."""
    cover = Cover()
    cover.add(secrets)
    _attempts.set(cover)
    _everybodys.add(secrets)


def told(text: str) -> str:
    """Return *text* without the secrets of this attempt."""
    cover = _attempts.get()
    return text if cover is None else cover.text(text)


def told_json(text: str) -> str:
    """Return *text*, which is JSON, without the secrets of this attempt."""
    cover = _attempts.get()
    if cover is None:
        return text
    return json.dumps(cover.json(json.loads(text)), ensure_ascii=False)


def logged(text: str) -> str:
    """Return *text* without any secret that this process has used."""
    return _everybodys.text(text)
