"""A TCP proxy before Postgres that can go silent, and can pretend to be a pooler."""

from __future__ import annotations

import os
import re
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: A server's BackendKeyData message: type, length, process id, secret key.
KEY_DATA = re.compile(rb"K\x00\x00\x00\x0c....(?=....Z)", re.DOTALL)
ANOTHER = rb"K\000\000\000\014\000\000\000\007"


class Proxy:
    """Forwards connections to the server of the PG* variables.

    *pooling*: tell clients another process id than the server's, as poolers do.
    """

    def __init__(self, *, pooling: bool = False) -> None:
        self._pooling = pooling
        self._door = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._silent: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    @property
    def env(self) -> dict[str, str]:
        """The PG* variables that lead here."""
        host, port = self._door.getsockname()
        return {"PGHOST": host, "PGPORT": str(port), "PGSSLMODE": "disable"}

    def silence(self) -> None:
        """Swallow from now on what the connections of now say; new ones work."""
        self._silent.update(self._ends)

    def close(self) -> None:
        """End it: first the door, so that nobody comes in any more."""
        self._door.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._door, *self._ends):
            one.close()

    def _run(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = _server()
                self._ends += [client, server]
                self._run(self._forward, client, server)
                self._run(self._forward, server, client)

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if self._pooling:
                    data = KEY_DATA.sub(ANOTHER, data)
                if source not in self._silent:
                    target.sendall(data)
            if source not in self._silent:
                target.shutdown(socket.SHUT_WR)


def _server() -> socket.socket:
    host, port = os.environ["PGHOST"], os.environ.get("PGPORT", "5432")
    if not host.startswith("/"):
        return socket.create_connection((host, int(port)))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server
