"""Handlers that ran past their deadlines and do not end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from .errors import StuckError

if TYPE_CHECKING:
    from .attempt import Attempt
    from .settings import Settings

log = logging.getLogger(__name__)


class Stuck:
    """Those that keep their places. When nothing else is left, nothing in this process can help."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._attempts: set[Attempt] = set()

    def add(self, attempt: Attempt) -> None:
        """Count an attempt that has not ended though it should have."""
        log.error(
            "a handler goes on after its deadline and keeps its place",
            extra={"fields": {"handler": attempt.handler.where}},
        )
        self._attempts.add(attempt)

    def discard(self, attempt: Attempt) -> None:
        """Hear that an attempt has ended after all."""
        self._attempts.discard(attempt)

    def check(self) -> None:
        """Raise StuckError if they leave no room."""
        if not self._attempts:
            return
        threads = sum(attempt.handler.threaded for attempt in self._attempts)
        actions = sum(len(attempt.claims) for attempt in self._attempts)
        if threads >= self._settings.threads or actions >= self._settings.max_in_flight:
            raise StuckError(
                f"{len(self._attempts)} handlers ran past their deadlines and leave no room",
                hint="Give what they wait for a timeout shorter than the deadline.",
            )
