"""A bank for the example, with the manners of real ones: a process of its own.

    python bank.py modern modern.db

`modern` takes an Idempotency-Key: what comes again under a key is not booked again. `old` knows no
keys and books whatever it receives, on receipt. `evening` knows none either, and lets what it
receives by day lie until the evening.

    POST /transfers    {"reference": …, "account": …, "satang": …}
    GET /transfers/…   what is booked under a reference
    POST /evening      let it be evening

What it knows is in a file, written before it answers, so that it can be killed and started again.
One request is dealt with after the other, in the order in which they arrive.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import sqlite3
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

STAFF = Path(__file__).parent / "staff.csv"

#: What becomes of a request to pay, if it is not just answered: refused for now, dropped unread;
#: booked and then not answered, answered later than anybody waits, answered twice.
FATES = ("busy", "lost", "silent", "late", "twice")
#: Each of them happens to one request in so many.
RARITY = {"modern": 150, "old": 150, "evening": 25}
#: Seconds until an answer that is late, and until the second of two.
LATE = 0.6
AGAIN = 0.005

BOOK = """
create table if not exists transfer (
    receipt integer primary key,
    reference text not null,
    account text not null,
    satang integer not null,
    key text unique,
    booked integer not null
);
create index if not exists transfer_reference_idx on transfer (reference);
create index if not exists transfer_tray_idx on transfer (receipt) where not booked;
create table if not exists evening (has_come integer not null);
create table if not exists request (reference text not null, fate text not null);
create index if not exists request_reference_idx on request (reference);
"""


class Answer(NamedTuple):
    """What the bank says, and what becomes of it on its way."""

    status: HTTPStatus
    body: dict[str, Any]
    fate: str = "answered"


def fate_of(reference: str, number: int, rarity: int = RARITY["old"]) -> str:
    """Return what becomes of the request of this number for a reference: at random, yet fixed."""
    place = crc32(f"{reference} {number}".encode()) % rarity
    return FATES[place] if place < len(FATES) else "answered"


class Bank:
    """The bank's book, and its rules."""

    def __init__(self, kind: str, file: Path) -> None:
        """Open the book, a new one where there is none."""
        self._rarity = RARITY[kind]
        self._takes_keys = kind == "modern"
        self._book = sqlite3.connect(file)
        # What is written survives the end of the process, if not that of the machine.
        self._book.executescript("pragma journal_mode = wal; pragma synchronous = off;" + BOOK)
        has_come = self._one("exists (select 1 from evening)")
        self._books_at_once = kind != "evening" or bool(has_come)
        with STAFF.open(encoding="utf-8", newline="") as lines:
            self._closed = {
                line["account"] for line in csv.DictReader(lines) if line["account_is"] == "closed"
            }

    def transfer(self, order: dict[str, Any], key: str | None) -> Answer:
        """Book an order, and remember that it was asked for; committed on return."""
        reference = order["reference"]
        with self._book:
            number = self._one("count(*) from request where reference = ?", reference)
            fate = fate_of(reference, number, self._rarity)
            self._book.execute("insert into request values (?, ?)", (reference, fate))
            if fate in {"busy", "lost"}:
                return Answer(HTTPStatus.SERVICE_UNAVAILABLE, {"code": "SERVICE_UNAVAILABLE"}, fate)
            if order["account"] in self._closed:
                return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"code": "ACCOUNT_CLOSED"}, fate)
            return self._booked(order, key if self._takes_keys else None)._replace(fate=fate)

    def find(self, reference: str) -> Answer:
        """Say what is booked under a reference, if that can be said."""
        with self._book:
            self._book.execute("insert into request values (?, 'asked')", (reference,))
        receipt = self._one("min(receipt) from transfer where reference = ? and booked", reference)
        if receipt is not None:
            return Answer(HTTPStatus.OK, {"receipt": receipt})
        # Nobody looks through what lies in the tray for the evening.
        if self._one("exists (select 1 from transfer where not booked)"):
            return Answer(HTTPStatus.TOO_EARLY, {"code": "ASK_AFTER_THE_EVENING"})
        return Answer(HTTPStatus.NOT_FOUND, {"code": "NOT_FOUND"})

    def evening(self) -> Answer:
        """Book all that has been received by day, and from now on what comes, on receipt."""
        with self._book:
            self._book.execute("update transfer set booked = 1 where not booked")
            self._book.execute("insert into evening values (1)")
        self._books_at_once = True
        return Answer(HTTPStatus.OK, {})

    def _booked(self, order: dict[str, Any], key: str | None) -> Answer:
        terms = (order["reference"], order["account"], order["satang"])
        query = "select receipt, reference, account, satang from transfer where key = ?"
        for receipt, *before in self._book.execute(query, (key,)):
            if tuple(before) != terms:
                return Answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"code": "KEY_REUSED"})
            return Answer(HTTPStatus.OK, {"receipt": receipt})
        receipt = self._book.execute(
            "insert into transfer (reference, account, satang, key, booked) values (?, ?, ?, ?, ?)",
            (*terms, key, self._books_at_once),
        ).lastrowid
        return Answer(HTTPStatus.OK, {"receipt": receipt})

    def _one(self, what: str, *params: Any) -> Any:
        return self._book.execute(f"select {what}", params).fetchone()[0]


class Teller(asyncio.Protocol):
    """One connection. A request is dealt with while its last byte is being received."""

    def __init__(self, bank: Bank) -> None:
        """Wait for a customer."""
        self._bank = bank
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember whom to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Deal with a request, once all of it is there."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if end)
        if not end or len(body) < int(headers.get("Content-Length", 0)):
            return
        self._received = b""
        method, path, _ = first.split()
        self._answer(method, path, json.loads(body or b"{}"), headers.get("Idempotency-Key"))

    def _answer(self, method: str, path: str, order: dict[str, Any], key: str | None) -> None:
        _, what, *reference = path.split("/")
        if method == "GET":
            order = {"reference": reference[0]}
            answer = self._bank.find(reference[0])
        elif what == "evening":
            answer = self._bank.evening()
        else:
            answer = self._bank.transfer(order, key)
        self._send(answer, {"reference": order.get("reference"), **answer.body})

    def _send(self, answer: Answer, body: dict[str, Any]) -> None:
        if answer.fate in {"lost", "silent"}:
            self._transport.abort()
            return
        text = json.dumps(body).encode()
        head = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        pauses = {"late": [LATE], "twice": [0, AGAIN]}.get(answer.fate, [0])
        for pause in pauses:
            self._say(head.encode() + text, pause)

    def _say(self, what: bytes, pause: float) -> None:
        if pause:
            asyncio.get_running_loop().call_later(pause, self._say, what, 0)
        elif not self._transport.is_closing():
            self._transport.write(what)


async def serve(bank: Bank, port: int) -> None:
    """Serve until killed; say at which port as soon as customers can come."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Teller(bank), "127.0.0.1", port, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Be a bank."""
    parser = argparse.ArgumentParser(description="A bank with the manners of real ones.")
    parser.add_argument("kind", choices=["modern", "old", "evening"])
    parser.add_argument("book", type=Path, help="the file with all it knows")
    parser.add_argument("--port", type=int, default=0, help="any that is free, if not given")
    args = parser.parse_args()
    asyncio.run(serve(Bank(args.kind, args.book), args.port))


if __name__ == "__main__":
    main()
