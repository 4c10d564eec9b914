"""What can be asked of a bank, and what its answers mean. Knows nothing of pgwhen."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple


class Refused(Exception):  # noqa: N818 - the bank's word
    """The bank has decided: asking again is no use."""


class KeyTaken(Exception):  # noqa: N818 - the bank's word
    """Another payment has come under this key, and counts."""


class CannotSay(Exception):  # noqa: N818 - the bank's word
    """The bank does not know whether it has a payment."""


class Payment(NamedTuple):
    """What is to be paid. The reference is the company's: one for each employee and month."""

    reference: str
    account: str
    satang: int


class Bank:
    """One connection to a bank, kept until something goes wrong with it."""

    def __init__(self, address: str, timeout: float) -> None:
        """Connect to host:port when something is asked; wait so many seconds for each answer."""
        self._http = HTTPConnection(address, timeout=timeout)

    def close(self) -> None:
        """Hang up."""
        self._http.close()

    def transfer(self, payment: Payment, key: str | None = None) -> int:
        """Pay, and return the number of the receipt; under a key, once, however often it is asked.

        Raises Refused where the bank will not, KeyTaken where it has paid something else under the
        key, ConnectionError where it is worth asking again: perhaps it has paid.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        status, answer = self._ask(
            "POST", "/transfers", payment.reference, json.dumps(payment._asdict()), headers
        )
        if status == HTTPStatus.UNPROCESSABLE_ENTITY:
            raise (KeyTaken if answer["code"] == "KEY_REUSED" else Refused)(answer["code"])
        if status != HTTPStatus.OK:
            raise ConnectionError(answer["code"])
        return int(answer["receipt"])

    def find(self, reference: str) -> int | None:
        """Return the receipt of what is booked under a reference; None if it never arrived.

        Raises CannotSay, and ConnectionError as `transfer` does.
        """
        status, answer = self._ask("GET", f"/transfers/{reference}", reference)
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status == HTTPStatus.TOO_EARLY:
            raise CannotSay(answer["code"])
        if status != HTTPStatus.OK:
            raise ConnectionError(answer["code"])
        return int(answer["receipt"])

    def _ask(
        self, method: str, path: str, reference: str, body: str = "", headers: Any = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and body of the answer."""
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
