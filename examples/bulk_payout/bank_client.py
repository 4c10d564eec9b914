"""What handlers ask a bank, and how they understand its answers."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple

from pgwhen import ActionError, Unknown

#: Seconds to wait for anything: far below the time that an attempt has.
TIMEOUT = 0.4


class Payment(NamedTuple):
    """What is to be paid. The reference is the company's: one for each employee and month."""

    reference: str
    account: str
    satang: int


class Bank:
    """One connection to a bank, kept until something goes wrong with it."""

    def __init__(self, address: str) -> None:
        """Take the bank's address, as host:port; connect when something is asked."""
        self._http = HTTPConnection(address, timeout=TIMEOUT)

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def transfer(self, payment: Payment, key: str | None = None) -> int:
        """Pay, and return the number of the receipt; under a key, once, however often it is asked.

        Raises ActionError with the type BankRejected where the bank has decided, so that asking
        again is no use, and other errors where it may be.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        status, answer = self._ask(
            "POST", "/transfers", payment.reference, json.dumps(payment._asdict()), headers
        )
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise ActionError(answer["code"], type="BankRejected", non_retryable=True)
        if status != HTTPStatus.OK:
            raise ActionError(answer["code"], type="BankUnavailable")
        return int(answer["receipt"])

    def find(self, reference: str) -> int | None:
        """Return the receipt of what is booked under a reference; None if it never arrived.

        Raises Unknown where the bank cannot say.
        """
        status, answer = self._ask("GET", f"/transfers/{reference}", reference)
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status == HTTPStatus.TOO_EARLY:
            raise Unknown(answer["code"])
        if status != HTTPStatus.OK:
            raise ActionError(answer["code"], type="BankUnavailable")
        return int(answer["receipt"])

    def _ask(
        self, method: str, path: str, reference: str, body: str = "", headers: Any = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer. Whatever is raised: it may have been done."""
        try:
            self._http.request(method, path, body, headers or {})
            response = self._http.getresponse()
            answer = json.loads(response.read())
        except (OSError, HTTPException) as exc:
            self._http.close()
            raise ConnectionError("no answer from the bank") from exc
        if answer["reference"] != reference:
            self._http.close()
            raise ConnectionError("an answer to something else: the bank has said it twice")
        return response.status, answer
