"""Secrets: what `{"$secret": "name"}` in a config stands for, known to this process alone.

They are read anew for each attempt, so that what is mounted later, or rotated, is found.
"""

from __future__ import annotations

import os
import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .connection import patiently
from .errors import ActionError
from .redact import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .claim import Claim
    from .database import Database

#: Seconds for which an account's names are believed.
MEMORY = 10.0
#: Levels of a config on which secrets stand; saving refuses them below.
DEPTH = 50
#: Bytes that a secret has at most.
SIZE = 64 * 1024

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class Vault:
    """Where the secrets of configs are found: in the environment, and in files of *directory*.

    Under the names that the configs give them, or those by which *database* knows an account's.
    """

    def __init__(
        self, database: Database, directory: str, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._database = database
        self._directory = directory
        self._environment = environment
        self._accounts: dict[str, tuple[float, Mapping[str, str]]] = {}

    async def opened(
        self, claims: Sequence[Claim]
    ) -> tuple[Sequence[Claim], list[tuple[Claim, ActionError]]]:
        """Return *claims*, of one account, with their secrets; apart, those that lack one, and why.

        From then on the values are hidden from the log and from what the caller's context tells.
        """
        if not _have_secrets(claims):
            return claims, []
        names = await self._names(claims[0].context.line_oa_id)
        values: dict[str, str] = {}
        opened, lacking = [], []
        for claim in claims:
            try:
                config = filled(claim.config, partial(self._value, names, values))
            except ActionError as exc:
                lacking.append((claim, exc))
            else:
                opened.append(claim._replace(config=config))
        hide(values)
        return opened, lacking

    async def _names(self, line_oa_id: str) -> Mapping[str, str]:
        until, names = self._accounts.get(line_oa_id, (0.0, {}))
        if time.monotonic() >= until:
            ask = partial(self._database.secret_names, line_oa_id)
            names = await patiently("look up the names of secrets", ask)
            self._accounts[line_oa_id] = (time.monotonic() + MEMORY, names)
        return names

    def _value(
        self, names: Mapping[str, str], values: dict[str, str], given: dict[str, Any]
    ) -> str:
        name = given["$secret"]
        if len(given) > 1 or not _is_name(name):
            raise _missing('the config has a "$secret" that is not {"$secret": "name"}')
        if name not in values:
            values[name] = self._read(name, names.get(name, name))
        return values[name]

    def _read(self, name: str, name_here: str) -> str:
        which = f'secret "{name}"' + (f', here "{name_here}",' if name_here != name else "")
        if not _is_name(name_here):
            raise _missing(f"{which} has a name here that no secret can have")
        variable = "PGWHEN_SECRET_" + re.sub(r"[^A-Z0-9]", "_", name_here.upper())
        value = self._environment.get(variable)
        if not value and self._directory:
            value = _content(Path(self._directory, name_here))
        if not value:
            where = "in PGWHEN_SECRETS_DIR" if self._directory else "(PGWHEN_SECRETS_DIR is unset)"
            raise _missing(f"{which} is neither in {variable} nor in a file {where}")
        return value


def _have_secrets(claims: Sequence[Claim]) -> bool:
    """Whether any of *claims* has to be opened: asked of each, so quickly said of most."""
    for claim in claims:  # noqa: SIM110 -- a generator would cost more than the answer
        if _has_secret(claim.config):
            return True
    return False


def _has_secret(value: dict[str, Any] | list[Any], depth: int = 1) -> bool:
    if isinstance(value, dict):
        if "$secret" in value:
            return True
        parts: Iterable[Any] = value.values()
    else:
        parts = value
    for part in parts:
        if isinstance(part, (dict, list)) and depth < DEPTH and _has_secret(part, depth + 1):
            return True
    return False


def filled(value: Any, reveal: Callable[[dict[str, Any]], str], depth: int = 1) -> Any:
    """Return *value*, a config, with what *reveal* gives for each of its secrets."""
    if not isinstance(value, dict | list) or depth > DEPTH:
        return value
    if isinstance(value, list):
        return [filled(part, reveal, depth + 1) for part in value]
    if "$secret" in value:
        return reveal(value)
    return {key: filled(part, reveal, depth + 1) for key, part in value.items()}


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _content(file: Path) -> str | None:
    """Return the text in *file*, without the newline that editors leave; None if it has none."""
    try:
        if not file.is_file():  # a pipe would be waited for
            return None
        with file.open("rb") as stream:
            content = stream.read(SIZE + 1)
        return None if len(content) > SIZE else re.sub(r"\r?\n\Z", "", content.decode())
    except (OSError, UnicodeDecodeError):
        return None


def _missing(message: str) -> ActionError:
    """Return the error of an attempt without its secret: the next one may find it mounted."""
    return ActionError(message, type="SecretMissing")
