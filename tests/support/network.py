"""A network of names and public addresses that is all on 127.0.0.1, and a guard that counts who is asked and reached.

Names resolve to what the test says. A connection to a public address of the table ends at the same port of 127.0.0.1;
any other connection is counted as an offence and refused, so that nothing leaves the machine.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from ferrule._io import addresses, asyncio_connect, blocking_connect

PUBLIC = "93.184.216."
"""Where the honest names of a test live: addresses of the public internet."""

Addresses = list[str] | Callable[[], list[str]]
"""What a name stands for: always the same, or from one question to the next."""


class Network:
    """What was looked up and connected to.

    Attributes:
        names: Name -> the addresses it resolves to.
        homes: Addresses that stand for 127.0.0.1.
        looked_up: The names that were asked for, in order.
        connected: (address, port) of every attempt.
        offences: Those of them that lead elsewhere than to a home.
    """

    def __init__(self, names: Mapping[str, Addresses], homes: set[str]) -> None:
        self.names = dict(names)
        self.homes = homes
        self.looked_up: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self.offences: list[tuple[str, int]] = []

    def resolve(
        self, host: str | bytes, port: int, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> list[Any]:
        """In place of `getaddrinfo`, which only ever sees literals: nobody outside is asked."""
        name = host.decode() if isinstance(host, bytes) else host
        literals: list[Any] = [host]
        if name in self.names and not flags & socket.AI_NUMERICHOST:
            self.looked_up.append(name)
            addresses = self.names[name]
            literals = addresses() if callable(addresses) else addresses
        rest = (port, family, type, proto, flags | socket.AI_NUMERICHOST)
        return [found for literal in literals for found in _getaddrinfo(literal, *rest)]

    def reroute(self, address: Any) -> Any:
        """Where a connection really goes; refused and counted when it should not have been tried."""
        host, port = address[0], address[1]
        self.connected.append((host, port))
        if host in self.homes:
            return ("127.0.0.1", port)
        self.offences.append((host, port))
        raise ConnectionRefusedError(errno.ECONNREFUSED, "the guard of the test refused it")


_getaddrinfo = socket.getaddrinfo


@contextmanager
def network(names: Mapping[str, Addresses], homes: set[str]) -> Iterator[Network]:
    """The network, in place of the real one. `homes`: the addresses that are 127.0.0.1."""
    net = Network(names, homes)

    class Rerouted(socket.socket):
        def connect(self, address: Any) -> None:
            super().connect(net.reroute(address))

        def connect_ex(self, address: Any) -> int:
            return super().connect_ex(net.reroute(address))

    def open_socket(address: Any) -> socket.socket:
        sock = Rerouted(socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        return sock

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", net.resolve)
        for module in (addresses, asyncio_connect, blocking_connect):
            patch.setattr(module, "open_socket", open_socket)
        yield net
