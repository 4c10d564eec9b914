"""Every error of the listener: what a user raises, what stops it, and what passes by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


class PgwhenError(Exception):
    """What pgwhen raises itself. *hint* says what to do next."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class SettingsError(PgwhenError):
    """A setting that cannot be used."""


class HandlerError(PgwhenError):
    """Handlers that cannot be loaded, or were declared wrongly."""


class SetupError(PgwhenError):
    """The database answers, and will give the same refusal for ever: trying again is no use."""


class StuckError(PgwhenError):
    """Handlers that ran past their deadlines and cannot be stopped have taken all the room."""


class UnavailableError(PgwhenError):
    """The database cannot do it now; the same call later may succeed."""


class CallDiedError(UnavailableError):
    """The connection was lost under the call, or the call ran out of its statement_timeout.

    Whether it took effect is unknown.
    """


class RefusedError(UnavailableError):
    """The database cannot take what it was given: bad data, or beyond a limit.

    *too_large* says that the limit is pgwhen's own, resultLimit.
    """

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class Cancelled(Exception):  # noqa: N818 -- Temporal's word; it is an answer, no fault
    """Raised by `ctx.heartbeat()` in a handler that should stop: clean up, and let it out.

    *reason* is `cancel_requested`, where somebody asked to cancel the action, which then ends as
    cancelled; `claim_lost`, where the action is no longer this attempt's; `timed_out`, where its
    time was over; or `worker_shutdown`. But for the first, nothing that the attempt does counts any
    more. At a cancel request a handler may also catch it, and complete.
    """

    def __init__(self, reason: str = "cancel_requested") -> None:
        super().__init__(reason)
        self.reason = reason


class Unknown(Exception):  # noqa: N818 -- as above
    """Raise it, or return it from a `check`, where nobody can say whether the action took effect.

    The action is parked for a person: it ends as failed, with the type `OutcomeUnknown`, keeps its
    frequency slot, and is tried again by `pgwhen.retry_action()` only.
    """


class KeyReused(Unknown):
    """Raised by `key_for`: the key went out with another body, which may have arrived."""


class WrongResults(Unknown):
    """A batch handler has not told what became of each action."""


class TransactionEnded(Unknown):
    """The handler ended the transaction of `ctx.connection()` itself."""


class UnfitError(Unknown):
    """What a handler told cannot be kept. What it did is done, whoever would try it again.

    *type* is that of the action's row.
    """

    def __init__(self, message: str, *, type: str) -> None:  # noqa: A002 -- as ActionError's
        super().__init__(message)
        self.type = type


class ActionError(Exception):
    """Raise it in a handler to say how its action failed.

    *message* and *type* go into the action's row; *type* is the name of the class if not given.
    *non_retryable* ends the action here. *next_retry_delay*, in seconds or as a timedelta, replaces
    the backoff before the next attempt. *details* is any JSON value, kept with the error.
    """

    def __init__(
        self,
        message: str,
        *,
        type: str | None = None,  # noqa: A002 -- the word that the action's row uses
        non_retryable: bool = False,
        next_retry_delay: float | timedelta | None = None,
        details: Any = None,
    ) -> None:
        super().__init__(message)
        if isinstance(next_retry_delay, timedelta):
            next_retry_delay = next_retry_delay.total_seconds()
        self.type = str(type or self.__class__.__name__)
        self.non_retryable = non_retryable
        self.next_retry_delay = next_retry_delay
        self.details = details
