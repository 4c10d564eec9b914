"""What handlers tell, as text that jsonb can hold, without their secrets."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any

from .errors import UnfitError
from .redact import told, told_json

#: Characters of an error's message that are kept.
MESSAGE_LIMIT = 4096
#: Bytes of JSON that the details of an error, or of a heartbeat, may have.
DETAILS_LIMIT = 64 * 1024
TOO_LARGE = f"more than {DETAILS_LIMIT} bytes: store them elsewhere, and tell a reference"
#: Bytes of JSON that no result may have, whatever the setting resultLimit is.
RESULT_LIMIT = 2 * 1024 * 1024

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def json_text(value: Any, what: str = "the handler's result", kind: str = "Result") -> str:
    """Return *value* as text that jsonb takes. Raises UnfitError if it cannot be."""
    try:
        text = told_json(json.dumps(value, ensure_ascii=False, allow_nan=False))
        size = len(text.encode())
    except Exception as exc:  # noqa: BLE001 -- the value's own code may raise anything
        reason = plain(f"{type(exc).__name__}: {said(exc)}")
    else:
        if size > RESULT_LIMIT:
            raise UnfitError(
                f"{what} has {size} bytes, more than {RESULT_LIMIT}: store it elsewhere, and "
                "give a reference",
                type=f"{kind}TooLarge",
            )
        if _NUL.search(text):
            reason = "it has a NUL character"
        else:
            return text
    raise UnfitError(f"{what} cannot be kept as JSON: {reason}", type=f"{kind}NotJson")


def details_text(details: Any) -> str:
    """Return heartbeat details as text that jsonb takes. Raises UnfitError if they cannot be."""
    text = json_text(details, "heartbeat details", "Details")
    if len(text.encode()) > DETAILS_LIMIT:
        raise UnfitError(f"heartbeat details have {TOO_LARGE}", type="DetailsTooLarge")
    return text


def hash_of(body: bytes | str | Any) -> bytes:
    """Return the sha256 of *body*: of bytes and texts as they are, of other values as JSON."""
    if isinstance(body, (bytes, bytearray)):
        return sha256(body).digest()
    if isinstance(body, str):
        return sha256(body.encode(errors="surrogatepass")).digest()
    value = json.loads(json_text(body, "the body", "Body"))
    return sha256(json.dumps(value, sort_keys=True).encode()).digest()


def said(exc: BaseException) -> str:
    """Return the message of *exc*, whose own code may raise anything."""
    try:
        return str(exc) or repr(exc)
    except Exception:  # noqa: BLE001 -- anything
        return f"{type(exc).__name__} that cannot say why"


def plain(text: str) -> str:
    """Return *text* as the database may keep it.

    No NUL and no lone surrogates, which jsonb cannot hold; no secrets; not endless.
    """
    text = told(text)  # before it is cut, which may leave a part of a secret
    short = text if len(text) <= MESSAGE_LIMIT else text[:MESSAGE_LIMIT] + "…"
    return short.replace("\0", "\\0").encode(errors="backslashreplace").decode()
