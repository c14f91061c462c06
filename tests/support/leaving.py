"""What leaves this machine, counted at the resolver and at the socket.

Names are answered as the test says, no real resolver is asked, and no address but loopback is ever connected to.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest


class Leaving:
    """What was asked for while it was watched.

    Attributes:
        names: Host names that were looked up, in order.
        addresses: Addresses that were connected to, or would have been.
    """

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.names: list[str] = []
        self.addresses: list[str] = []
        self._answers = dict(answers)
        self._real = socket.getaddrinfo

    def resolve(self, name: str) -> list[str]:
        """The addresses of a name; of several lists each lookup gets the next one, as a rebinding resolver does."""
        self.names.append(name)
        found = self._answers.get(name)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if found and not isinstance(found[0], str):
            return list(found.pop(0) if len(found) > 1 else found[0])
        return list(found)

    def getaddrinfo(self, host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        try:
            return self._real(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except socket.gaierror:
            if options.get("flags", 0) & socket.AI_NUMERICHOST:
                raise
        found: list[Any] = []
        for address in self.resolve(name):
            found += self._real(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return found


@contextmanager
def watched(answers: Mapping[str, Any] | None = None) -> Iterator[Leaving]:
    """Watch the resolver and every socket; `answers`: name -> addresses."""
    leaving = Leaving({"localhost": ["127.0.0.1"], **(answers or {})})
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def note(sock: socket.socket, address: Any) -> None:
        if sock.family not in (socket.AF_INET, socket.AF_INET6):
            return
        leaving.addresses.append(address[0])
        if address[0] not in ("127.0.0.1", "::1"):
            raise ConnectionRefusedError(111, "not from a test")

    def watched_connect(sock: socket.socket, address: Any) -> None:
        note(sock, address)
        connect(sock, address)

    def watched_connect_ex(sock: socket.socket, address: Any) -> int:
        try:
            note(sock, address)
        except OSError as error:
            return error.errno or 1
        return connect_ex(sock, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", leaving.getaddrinfo)
        patch.setattr(socket.socket, "connect", watched_connect)
        patch.setattr(socket.socket, "connect_ex", watched_connect_ex)
        yield leaving
